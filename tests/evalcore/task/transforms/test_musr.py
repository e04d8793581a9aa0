"""MuSR: choices from the text of a list, and a name for each story."""

from __future__ import annotations

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.musr import options_of, with_options


@given(st.lists(st.text()))
def test_the_choices_are_those_that_python_wrote(options: list[str]) -> None:
    assert options_of(repr(options)) == options


@pytest.mark.parametrize("text", ["", "Ada, Bo", "['Ada', 1]", "{'Ada': 1}", "'Ada'", "['Ada'"])
def test_what_is_no_list_of_texts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a Python list of texts"):
        options_of(text)


def test_questions_on_one_story_have_the_same_name() -> None:
    rows = [
        {"narrative": story, "question": question, "choices": "['a', \"b's\"]"}
        for story, question in (("A key lay here.", "1"), ("A key lay here.", "2"), ("Rain.", "1"))
    ]
    found = with_options(Dataset.from_list(rows))
    first, second, third = found["story"]
    assert first == second != third
    assert found["options"][0] == ["a", "b's"]
    assert list(found["narrative"]) == [row["narrative"] for row in rows]
