"""CB's macro F1, against scikit-learn."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from evalcore.task.transforms.cb import f1, macro_f1

CLASS = st.integers(0, 2)


@given(st.lists(st.tuples(CLASS, CLASS), min_size=1))
def test_macro_f1_is_that_of_scikit_learn_over_three_classes(pairs: list[tuple[int, int]]) -> None:
    golds, predictions = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = f1_score(golds, predictions, labels=[0, 1, 2], average="macro", zero_division=0)
    assert macro_f1(pairs) == pytest.approx(expected)


def test_a_model_that_always_says_the_same_scores_a_third_of_one_class() -> None:
    assert macro_f1([(0, 0), (1, 0), (2, 0)]) == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(
    ("letter", "predicted"), [("A", 0), ("B", 1), ("C", 2), ("[invalid]", -1), ("", -1), ("AB", -1)]
)
def test_a_letter_is_its_class_and_anything_else_is_none(letter: str, predicted: int) -> None:
    assert f1(["C"], [letter]) == (2, predicted)


def test_an_answer_that_is_no_class_costs_recall_only() -> None:
    pairs = [f1([gold], [said]) for gold, said in ("AA", "BB", "CC", ("A", "[invalid]"))]
    assert macro_f1(pairs) == pytest.approx((2 / 3 + 1 + 1) / 3)
