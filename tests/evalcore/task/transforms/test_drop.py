"""DROP's answers and its two measures, by hand from the paper's definitions."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms.drop import (
    best,
    compare,
    normal_form,
    overlap,
    scores,
    scores_as_one_span,
    spans_of,
    type_of,
    with_answers,
)

WORDS = ["the", "Red", "7-yard", "12", "12.5", "1,204", "Öster", "$5", "!", "goat", "team", "nan"]
SPANS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
NO_DATE = {"day": "", "month": "", "year": ""}


def answer(number: str = "", spans: list[str] | None = None, **date: str) -> dict[str, Any]:
    return {"number": number, "spans": spans or [], "date": {**NO_DATE, **date}}


@pytest.mark.parametrize(
    ("span", "normal"),
    [
        ("The 21-yard goal", "21.0 yard goal"),
        ("1,204", "1204.0"),
        ("12.50", "12.5"),
        ("60%", "60.0"),
        ("Jo-Ann  Lee's", "jo ann lees"),
        ("a", ""),
        ("1e3", "1000.0"),
    ],
)
def test_words_are_cut_at_hyphens_and_numbers_are_floats(span: str, normal: str) -> None:
    assert normal_form(span) == normal


def test_an_answer_is_a_number_or_spans_or_a_date() -> None:
    assert spans_of(answer(number="7.5")) == ("7.5",)
    assert spans_of(answer(spans=["Ada", "Bo"])) == ("Ada", "Bo")
    assert spans_of(answer(day="3", month="May", year="1874")) == ("3 May 1874",)
    assert spans_of(answer(year="1871")) == ("1871",)
    assert spans_of(answer()) == ("",)


def test_the_type_is_that_of_the_papers_tables() -> None:
    of = [answer(number="1"), answer(spans=["x"]), answer(spans=["x", "y"]), answer(year="1871")]
    assert [type_of(one) for one in of] == ["number", "span", "spans", "date"]


def test_the_answers_are_the_first_one_and_the_checked_ones_each_once() -> None:
    from datasets import Dataset

    checked = {"number": ["7", ""], "date": [NO_DATE, NO_DATE], "spans": [[], ["seven points"]]}
    rows = Dataset.from_list([{"answer": answer(number="7"), "validated_answers": checked}])
    assert with_answers(rows)[0]["answers"] == [["7"], ["seven points"]]


def test_f1_is_divided_by_the_longer_side() -> None:
    # {ada, brandt} with {brandt}: 1 of 1 and 1 of 2 words, 2/3; the second span has no partner.
    assert compare(["Ada Brandt", "Jo-Ann Lee"], ["Brandt"]) == (0, 0.33)
    assert compare(["Brandt"], ["Ada Brandt", "Jo-Ann Lee"]) == (0, 0.33)


def test_spans_are_paired_as_suits_best() -> None:
    # Bo Lee goes with Bo and Ada Lee with Ada Lee: (2/3 + 1) / 2.
    assert compare(["Bo", "Ada Lee"], ["Ada Lee", "Bo Lee"]) == (0, 0.83)


def test_a_span_without_the_right_number_is_worth_nothing() -> None:
    assert compare(["21 yards"], ["3 yards"]) == (0, 0)
    assert compare(["yards"], ["3 yards"]) == (0, 0.67)


def test_the_best_of_the_answers_counts_and_an_empty_one_does_not() -> None:
    assert best([["seven"], ["7"]], ["7.0"]) == (1, 1)
    assert best([[""]], [""]) == (0, 0)


def test_a_line_is_one_span_or_several() -> None:
    doc = {"answers": [["farmers", "smiths", "millers"]]}
    assert scores(doc, [" smiths, millers, farmers\nPassage:"]) == {"em": 1, "f1": 1}
    assert scores({"answers": [["Brno, Moravia"]]}, [" Brno, Moravia"]) == {"em": 1, "f1": 1}
    assert scores_as_one_span(doc, ["smiths, millers, farmers"]) == {"em": 0, "f1": 0.17}


def test_an_empty_response_is_wrong() -> None:
    assert scores({"answers": [["12"]]}, ["\n"]) == {"em": 0, "f1": 0}


@given(st.lists(SPANS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_spans_does_not_matter(spans: list[str], random: Any) -> None:
    shuffled = list(spans)
    random.shuffle(shuffled)
    assert compare(spans, shuffled) == (1, 1)


@settings(deadline=None)
@given(st.lists(SPANS, min_size=1, max_size=3), st.lists(SPANS, min_size=1, max_size=3))
def test_no_pairing_gives_more(right: list[str], said: list[str]) -> None:
    _, f1 = compare(right, said)
    shorter, longer = sorted([_bags(right), _bags(said)], key=len)
    of_pairs = (
        sum(
            overlap(a, b) if len(right) <= len(said) else overlap(b, a)
            for a, b in zip(shorter, order, strict=False)
        )
        for order in permutations(longer)
    )
    assert f1 == pytest.approx(float(np.round(max(of_pairs) / len(longer), 2)))


def _bags(spans: list[str]) -> list[frozenset[str]]:
    return [frozenset(normal_form(span).split()) for span in spans]


@given(st.text())
def test_any_text_has_a_normal_form(text: str) -> None:
    assert compare([text], [text]) == (1, 1)
