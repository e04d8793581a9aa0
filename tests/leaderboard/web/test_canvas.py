"""Whatever words stand on a picture, it keeps its margins, and shows no box for an unseen sign."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops

from leaderboard.web.canvas import HEIGHT, LEFT, PAPER, RIGHT, SIZE, WIDTH, Canvas

ROUNDING = 4
"""Pixels by which a letter may lean out of its own width."""


def margins_of(picture: bytes) -> bool:
    """Whether anything is drawn left or right of where words may stand."""
    with Image.open(BytesIO(picture)) as opened:
        paper = Image.new("RGB", SIZE, PAPER)
        drawn = ImageChops.difference(opened.convert("RGB"), paper).getbbox()
    assert drawn is not None
    left, _, right, bottom = drawn
    return left < LEFT - ROUNDING or right > RIGHT + ROUNDING or bottom > HEIGHT


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=150), st.text(max_size=150), st.text(max_size=90), st.text(max_size=150))
def test_no_words_leave_the_sheet(title: str, told: str, after: str, notice: str) -> None:
    assert not margins_of(Canvas.headed(title, told, after=after, notice=notice).png())


@pytest.mark.parametrize("word", ["W" * 300, "<script>" * 40, "i" * 300, "a word " * 60])
def test_long_words_are_cut_wherever_they_stand(word: str) -> None:
    for words in ({"after": word}, {"notice": word}, {}):
        sheet = Canvas.headed("lab/model", "rank 1", **words)
        assert not margins_of(sheet.png())
    assert not margins_of(Canvas.headed(word, word).png())
    assert WIDTH > RIGHT


def test_signs_that_nobody_sees_are_not_drawn() -> None:
    seen = Canvas.headed("lab/model", "rank 1 of 2", after="1.0", notice="made up").png()
    hidden = {"after": "\u20661.0\u2069", "notice": "made\tup\u200b"}
    assert Canvas.headed("\u202elab/mo\u00addel", "rank 1\nof 2\0", **hidden).png() == seen
