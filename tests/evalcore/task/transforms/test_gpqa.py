"""GPQA: the order of the choices depends on nothing but the document."""

from __future__ import annotations

from collections import Counter
from typing import Any

from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.gpqa import ANSWERS, RIGHT, choices_of, shuffled

TEXTS = st.text(max_size=8)


def row(question: str, *answers: str | None) -> dict[str, Any]:
    return {"Question": question, **dict(zip(ANSWERS, answers, strict=True)), "Record ID": "rec"}


@given(st.text(), st.tuples(TEXTS, TEXTS, TEXTS, TEXTS))
def test_the_four_answers_stay_and_the_right_one_is_marked(
    question: str, answers: tuple[str, str, str, str]
) -> None:
    choices, right = choices_of(row(question, *answers))
    assert Counter(choices) == Counter(text.strip() for text in answers)
    assert choices[right] == answers[0].strip()


@given(st.text(), st.permutations(["a", "b", "c"]))
def test_the_order_of_the_wrong_answers_columns_does_not_matter(
    question: str, wrong: list[str]
) -> None:
    assert choices_of(row(question, "d", *wrong)) == choices_of(row(question, "d", "a", "b", "c"))


def test_neither_order_nor_limit_of_the_rows_changes_a_document() -> None:
    rows = [row(f"question {n}", "right", "wrong", "worse", "worst") for n in range(20)]
    whole = shuffled(Dataset.from_list(rows))
    backwards = shuffled(Dataset.from_list(rows[::-1]))
    first = shuffled(Dataset.from_list(rows[:3]))
    assert list(whole) == list(backwards)[::-1]
    assert list(whole)[:3] == list(first)
    assert set(rows[0]) < set(whole.column_names)


def test_the_right_answer_is_in_every_place_about_equally_often() -> None:
    places = Counter(
        choices_of(row(f"question {n}", "right", "wrong", "worse", "worst"))[1] for n in range(4000)
    )
    assert sorted(places) == [0, 1, 2, 3]
    assert all(abs(count - 1000) < 150 for count in places.values())


def test_the_order_is_the_same_on_every_machine_and_in_every_version() -> None:
    document = row("How many moons has Mars?", "two", "one", "none", "four")
    assert choices_of(document) == (["two", "four", "one", "none"], 0)


def test_white_space_around_an_answer_and_a_missing_one_do_no_harm() -> None:
    document = row("Which?", " right\n", None, "", "wrong")
    choices, right = choices_of(document)
    assert sorted(choices) == ["", "", "right", "wrong"]
    assert choices[right] == document[RIGHT].strip()
