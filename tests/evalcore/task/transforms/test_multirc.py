"""MultiRC: F1 over answers, exact match over questions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from evalcore.task.transforms.multirc import em, f1a, of_choices, of_letter, of_rotated_choices

RIGHT = {"label": 1, "idx": {"paragraph": 3, "question": 5, "answer": 8}}
FIRST, SECOND = [(-1.0, True), (-2.0, False)], [(-2.0, False), (-1.0, True)]
LABEL = st.integers(0, 1)


@pytest.mark.parametrize(
    ("scored", "metric", "predicted"),
    [
        (of_choices(RIGHT, FIRST), "acc", 0),
        (of_choices(RIGHT, SECOND), "acc", 1),
        (of_rotated_choices(RIGHT, FIRST), "acc", 1),
        (of_rotated_choices(RIGHT, SECOND), "acc", 0),
        (of_letter(RIGHT, ["A"]), "exact_match", 0),
        (of_letter(RIGHT, ["B"]), "exact_match", 1),
        (of_letter(RIGHT, ["[invalid]"]), "exact_match", 0),
        (of_letter(RIGHT | {"label": 0}, ["[invalid]"]), "exact_match", 1),
        (of_letter(RIGHT, [""]), "exact_match", 0),
    ],
)
def test_a_row_gives_what_was_predicted_and_its_question(
    scored: dict[str, Any], metric: str, predicted: int
) -> None:
    label = scored["f1"][0]
    assert scored == {
        metric: float(label == predicted),
        "f1": (label, predicted),
        "em": ("3/5", 8, (label, predicted)),
    }


@given(st.lists(st.tuples(LABEL, LABEL), min_size=1))
def test_f1_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    labels, predictions = zip(*pairs, strict=True)
    assert f1a(pairs) == pytest.approx(f1_score(labels, predictions, zero_division=0))


def test_a_question_counts_only_if_every_answer_is_right() -> None:
    items = [("0/0", 0, (1, 1)), ("0/0", 1, (0, 0)), ("0/1", 2, (1, 1)), ("0/1", 3, (1, 0))]
    assert em(items) == 0.5


def test_questions_of_two_paragraphs_are_told_apart() -> None:
    assert em([("0/0", 0, (1, 1)), ("1/0", 1, (1, 0))]) == 0.5


def test_a_question_that_a_resample_holds_twice_counts_twice() -> None:
    drawn_twice = [("0/0", 0, (1, 1)), ("0/0", 1, (0, 0))] * 2
    assert em([*drawn_twice, ("1/1", 2, (0, 1))]) == pytest.approx(2 / 3)
