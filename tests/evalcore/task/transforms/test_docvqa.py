"""DocVQA's ANLS: how near a response is to a right answer, letter by letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.docvqa import edits, nearness, process_results

TEXTS = st.text("abc ", max_size=8)


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("", "", 0), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("", "abc", 3), ("ab", "ba", 2)],
)
def test_edits(one: str, other: str, count: int) -> None:
    assert edits(one, other) == count


@given(TEXTS, TEXTS, TEXTS)
def test_edits_are_a_distance(one: str, other: str, third: str) -> None:
    assert edits(one, other) == edits(other, one)
    assert (edits(one, other) == 0) == (one == other)
    assert edits(one, third) <= edits(one, other) + edits(other, third)
    assert abs(len(one) - len(other)) <= edits(one, other) <= max(len(one), len(other))


@pytest.mark.parametrize(
    ("said", "right", "value"),
    [("total", "total", 1.0), ("totel", "total", 0.8), ("ab", "xb", 0.0), ("", "", 1.0)],
)
def test_from_half_of_the_letters_on_an_answer_is_wrong(
    said: str, right: str, value: float
) -> None:
    assert nearness(said, right) == pytest.approx(value)


def test_the_nearest_of_several_answers_counts_whatever_its_case_and_spaces() -> None:
    doc = {"answers": ["Forty-two", "42.50"]}
    assert process_results(doc, [" forty-TWO "]) == {"anls": 1.0, "exact_match": 1.0}
    assert process_results(doc, ["42.5"]) == {"anls": pytest.approx(0.8), "exact_match": 0.0}
    assert process_results(doc, ["none"]) == {"anls": 0.0, "exact_match": 0.0}
