"""All questions of a run in one picture: a square for each, right ones filled, wrong ones hollow.

A run of thousands of questions has squares that stand for several, filled from below as far as
these are right; so has a metric that gives a question a part of a point.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZES = ((13, 3), (11, 3), (8, 2), (5, 2))
"""Sides of a square and gaps in pixels, the largest that fits is taken."""


@dataclass(frozen=True, kw_only=True)
class Waffle:
    """Squares in rows in the order of the file, in pixels."""

    questions: int
    right: int | None
    """None where a question's score is more than right or wrong."""
    per_square: int
    """Questions that one square stands for."""
    width: int
    height: int
    side: int
    squares: tuple[tuple[int, int, int], ...]
    """Left edge, top and how many pixels are filled from below, of each square."""

    @property
    def filled(self) -> str:
        """An SVG path of all that is filled."""
        side = self.side
        return "".join(
            f"M{x} {y + side - level}h{side}v{level}h-{side}z"
            for x, y, level in self.squares
            if level
        )

    @property
    def hollow(self) -> str:
        """An SVG path around the squares that are not full, to be drawn one pixel wide."""
        inner = self.side - 1
        return "".join(
            f"M{x}.5 {y}.5h{inner}v{inner}h-{inner}z"
            for x, y, level in self.squares
            if level < self.side
        )

    @property
    def label(self) -> str:
        """What the picture shows, for readers who cannot see it."""
        questions = f"{self.questions:,} question{'' if self.questions == 1 else 's'}"
        return questions if self.right is None else f"{questions}, {self.right:,} right"

    @property
    def caption(self) -> str:
        """How the squares are read."""
        questions = f"{self.questions:,} question{'' if self.questions == 1 else 's'}"
        if self.per_square > 1:
            part = "are right" if self.right is not None else "score"
            each = f"{self.per_square} to a square, filled as far as they {part}"
            return f"{questions} in the order of the file, {each}"
        rule = "hollow is wrong" if self.right is not None else "filled as far as each scores"
        return f"{questions} in the order of the file; {rule}"


def draw_waffle(scores: NDArray[Any], *, width: int, height: int) -> Waffle | None:
    """The questions with these scores within a frame of pixels; the height shrinks to the rows.

    None where a score is missing or is no share of a point, as with perplexities.
    """
    values = np.asarray(scores, np.float64)
    if not len(values) or not ((values >= 0) & (values <= 1)).all():
        return None
    is_binary = bool(np.isin(values, (0.0, 1.0)).all())
    side, gap, per_square = _fitting(len(values), width, height)
    across = _across(width, side, gap)
    starts = np.arange(0, len(values), per_square)
    sizes = np.diff(np.append(starts, len(values)))
    shares = np.add.reduceat(values, starts) / sizes
    squares = tuple(
        (place % across * (side + gap), place // across * (side + gap), _level(share, side))
        for place, share in enumerate(shares.tolist())
    )
    rows = ceil(len(shares) / across)
    return Waffle(
        questions=len(values),
        right=int(values.sum()) if is_binary else None,
        per_square=per_square,
        width=across * (side + gap) - gap,
        height=rows * (side + gap) - gap,
        side=side,
        squares=squares,
    )


def _fitting(questions: int, width: int, height: int) -> tuple[int, int, int]:
    """Side, gap and questions per square: one question each where any size has the room."""
    for side, gap in SIZES:
        if questions <= _across(width, side, gap) * _across(height, side, gap):
            return side, gap, 1
    side, gap = next(size for size in SIZES if size[0] <= height)
    room = _across(width, side, gap) * _across(height, side, gap)
    return side, gap, ceil(questions / room)


def _across(length: int, side: int, gap: int) -> int:
    return (length + gap) // (side + gap)


def _level(share: float, side: int) -> int:
    """Pixels of a square that are filled; full and empty are kept for all and none."""
    if share in (0.0, 1.0):
        return round(share * side)
    return min(max(round(share * side), 1), side - 1)
