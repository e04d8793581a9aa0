"""ReCoRD: prompts from a passage, and a name's score against its aliases."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.record import exact, f1, of_choices, of_text, prepare

ROW: dict[str, Any] = {
    "passage": "  Lena Ortiz won.\n@highlight\nOrtiz is 19\n@highlight\nVos lost a mast\n",
    "query": "@placeholder waved, and @placeholder left",
    "entities": ["Vos", "Ortiz", "Lena Ortiz", "Ortiz"],
    "answers": ["Ortiz", "Lena Ortiz", "Ortiz"],
    "idx": {"passage": 4, "query": 9},
}


def prepared(**changed: Any) -> dict[str, Any]:
    doc: dict[str, Any] = prepare(Dataset.from_list([ROW | changed]))[0]
    return doc


def test_a_passage_is_its_article_and_the_points_of_its_summary() -> None:
    doc = prepared()
    assert doc["article"] == "Lena Ortiz won."
    assert doc["highlights"] == ["Ortiz is 19", "Vos lost a mast"]
    assert doc["passage_id"] == 4


def test_every_name_is_asked_once_in_place_of_each_placeholder() -> None:
    doc = prepared()
    assert doc["entities"] == ["Lena Ortiz", "Ortiz", "Vos"]
    assert doc["completions"][2] == "  - Vos waved, and Vos left"
    assert doc["name_count"] == len(doc["completions"]) == 3


def test_the_example_shows_the_first_right_name_of_the_alphabet() -> None:
    assert prepared()["completed"] == "  - Lena Ortiz waved, and Lena Ortiz left"


def test_a_row_without_an_answer_has_no_completion() -> None:
    assert prepared(answers=[])["completed"] == ""


def test_the_likeliest_name_counts_if_it_is_an_alias() -> None:
    results = [(-3.0, False), (-1.0, False), (-2.0, False)]
    assert of_choices(prepared(), results) == {"acc": 1.0, "em": 1.0, "f1": 1.0}


def test_a_name_that_shares_words_with_an_alias_scores_in_part() -> None:
    doc = prepared(entities=["Bo Ortiz", "Vos"], answers=["Lena Ortiz"])
    scores = of_choices(doc, [(-1.0, False), (-2.0, False)])
    assert scores == {"acc": 0.0, "em": 0.0, "f1": 0.5}


@pytest.mark.parametrize(
    ("text", "exact_match", "overlap"),
    [
        ("the ortiz!", 1.0, 1.0),
        ("Lena", 0.0, 2 / 3),
        ("Vos", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_generated_text_scores_against_the_alias_that_fits_best(
    text: str, exact_match: float, overlap: float
) -> None:
    assert of_text(prepared(), [text]) == {
        "exact_match": exact_match,
        "f1": pytest.approx(overlap),
    }


@pytest.mark.parametrize(
    ("answer", "right", "score"),
    [("U.S.", "us", 1.0), ("The Hague", "hague", 1.0), ("the", "", 1.0), ("the", "a b", 0.0)],
)
def test_case_punctuation_and_articles_do_not_count(answer: str, right: str, score: float) -> None:
    assert (exact(answer, right), f1(answer, right)) == (score, score)


@given(st.text("ab .T"), st.text("ab .T"))
def test_f1_is_symmetric_between_0_and_1_and_1_where_the_answers_agree(a: str, b: str) -> None:
    assert f1(a, b) == f1(b, a)
    assert 0 <= exact(a, b) <= f1(a, b) <= 1
