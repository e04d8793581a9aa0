"""An expected length of time: with its usual ends, never as one number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

GUESSED = 12.0
"""Ends that lie so many times apart tell of a guess; those of known runs hardly ever do."""


class Span(NamedTuple):
    """A length of time in seconds, as likely shorter as longer, with its usual ends."""

    low: float
    middle: float
    high: float

    @property
    def guessed(self) -> bool:
        """Whether its ends are so far apart that its middle says nothing."""
        return self.high > GUESSED * self.low

    def plus(self, other: Span) -> Span:
        return Span(self.low + other.low, self.middle + other.middle, self.high + other.high)

    def times(self, share: float) -> Span:
        return Span(self.low * share, self.middle * share, self.high * share)


NO_SPAN = Span(0.0, 0.0, 0.0)


def total_span(spans: Iterable[Span | None]) -> Span | None:
    """One after the other; None where one is not known."""
    sum_ = NO_SPAN
    for span in spans:
        if span is None:
            return None
        sum_ = sum_.plus(span)
    return sum_
