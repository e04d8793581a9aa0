"""WikiText's tokens back to text, by hand from what the tokenisation does."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.wikitext import by_original_length, plain, plain_page


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("a well @-@ known man", "a well-known man"),
        ("1 @,@ 204 metres and 3 @.@ 5 feet", "1,204 metres and 3.5 feet"),
        ("film , television and theatre . He", "film, television and theatre. He"),
        ("Who ? Me ! Well ; no : yes", "Who? Me! Well; no: yes"),
        ("the bridge ( with both ramps ) fell", "the bridge (with both ramps) fell"),
        ("a [ sic ] and { b }", "a [sic] and {b}"),
        ('he said " no " twice', 'he said "no" twice'),
        ("he said ' no ' twice", "he said 'no' twice"),
        ("the sisters ' house", "the sisters' house"),
        ("the keeper 's house", "the keeper's house"),
        ("at 5 ° C", "at 5°C"),
        (" = = History = = \n \n Text", " == History ==\n\nText"),
        ("= = = Fish = = =", "=== Fish ==="),
        ("N people , and N more", "N people, and 1 more"),
        ("( nobody closes this", "( nobody closes this"),
        ("", ""),
    ],
)
def test_marks_of_the_tokenisation_become_what_people_write(tokens: str, text: str) -> None:
    assert plain(tokens) == text


def test_a_page_is_shown_plain_and_measured_as_the_data_set_has_it() -> None:
    page = {"page": " = Café = \n \n Tea @-@ house . \n "}
    assert plain_page(page) == " = Café =\n\nTea-house.\n"
    scored = by_original_length(page, [-12.5])
    words = ["", "=", "Café", "=", "Tea", "@-@", "house", ".", ""]
    assert scored["word_perplexity"] == (-12.5, len(words))
    assert scored["byte_perplexity"] == scored["bits_per_byte"] == (-12.5, len(page["page"]) + 1)


@given(st.text(alphabet="abc XYZ019\n", max_size=60).filter(lambda text: " N " not in text))
def test_text_without_marks_keeps_its_words(text: str) -> None:
    assert plain(text).split() == text.split()


@given(st.text(max_size=80), st.floats(min_value=-1e4, max_value=0))
def test_no_page_is_without_a_word(text: str, likelihood: float) -> None:
    scored = by_original_length({"page": text}, [likelihood])
    assert scored["word_perplexity"][1] >= 1
    assert isclose(scored["bits_per_byte"][1], len(text.encode()))
