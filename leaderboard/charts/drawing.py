"""Where a chart's marks stand on its picture: two scales, in units of the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, floor, log10

from leaderboard.charts.size import SizeChart
from leaderboard.templatetags.figures import parameters, percent

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
    """Size, score and interval in words."""
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


def picture(chart: SizeChart, url_of: Callable[[str], str]) -> Picture:
    """Of at least one model."""
    least, most = _padded(log10(chart.parameters.min()), log10(chart.parameters.max()))
    low, high = _tens(float(chart.scores.low.min()), float(chart.scores.high.max()))

    def x(size: float) -> float:
        return round(LEFT + (log10(size) - least) / (most - least) * (WIDTH - LEFT - RIGHT), 1)

    def y(score: float) -> float:
        return round(TOP + (high - score) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    dots = [
        Dot(
            x=x(size),
            y=y(value),
            low=y(below),
            high=y(above),
            place=place,
            name=name,
            told=_told(int(size), value, below, above),
            url=url_of(name),
            on_front=bool(front),
            whisker=bool(front) or len(chart.rows) <= ALL_WHISKERS,
        )
        for place, (size, value, below, above, name, front) in enumerate(
            zip(
                chart.parameters.tolist(),
                *(side.tolist() for side in chart.scores.sides),
                chart.names,
                chart.on_front.tolist(),
                strict=True,
            )
        )
    ]
    return Picture(
        across=[Tick(x(size), parameters(round(size))) for size in _sizes(least, most)],
        up=[Tick(y(score), percent(score)) for score in _scores(low, high)],
        dots=sorted(dots, key=lambda dot: dot.on_front),
        front=_steps([dots[place] for place in chart.front]),
        families=[" ".join(f"{dots[p].x},{dots[p].y}" for p in one) for one in chart.families],
    )


def _told(size: int, value: float, low: float, high: float) -> str:
    return f"{parameters(size)}, {percent(value)} ({percent(low)} to {percent(high)})"


def _steps(front: list[Dot]) -> str:
    """At any size the best score of a model that is no larger; it goes on to the right edge."""
    points = []
    for dot, after in zip(front, [*front[1:], None], strict=True):
        points += [(dot.x, dot.y), (after.x if after else WIDTH - RIGHT, dot.y)]
    return " ".join(f"{x},{y}" for x, y in points)


def _padded(least: float, most: float) -> tuple[float, float]:
    room = max(0.05 * (most - least), 0.05)
    return least - room, most + room


def _tens(low: float, high: float) -> tuple[float, float]:
    """Whole tens of percent around all intervals."""
    return floor(10 * low + 1e-9) / 10, max(ceil(10 * high - 1e-9), floor(10 * low + 1e-9) + 1) / 10


def _sizes(least: float, most: float) -> Iterator[float]:
    """Powers of ten, with their two- and fivefold where there are few."""
    steps = (1, 2, 5) if most - least < 3 else (1,)
    for power in range(floor(least), ceil(most) + 1):
        for step in steps:
            if least <= log10(step) + power <= most:
                yield step * 10.0**power


def _scores(low: float, high: float) -> Iterator[float]:
    for tenth in range(round(10 * low), round(10 * high) + 1):
        yield tenth / 10
