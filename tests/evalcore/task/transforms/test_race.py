"""RACE by passage: the last question is asked after the others and their answers."""

from __future__ import annotations

from typing import Any

from datasets import Dataset

from evalcore.task.transforms.race import ask_last

WELL = {"question": "Who dug it?", "answer": "B", "options": ["Ann", "Bo", "Cy", "Di"]}
TITLE = {"question": "The best title is   _  .", "answer": "D", "options": ["1", "2", "3", "4"]}
DEPTH = {"question": "It is  _  .", "answer": "A", "options": ["deep", "Bo's", '"dry"', ""]}


def asked(*problems: dict[str, Any]) -> dict[str, Any]:
    rows = Dataset.from_list([{"article": "A well.", "problems": repr(list(problems))}])
    doc: dict[str, Any] = ask_last(rows)[0]
    return doc


def test_a_passage_with_one_question_shows_no_other() -> None:
    doc = asked(WELL)
    assert doc["asked"] == "Article: A well.\n\nWho dug it?"
    assert (doc["options"], doc["gold"]) == (["Ann", "Bo", "Cy", "Di"], 1)


def test_earlier_questions_stand_with_their_answers() -> None:
    assert asked(WELL, TITLE)["asked"] == (
        "Article: A well.\n\nQuestion: Who dug it?\nAnswer: Bo\nThe best title is   _  ."
    )


def test_an_answer_completes_the_sentence_that_ends_in_a_blank() -> None:
    assert asked(DEPTH, WELL)["asked"] == "Article: A well.\n\nIt is deep\nWho dug it?"


def test_options_with_quotes_and_empty_ones_stay_as_they_are() -> None:
    assert asked(WELL, DEPTH)["options"] == ["deep", "Bo's", '"dry"', ""]
