"""The agreement of benchmarks as a picture: a field for every two, darker where they agree more."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from leaderboard.charts.agreement import Agreement, Pair

WIDTH, LEFT, TOP, LABEL = 960, 250, 28, 30
LARGEST, SMALLEST_WITH_NUMBER, SMALLEST = 48, 34, 16
"""Of a field's side: names of 12 stand beside the smallest without touching each other."""
DARKEST = 0.5
"""Opacity: a number must be legible on it, in both themes."""


@dataclass(frozen=True)
class Field:
    x: float
    y: float
    opacity: float
    opposite: bool
    known: bool
    number: str
    told: str


@dataclass(frozen=True)
class Name:
    at: float
    number: int
    label: str
    full: str


@dataclass(frozen=True)
class HeatMap:
    fields: list[Field]
    names: list[Name]
    """At their middle, down and across alike."""
    side: float
    height: float
    width: float
    numbered: bool
    """Whether there is room for a number in each field."""
    left: int = LEFT
    top: int = TOP

    @property
    def half(self) -> float:
        return round(self.side / 2, 2)

    @property
    def is_large(self) -> bool:
        """Larger than other charts, as many benchmarks want it."""
        return self.width > WIDTH


def heat_map(agreement: Agreement) -> HeatMap:
    """Below the diagonal alone: above it stands the same."""
    count = len(agreement.columns)
    side = max(SMALLEST, min(LARGEST, round((WIDTH - LEFT) / max(count, 1), 2)))
    return HeatMap(
        fields=[_field(agreement, pair, side) for pair in agreement.pairs],
        names=[
            Name(round((place + 0.5) * side, 2), place + 1, _shortened(column.title), column.title)
            for place, column in enumerate(agreement.columns)
        ],
        side=side,
        height=TOP + count * side + 4,
        width=max(WIDTH, LEFT + count * side),
        numbered=side >= SMALLEST_WITH_NUMBER,
    )


def _field(agreement: Agreement, pair: Pair, side: float) -> Field:
    known = not isnan(pair.rho)
    return Field(
        x=round(LEFT + pair.first * side, 2),
        y=round(TOP + pair.second * side, 2),
        opacity=round(DARKEST * abs(pair.rho), 2) if known else 0,
        opposite=known and pair.rho < 0,
        known=known,
        number=two_places(pair.rho) if known else "–",
        told=told(agreement, pair),
    )


def told(agreement: Agreement, pair: Pair) -> str:
    """A pair in words."""
    names = " and ".join(agreement.columns[place].title for place in (pair.first, pair.second))
    if isnan(pair.rho):
        return f"{names}: not known, {pair.n} models"
    bounds = f"{two_places(pair.low)} to {two_places(pair.high)}"
    return f"{names}: {two_places(pair.rho)} ({bounds}), {pair.n:,} models"


def two_places(rho: float) -> str:
    return f"{rho:.2f}".replace("-", "−") if abs(rho) >= 0.005 else "0.00"


def _shortened(title: str) -> str:
    return title if len(title) <= LABEL else f"{title[: LABEL - 1]}…"
