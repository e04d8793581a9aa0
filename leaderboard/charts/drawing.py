"""Where a chart's marks stand on its picture: two scales, in units of the picture.

Of few models each is a dot that leads to it. Of many only those that stand out are: the others are
drawn as paths, those at one place once, so that a board of ten thousand is still a small picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor

import numpy as np

from leaderboard.charts.chart import Chart
from leaderboard.charts.labels import ON_THE_LINE, SIDES, Box, Label, Named, labels
from leaderboard.templatetags.figures import percent

WIDTH, HEIGHT = 960, 480
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 44
ALL_WHISKERS = 60
"""Of more models the intervals would hide the dots: then those of the front alone are drawn."""
ALONE = 400
"""So many models are a dot each that leads to the model; of more those that stand out are."""
STANDING_OUT = 100
"""The front, and the highest; the front in any case."""
RADIUS, RADIUS_ON_FRONT = 3.5, 5.0
Point = tuple[float, float]
LAYERS = 3
"""Paths of the other dots: where dots of several lie on each other it is darker."""


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
    label: Label | None = None

    @property
    def radius(self) -> float:
        return RADIUS_ON_FRONT if self.on_front else RADIUS


@dataclass(frozen=True)
class Picture:
    across: list[Tick]
    up: list[Tick]
    dots: list[Dot]
    """Those of the front last, so that nothing hides them."""
    crowd: list[str]
    """Paths of the models that are no dot of their own; empty where all are."""
    front: str
    """The points of a polyline: a step at each model."""
    families: list[str]
    """Polylines: of many models those with one that stands out."""
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

    own = _standing_out(chart)
    xs = [x(at) for at in chart.across.tolist()]
    ys = [y(value) for value in chart.scores.value.tolist()]
    sides = [side[own].tolist() for side in chart.scores.sides]
    names = chart.names
    dots = {
        place: Dot(
            x=xs[place],
            y=ys[place],
            low=y(below),
            high=y(above),
            place=place,
            name=names[place],
            told=f"{axis.label(float(chart.across[place]))}, {_told(value, below, above)}",
            url=url_of(names[place]),
            on_front=bool(chart.on_front[place]),
            whisker=bool(chart.on_front[place]) or len(chart.rows) <= ALL_WHISKERS,
        )
        for place, value, below, above in zip(own, *sides, strict=True)
    }
    steps = _steps([dots[place] for place in chart.front])
    named = _labelled(dots, list(zip(xs, ys, strict=True)), steps)
    families = [one for one in chart.families if not dots.keys().isdisjoint(one)]
    return Picture(
        across=[Tick(x(place), label) for place, label in axis.ticks(least, most)],
        up=[Tick(y(score), percent(score)) for score in _scores(low, high)],
        dots=sorted(named, key=lambda dot: (dot.on_front, dot.place)),
        crowd=_crowd([(xs[p], ys[p]) for p in range(len(xs)) if p not in dots]),
        front=" ".join(f"{x},{y}" for x, y in steps),
        families=[" ".join(f"{xs[p]},{ys[p]}" for p in one) for one in families],
    )


def _standing_out(chart: Chart) -> list[int]:
    """Places of the models that are a dot each: the front, then the highest, the best first."""
    order = np.lexsort((-chart.scores.value, ~chart.on_front))
    most = len(order) if len(order) <= ALONE else max(STANDING_OUT, int(chart.on_front.sum()))
    places: list[int] = order[:most].tolist()
    return places


def _labelled(dots: dict[int, Dot], every: list[Point], steps: list[Point]) -> list[Dot]:
    """With names beside them, where there is room among all dots, which are from the left, and
    beside the line."""
    named = [
        Named(dot.name, dot.x, dot.y, dot.radius, ON_THE_LINE if dot.on_front else SIDES)
        for dot in dots.values()
    ]
    frame = Box(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)
    line = [Box(x, min(y, y2), x2, max(y, y2)) for (x, y), (x2, y2) in pairwise(steps)]
    found = labels(named, every, RADIUS_ON_FRONT, frame, line)
    return [replace(dot, label=label) for dot, label in zip(dots.values(), found, strict=True)]


def _crowd(places: list[Point]) -> list[str]:
    """Lines of no length, whose round ends are dots: each place once, in whole units, which is
    some pixel wide. Written from one to the next, from the left, which is short."""
    every = sorted({(round(x), round(y)) for x, y in places})
    return [_dotted(every[layer::LAYERS]) for layer in range(min(LAYERS, len(every)))]


def _dotted(places: list[tuple[int, int]]) -> str:
    before = (0, 0)
    marks = []
    for x, y in places:
        marks.append(f"m{x - before[0]} {y - before[1]}h0")
        before = x, y
    return "".join(marks)


def _told(value: float, low: float, high: float) -> str:
    return f"{percent(value)} ({percent(low)} to {percent(high)})"


def _steps(front: list[Dot]) -> list[Point]:
    """At any place the best score of a model that is no farther; it goes on to the right edge."""
    points: list[Point] = []
    for dot, after in zip(front, [*front[1:], None], strict=True):
        points += [(dot.x, dot.y), (after.x if after else WIDTH - RIGHT, dot.y)]
    return points


def _tens(low: float, high: float) -> tuple[float, float]:
    """Whole tens of percent around all intervals."""
    return floor(10 * low + 1e-9) / 10, max(ceil(10 * high - 1e-9), floor(10 * low + 1e-9) + 1) / 10


def _scores(low: float, high: float) -> Iterator[float]:
    for tenth in range(round(10 * low), round(10 * high) + 1):
        yield tenth / 10
