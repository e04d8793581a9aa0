"""A run's questions as squares: each question is in the picture once, as right as it was."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.samples import Waffle, draw_waffle

FRAMES = ((845, 160), (322, 200), (369, 26))
SQUARE = re.compile(r"M(\d+) (\d+)h(\d+)v(\d+)")
OUTLINE = re.compile(r"M(\d+)\.5 (\d+)\.5h")


def drawn(scores: list[float], frame: tuple[int, int]) -> Waffle:
    picture = draw_waffle(np.array(scores), width=frame[0], height=frame[1])
    assert picture is not None
    return picture


@given(st.lists(st.booleans(), min_size=1, max_size=250), st.sampled_from(FRAMES))
def test_where_there_is_room_each_question_has_a_square_of_its_own_in_order(
    right: list[bool], frame: tuple[int, int]
) -> None:
    picture = drawn([float(one) for one in right], frame)
    if picture.per_square > 1:
        assert len(right) > 212  # what the smallest frame holds
        return
    assert picture.right == sum(right)
    filled = {(int(y), int(x)): True for x, y, _, _ in SQUARE.findall(picture.filled)}
    hollow = {(int(y), int(x)): False for x, y in OUTLINE.findall(picture.hollow)}
    squares = filled | hollow
    assert [squares[place] for place in sorted(squares)] == right
    assert all(width == height for _, _, width, height in SQUARE.findall(picture.filled))


@given(st.integers(1, 20_000), st.floats(0, 1), st.sampled_from(FRAMES))
def test_the_picture_stays_within_its_frame_and_is_filled_as_far_as_answers_are_right(
    n: int, share: float, frame: tuple[int, int]
) -> None:
    right = round(share * n)
    picture = drawn([1.0] * right + [0.0] * (n - right), frame)
    assert picture.width <= frame[0]
    assert picture.height <= frame[1]
    levels = [int(level) for _, _, _, level in SQUARE.findall(picture.filled)]
    side = int(SQUARE.findall(picture.filled)[0][2]) if levels else 1
    squares = -(-n // picture.per_square)
    full = sum(level == side for level in levels)
    assert full <= right // picture.per_square + 1, "a square is full only where all are right"
    assert abs(sum(levels) / side / squares - right / n) <= 1 / squares + 1e-9


def test_scores_between_right_and_wrong_fill_a_part_and_others_have_no_picture() -> None:
    picture = drawn([0.5, 1.0, 0.01, 0.0], FRAMES[0])
    assert picture.right is None
    assert [level for _, _, _, level in SQUARE.findall(picture.filled)] == ["6", "13", "1"]
    assert picture.caption == "4 questions in the order of the file; filled as far as each scores"
    for scores in ([1.2, 0.0], [-0.1], [float("nan"), 1.0], []):
        assert draw_waffle(np.array(scores), width=845, height=160) is None


@pytest.mark.parametrize(
    ("n", "caption"),
    [
        (1, "1 question in the order of the file; hollow is wrong"),
        (
            14_042,
            "14,042 questions in the order of the file, 27 to a square, "
            "filled as far as they are right",
        ),
    ],
)
def test_the_caption_says_how_the_squares_are_read(n: int, caption: str) -> None:
    assert drawn([1.0] * n, FRAMES[0]).caption == caption
