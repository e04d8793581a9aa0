"""From a score to a place in a cell: one scale per column, never per row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import Protocol

SCALE_STEP = 0.05
"""Scales begin and end on a multiple of five points."""


class Bounded(Protocol):
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


@dataclass(frozen=True)
class Scale:
    """Maps fractions from `low` to `high` onto percent of a cell's width, `start` to `end`."""

    low: float
    high: float
    start: float = 10.0
    end: float = 90.0
    share: bool = True
    """Whether it is of shares of 1, written as percent."""

    @classmethod
    def plain(cls, low: float, high: float, *, start: float = 10.0, end: float = 90.0) -> Scale:
        """A scale of numbers that are no shares, from bound to bound."""
        return cls(low, high if high > low else low + 1.0, start, end, share=False)

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends as they are written."""
        if self.share:
            return f"{100 * self.low:.0f}", f"{100 * self.high:.0f}"
        return f"{self.low:,.3g}", f"{self.high:,.3g}"

    @classmethod
    def around(cls, low: float, high: float, *, start: float = 10.0, end: float = 90.0) -> Scale:
        """The narrowest scale on full steps within 0 to 1 that holds both bounds."""
        first = max(0.0, floor(round(low / SCALE_STEP, 9)) * SCALE_STEP)
        last = min(1.0, ceil(round(high / SCALE_STEP, 9)) * SCALE_STEP)
        if last - first < SCALE_STEP:
            first, last = max(0.0, first - SCALE_STEP), min(1.0, first + SCALE_STEP)
        return cls(first, last, start, end)

    @classmethod
    def over(
        cls,
        intervals: Iterable[Bounded],
        *others: float | None,
        share: bool = True,
        start: float = 3.0,
        end: float = 97.0,
    ) -> Scale:
        """One that holds all of these, whether shares or not; 0 to 1 where none is a number."""
        bounds = [bound for interval in intervals for bound in (interval.low, interval.high)]
        known = [
            float(bound) for bound in (*bounds, *others) if bound is not None and isfinite(bound)
        ]
        make = cls.around if share else cls.plain
        return make(min(known, default=0.0), max(known, default=1.0), start=start, end=end)

    def x(self, value: float) -> float:
        """Percent from the cell's left edge; values beyond the scale stand at its ends."""
        place = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(max(place, 0.0), 1.0)
