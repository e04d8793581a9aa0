"""The answers of MathQA, which stand in one text."""

from __future__ import annotations

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.mathqa import choices_in, with_choices


@pytest.mark.parametrize(
    ("options", "choices"),
    [
        (
            "a ) 38 , b ) 27.675 , c ) 30 , d ) 31 , e ) none of these",
            ["38", "27.675", "30", "31", "none of these"],
        ),
        ("a ) rs . 4,000 , b ) 5 , c ) 6 , d ) 7 , e ) 8", ["rs . 4,000", "5", "6", "7", "8"]),
        ("a ) 1 , 2 , b ) 2 , 3 , c ) 3 , d ) 4 , e ) 5", ["1 , 2", "2 , 3", "3", "4", "5"]),
        ("a )  , b ) x , c ) y , d ) z , e ) w", ["", "x", "y", "z", "w"]),
        ("a ) 1 , c ) 2 , b ) 3", ["1 , c ) 2", "3"]),
        ("", []),
        ("no labels", []),
    ],
)
def test_an_answer_reaches_from_its_label_to_the_next(options: str, choices: list[str]) -> None:
    assert choices_in(options) == choices


def test_each_problem_gets_its_answers_in_a_column() -> None:
    options = "a ) 1 , b ) 2 , c ) 3 , d ) 4 , e ) 5"
    (doc,) = with_choices(Dataset.from_list([{"Problem": "one ?", "options": options}]))
    assert doc == {"Problem": "one ?", "options": options, "choices": ["1", "2", "3", "4", "5"]}


@given(
    st.lists(st.text(alphabet="xyz 019./%{}'", max_size=9).map(str.strip), min_size=5, max_size=5)
)
def test_answers_written_as_the_data_set_writes_them_are_found(answers: list[str]) -> None:
    written = " , ".join(f"{label} ) {text}" for label, text in zip("abcde", answers, strict=True))
    assert choices_in(written) == answers
