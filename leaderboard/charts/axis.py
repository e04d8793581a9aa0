"""What a chart has to the right: the model's size, or the day on which it came to this site.

`cost.py` has what an answer takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaderboard.snapshot import Board
from leaderboard.templatetags.figures import parameters

DAY = 86_400.0
FEWEST_PLACES, MOST_DATES = 3, 8
"""On an axis; more would run into each other."""


@dataclass(frozen=True)
class Axis:
    """How a model's place on it is found, and how both are called."""

    key: str
    """In addresses and names of files."""
    heading: str
    lede: str
    against: str
    """After a score's title."""
    across: str
    """What lies to the right, at the end of the axis."""
    column: str
    """The heading of the table's column."""
    models_by: str
    """How the models are told in the picture's description."""
    best: str
    """What a model on the line is."""
    lacking: tuple[str, ...]
    """What of a model keeps it off the chart: fields of `Model` that are empty else."""
    left_out: str
    """The same in words, and who has no place."""
    places: Callable[[Board, Sequence[int]], NDArray[np.float64]]
    """Of each model, for a score from these columns; NaN where it is not known."""
    label: Callable[[float], str]
    scaled: Callable[[float], float]
    """A place in the units in which equal lengths of the axis are equal."""
    room: float
    """In those units, what is left beside a single model at least."""
    ticks: Callable[[float, float], Iterator[tuple[float, str]]]
    """Places and labels between two ends that are given in those units."""
    reads: str
    """How far it is from place to place, for the note under the picture."""
    nothing: str
    """What it takes to stand on the chart besides a score, where no model does."""
    machines: Callable[[Board, Sequence[int]], Machines] | None = None
    """Where places on different kinds of machines are not to be compared: which each is from."""
    families: bool = False
    """Whether models whose names differ by their size alone are joined."""


class Machines(NamedTuple):
    of: NDArray[np.int16]
    """Of each model its place in `names`; -1 where it is not known, or several were at work."""
    names: Sequence[str]


def _sizes_of(board: Board, _: Sequence[int]) -> NDArray[np.float64]:
    sizes = np.array(board.models.values("parameters"), np.float64)
    return np.where(sizes > 0, sizes, np.nan)


def _days_of(board: Board, _: Sequence[int]) -> NDArray[np.float64]:
    added: Sequence[Any] = board.models.values("added")
    return np.array([one.timestamp() for one in added], np.float64)


def _size_label(size: float) -> str:
    return parameters(round(size))


def _date_label(moment: float) -> str:
    return _date(moment).strftime("%-d %b %Y")


def _date(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def powers(least: float, most: float, label: Callable[[float], str]) -> Iterator[tuple[float, str]]:
    """Powers of ten, with their two- and fivefold where there are few, or even steps."""
    steps = (1, 2, 5) if most - least < 3 else (1,)
    places = [
        step * 10.0**power
        for power in range(floor(least), ceil(most) + 1)
        for step in steps
        if least <= log10(step) + power <= most
    ]
    if len(places) < FEWEST_PLACES:
        places = _even(10.0**least, 10.0**most)
    for place in places:
        yield place, label(place)


def _even(first: float, last: float) -> list[float]:
    power = floor(log10((last - first) / MOST_DATES))
    step = next(
        times * 10.0**power
        for times in (1, 2, 5, 10, 20)
        if (last - first) / (times * 10.0**power) <= MOST_DATES
    )
    return [number * step for number in range(ceil(first / step), floor(last / step) + 1)]


def _size_ticks(least: float, most: float) -> Iterator[tuple[float, str]]:
    return powers(least, most, _size_label)


def _date_ticks(least: float, most: float) -> Iterator[tuple[float, str]]:
    """First days of years or months, or days, whichever are not too many."""
    for days in (1, 2, 5, 10):
        if (most - least) / (days * DAY) <= MOST_DATES:
            yield from _days(least, most, days)
            return
    months = next(
        (n for n in (1, 2, 3, 6) if (most - least) / (n * 30 * DAY) <= MOST_DATES),
        12 * max(1, ceil((most - least) / (MOST_DATES * 365 * DAY))),
    )
    year, month = _date(least).year, 0
    while (moment := datetime(year, month + 1, 1, tzinfo=UTC).timestamp()) <= most:
        if moment >= least:
            written = "%Y" if months >= 12 else "%b %Y"
            yield moment, _date(moment).strftime(written)
        year, month = year + (month + months) // 12, (month + months) % 12


def _days(least: float, most: float, days: int) -> Iterator[tuple[float, str]]:
    day = _date(least).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    while day.timestamp() <= most:
        yield day.timestamp(), _date_label(day.timestamp())
        day += timedelta(days=days)


SIZE = Axis(
    key="size",
    heading="Score against size",
    lede="What does a larger model buy? Each dot is a model; the stepped line leads along those "
    "that no smaller or equal one beats.",
    against="against size",
    across="parameters, on a logarithmic scale",
    column="Parameters",
    models_by="by parameters",
    best="Best for its size",
    lacking=("flag_reason", "apart", "superseded_by"),
    left_out="flagged, superseded, not ranked with the others, or of unknown size",
    places=_sizes_of,
    label=_size_label,
    scaled=log10,
    room=0.05,
    ticks=_size_ticks,
    reads="parameters to the right: each tenfold is equally far",
    nothing="and a known size",
    families=True,
)
TIME = Axis(
    key="time",
    heading="Best score through time",
    lede="How far had models come by a day? Each dot is a model on the day on which it was first "
    "submitted here, which may be long after it was published; the stepped line is the best "
    "score until then.",
    against="through time",
    across="first submitted here",
    column="First submitted",
    models_by="by the day on which they were first submitted here",
    best="Best when it came",
    # What a newer commit took the place of was there before it.
    lacking=("flag_reason", "apart"),
    left_out="flagged or not ranked with the others",
    places=_days_of,
    label=_date_label,
    scaled=float,
    room=DAY,
    ticks=_date_ticks,
    reads="days to the right",
    nothing="",
)
