"""The forest plot: differences with their intervals around one plumb line at zero.

Places are percent of the cell, so that the drawing fits any width and its text keeps its size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from leaderboard.compare.pair import Difference, How

MIDDLE, HALF = 50.0, 46.0
"""Percent: where zero is, and how far the axis reaches to each side."""
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
_MOST_TICKS = 3
_NARROWEST = 1.0
"""Points that an axis shows to each side at least."""


@dataclass(frozen=True)
class Mark:
    """One interval, its ends as the drawing writes them."""

    low: str
    x: str
    high: str


@dataclass(frozen=True)
class Axis:
    """As far to the left as to the right of zero, in points."""

    reach: float

    @classmethod
    def around(cls, differences: Iterable[Difference]) -> Self:
        """The axis that holds every one of these intervals whole."""
        ends = [abs(end) for one in differences for end in (one.low, one.high)]
        return cls(max(100 * max(ends, default=0.0), _NARROWEST))

    def x(self, value: float) -> float:
        """Percent from the cell's left edge of a difference in shares of 1."""
        return MIDDLE + HALF * 100 * value / self.reach

    def mark(self, found: Difference) -> Mark | None:
        """None where there is nothing to draw: the same score on every question."""
        if found.how is How.SAME:
            return None
        low, x, high = (f"{self.x(end):.2f}%" for end in (found.low, found.value, found.high))
        return Mark(low, x, high)

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Place and label of a few round values on both sides."""
        fitting = (step for step in _STEPS if self.reach / step < _MOST_TICKS + 1)
        step = next(fitting, _STEPS[-1])
        count = min(int(self.reach / step), _MOST_TICKS)
        values = [sign * step * place for place in range(1, count + 1) for sign in (-1, 1)]
        return [
            (f"{self.x(value / 100):.2f}", f"{value:+g}".replace("-", "−"))
            for value in sorted(values)
        ]
