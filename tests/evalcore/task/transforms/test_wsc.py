"""WSC's passages: the pronoun in question is marked, wherever the row's index points."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.wsc import add_passage, marked


def row(text: str, index: int, pronoun: str) -> dict[str, Any]:
    return {"text": text, "span2_index": index, "span2_text": pronoun}


@pytest.mark.parametrize(
    ("text", "index", "pronoun", "passage"),
    [
        ("The cup fell since it was wet.", 4, "it", "The cup fell since *it* was wet."),
        ("He saw Ivo.", 0, "He", "*He* saw Ivo."),
        ("Ivo waved to him.", 3, "him", "Ivo waved to *him*."),
        ('Ivo said "She left."', 2, "She", 'Ivo said"*She* left."'),
        ("It is n't it .", 3, "it", "It isn't *it*."),
        ("They ( all ) knew they won , and", 5, "they", "They (all) knew *they* won, and"),
        ("One\nline,  two blanks and it", 5, "it", "One\nline,  two blanks and *it*"),
    ],
)
def test_the_pronoun_stands_between_asterisks(
    text: str, index: int, pronoun: str, passage: str
) -> None:
    assert marked(row(text, index, pronoun)) == passage


def test_an_index_that_is_one_word_early_still_finds_the_pronoun() -> None:
    assert marked(row("They might want to use it, but why?", 4, "it")) == (
        "They might want to use *it*, but why?"
    )


def test_every_row_has_its_passage_beside_its_own_columns() -> None:
    rows = Dataset.from_list([row("He left.", 0, "He"), row("Did he leave?", 1, "he")])
    added = add_passage(rows)
    assert added["passage"] == ["*He* left.", "Did *he* leave?"]
    assert added["text"] == rows["text"]


@given(st.lists(st.text("abcü", min_size=1), min_size=1), st.data())
def test_nothing_but_the_two_asterisks_is_added(words: list[str], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(words) - 1))
    passage = marked(row(" ".join(words), index, words[index]))
    assert passage.replace("*", "") == " ".join(words)
    assert passage.split(" ")[index] == f"*{words[index]}*"
