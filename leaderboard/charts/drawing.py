"""Where a chart's marks stand on its picture: two scales, in units of the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor

from leaderboard.charts.chart import Chart
from leaderboard.templatetags.figures import percent

WIDTH, HEIGHT = 960, 480
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 44
ALL_WHISKERS = 60
"""Of more models the intervals would hide the dots: then those of the front alone are drawn."""


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Dot:
    """A model, with its whisker where it has one."""

    x: float
    y: float
    low: float
    high: float
    place: int
    name: str
    told: str
    """Place, score and interval in words."""
    url: str
    on_front: bool
    whisker: bool


@dataclass(frozen=True)
class Picture:
    across: list[Tick]
    up: list[Tick]
    dots: list[Dot]
    """Those of the front last, so that nothing hides them."""
    front: str
    """The points of a polyline: a step at each model."""
    families: list[str]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def picture(chart: Chart, url_of: Callable[[str], str]) -> Picture:
    """Of at least one model."""
    axis = chart.axis
    first, last = (axis.scaled(float(end)) for end in (chart.across.min(), chart.across.max()))
    room = max(0.05 * (last - first), axis.room)
    least, most = first - room, last + room
    low, high = _tens(float(chart.scores.low.min()), float(chart.scores.high.max()))

    def x(place: float) -> float:
        along = (axis.scaled(place) - least) / (most - least)
        return round(LEFT + along * (WIDTH - LEFT - RIGHT), 1)

    def y(score: float) -> float:
        return round(TOP + (high - score) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    dots = [
        Dot(
            x=x(at),
            y=y(value),
            low=y(below),
            high=y(above),
            place=place,
            name=name,
            told=f"{axis.label(at)}, {_told(value, below, above)}",
            url=url_of(name),
            on_front=bool(front),
            whisker=bool(front) or len(chart.rows) <= ALL_WHISKERS,
        )
        for place, (at, value, below, above, name, front) in enumerate(
            zip(
                chart.across.tolist(),
                *(side.tolist() for side in chart.scores.sides),
                chart.names,
                chart.on_front.tolist(),
                strict=True,
            )
        )
    ]
    return Picture(
        across=[Tick(x(place), label) for place, label in axis.ticks(least, most)],
        up=[Tick(y(score), percent(score)) for score in _scores(low, high)],
        dots=sorted(dots, key=lambda dot: dot.on_front),
        front=_steps([dots[place] for place in chart.front]),
        families=[" ".join(f"{dots[p].x},{dots[p].y}" for p in one) for one in chart.families],
    )


def _told(value: float, low: float, high: float) -> str:
    return f"{percent(value)} ({percent(low)} to {percent(high)})"


def _steps(front: list[Dot]) -> str:
    """At any place the best score of a model that is no farther; it goes on to the right edge."""
    points = []
    for dot, after in zip(front, [*front[1:], None], strict=True):
        points += [(dot.x, dot.y), (after.x if after else WIDTH - RIGHT, dot.y)]
    return " ".join(f"{x},{y}" for x, y in points)


def _tens(low: float, high: float) -> tuple[float, float]:
    """Whole tens of percent around all intervals."""
    return floor(10 * low + 1e-9) / 10, max(ceil(10 * high - 1e-9), floor(10 * low + 1e-9) + 1) / 10


def _scores(low: float, high: float) -> Iterator[float]:
    for tenth in range(round(10 * low), round(10 * high) + 1):
        yield tenth / 10
