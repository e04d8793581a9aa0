"""A model's scores on one benchmark as a picture: a line for each style, a tick for each draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from leaderboard.charts.spread import Asked, Line
from leaderboard.models.task import Style, is_share
from leaderboard.snapshot import Column
from leaderboard.templatetags.figures import in_unit
from leaderboard.templatetags.figures import points as with_sign

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 290, 24, 40, 30
STYLE_STEP, GAP = 11, 12
LABEL = 38
"""Letters of a model's name that have room."""
LEGEND_LINE, LEGEND_STEP, LEGEND_LETTER = 16, 44, 6.6
"""Above the picture: the line of a style, and from one to the next with and for its letters."""
PLACES = 6
"""Ticks below, some."""


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A model in one style."""

    style: str
    x: float
    y: float
    low: float
    high: float
    draws: list[float]
    told: str


@dataclass(frozen=True)
class Row:
    name: str
    full: str
    url: str
    at: float
    """Its middle."""
    marks: list[Mark]


@dataclass(frozen=True)
class Picture:
    rows: list[Row]
    ticks: list[Tick]
    legend: list[tuple[str, str, float, float]]
    """Of each style its key, its name, and from where to where its line above goes."""
    height: float
    width: int = WIDTH
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP

    @property
    def bottom(self) -> float:
        return self.height - BOTTOM


def picture(columns: Sequence[Column], lines: Sequence[Line], urls: Sequence[str]) -> Picture:
    """Of at least one line."""
    metric = columns[0].metric
    numbers = [one for line in lines for one in line.asked if one]
    low, high, step = _ends(
        min(min(one.score.low, *one.draws, one.score.value) for one in numbers),
        max(max(one.score.high, *one.draws, one.score.value) for one in numbers),
    )

    def x(value: float) -> float:
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    each = STYLE_STEP * len(columns) + GAP
    rows = []
    for number, (line, url) in enumerate(zip(lines, urls, strict=True)):
        top = TOP + number * each
        marks = [
            Mark(
                style=column.style,
                x=x(one.score.value),
                y=round(top + GAP / 2 + STYLE_STEP * (place + 0.5), 1),
                low=x(one.score.low),
                high=x(one.score.high),
                draws=[x(value) for value in one.draws],
                told=f"{style_name(column)}: {told(one, metric)}",
            )
            for place, (column, one) in enumerate(zip(columns, line.asked, strict=True))
            if one
        ]
        name = line.model.repo_id
        rows.append(Row(_shortened(name), name, url, round(top + each / 2, 1), marks))
    return Picture(
        rows=rows,
        ticks=[Tick(x(value), in_unit(value, metric)) for value in _ticks(low, high, step)],
        legend=list(_legend(columns)),
        height=TOP + each * len(rows) + BOTTOM,
    )


def told(one: Asked, metric: str) -> str:
    """A number with its interval, and those of its draws, in words."""
    score = one.score
    bounds = f"{in_unit(score.low, metric)} to {in_unit(score.high, metric)}"
    draws = ", ".join(in_unit(value, metric) for value in one.draws)
    return f"{in_unit(score.value, metric)} ({bounds})" + (f"; draws {draws}" if draws else "")


def style_name(column: Column) -> str:
    return str(Style(column.style).label)


def distance(apart: float | None, metric: str) -> str:
    """How far scores lie apart: in points where they are shares, else in their own unit."""
    if apart is None:
        return ""
    return with_sign(apart).removeprefix("+") if is_share(metric) else in_unit(apart, metric)


def _legend(columns: Sequence[Column]) -> Iterator[tuple[str, str, float, float]]:
    at = float(LEFT)
    for column in columns:
        name = style_name(column)
        yield column.style, name, round(at, 1), round(at + LEGEND_LINE, 1)
        at += LEGEND_STEP + LEGEND_LETTER * len(name)


def _ends(low: float, high: float) -> tuple[float, float, float]:
    """Round numbers around both, and the step between ticks."""
    room = high - low if high > low else max(abs(low), 1.0) / 10
    ten: float = 10 ** floor(log10(room / PLACES))
    step = next(ten * times for times in (1, 2, 5, 10) if room / (ten * times) <= PLACES)
    first, last = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
    return first, last if last > first else first + step, step


def _ticks(low: float, high: float, step: float) -> Iterator[float]:
    for number in range(round((high - low) / step) + 1):
        yield low + number * step


def _shortened(name: str) -> str:
    return name if len(name) <= LABEL else f"{name[: LABEL - 1]}…"
