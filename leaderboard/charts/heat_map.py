"""The agreement of benchmarks as a picture: a field for every two, darker where they agree more.

The page shows it in two parts, names and fields, so that the names stay where fields are scrolled.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from leaderboard.charts.agreement import Agreement, Pair

WIDTH, LEFT, TOP, LABEL = 960, 250, 28, 30
NARROW_LABEL = 11
"""Letters of a name in a narrow window: with its number they have room in the 7.75 rem that are
shown of the names there (`.heatmap` in charts.css)."""
EDGE = 4
"""Beside and below the last field."""
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
    short: str
    """For a narrow window."""
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
    def is_close(self) -> bool:
        """Numbers above columns are smaller: else those of two digits would run into each other."""
        return self.side < 20

    @property
    def fields_width(self) -> float:
        return round(len(self.names) * self.side + EDGE, 2)

    @property
    def share_of_names(self) -> str:
        """Of the picture's width, as the page's two parts share it; with that of the fields they
        may leave the rest empty."""
        return f"{100 * self.left / self.width:.4f}%"

    @property
    def share_of_fields(self) -> str:
        return f"{100 * self.fields_width / self.width:.4f}%"

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
            Name(
                at=round((place + 0.5) * side, 2),
                number=place + 1,
                label=_shortened(column.title, LABEL),
                short=_shortened(column.title, NARROW_LABEL),
                full=column.title,
            )
            for place, column in enumerate(agreement.columns)
        ],
        side=side,
        height=round(TOP + count * side + EDGE, 2),
        width=max(WIDTH, LEFT + count * side + EDGE),
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


def _shortened(title: str, longest: int) -> str:
    return title if len(title) <= longest else f"{title[: longest - 1]}…"
