"""Difficulty against discrimination as a picture: a dot for each question, that leads to it.

Of some thousand questions the dots would hide each other and make the page heavy: then fields say
how many there are, and only those that stand out are dots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from leaderboard.charts.questions import Questions
from leaderboard.tasks import items
from leaderboard.templatetags.figures import percent

WIDTH, HEIGHT = 960, 480
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 44
ALONE = 1_500
"""So many questions are a dot each; of more the fewest are."""
STANDING_OUT = 300
"""Dots beside fields: likely wrong keys first, then the lowest discrimination."""
STOPS = 10
"""Dots that the Tab key stops at; all are in the table."""
ACROSS, DOWN = 48, 24


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    url: str
    told: str
    suspicious: bool
    stop: bool


@dataclass(frozen=True)
class Field:
    x: float
    y: float
    opacity: float
    n: int


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Picture:
    dots: list[Dot]
    fields: list[Field]
    """Empty where every question is a dot."""
    across: list[Tick]
    up: list[Tick]
    zero: float
    alike: int
    """Questions that all models answer alike: they have no place."""
    field_width: float = round((WIDTH - LEFT - RIGHT) / ACROSS, 2)
    field_height: float = round((HEIGHT - TOP - BOTTOM) / DOWN, 2)
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float

    def x(self, discrimination: float) -> float:
        along = (discrimination - self.low) / (self.high - self.low)
        return round(LEFT + along * (WIDTH - LEFT - RIGHT), 1)

    @staticmethod
    def y(share: float) -> float:
        return round(TOP + (1 - share) * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self) -> Iterator[Tick]:
        for tenth in range(ceil(10 * self.low - 1e-9), floor(10 * self.high + 1e-9) + 1):
            if tenth % 2 == 0:
                yield Tick(self.x(tenth / 10), two_places(tenth / 10)[:-1])


def picture(questions: Questions, table: items.Table) -> Picture:
    """Of a table with at least one question that models answer differently."""
    defined = [place for place in questions.order.tolist() if table.defined[place]]
    values = table.discrimination[defined]
    scale = _Scale(
        min(-0.2, floor(10 * float(values.min())) / 10),
        max(0.6, ceil(10 * float(values.max())) / 10),
    )
    dots, rest = defined, []
    if len(defined) > ALONE:
        # Stable: of the likely wrong keys, and of the others, the lowest discrimination first.
        out = sorted(defined, key=lambda place: not table.suspicious[place])
        dots, rest = out[:STANDING_OUT], out[STANDING_OUT:]
    return Picture(
        dots=[
            _dot(questions, table, scale, place, stop=number < STOPS)
            for number, place in enumerate(dots)
        ],
        fields=list(_fields(table, scale, np.array(rest, np.intp))),
        across=list(scale.ticks()),
        up=[Tick(scale.y(share / 4), f"{25 * share}%") for share in range(5)],
        zero=scale.x(0),
        alike=table.n - len(defined),
    )


def _dot(questions: Questions, table: items.Table, scale: _Scale, place: int, *, stop: bool) -> Dot:
    share, found = float(table.difficulty[place]), float(table.discrimination[place])
    return Dot(
        x=scale.x(found),
        y=scale.y(share),
        url=questions.url(place),
        told=f"{questions.called(place)}: {percent(share)} % of models right, discrimination "
        f"{two_places(found)}{', key likely wrong' if table.suspicious[place] else ''}",
        suspicious=bool(table.suspicious[place]),
        stop=stop,
    )


def _fields(table: items.Table, scale: _Scale, places: NDArray[np.intp]) -> Iterator[Field]:
    """By how many questions there are in each, none for none."""
    if not len(places):
        return
    along = (table.discrimination[places] - scale.low) / (scale.high - scale.low)
    across = np.clip((along * ACROSS).astype(int), 0, ACROSS - 1)
    down = np.clip(((1 - table.difficulty[places]) * DOWN).astype(int), 0, DOWN - 1)
    cells, counts = np.unique(down * ACROSS + across, return_counts=True)
    most = int(counts.max())
    for cell, n in zip(cells.tolist(), counts.tolist(), strict=True):
        row, column = divmod(cell, ACROSS)
        yield Field(
            x=round(LEFT + column * (WIDTH - LEFT - RIGHT) / ACROSS, 2),
            y=round(TOP + row * (HEIGHT - TOP - BOTTOM) / DOWN, 2),
            opacity=round(0.08 + 0.72 * sqrt(n / most), 2),
            n=n,
        )


def two_places(number: float) -> str:
    return f"{number:.2f}".replace("-", "−") if abs(number) >= 0.005 else "0.00"
