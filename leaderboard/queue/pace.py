"""How long runs take, learned from those that finished: by task and by size of the model.

Where too few such runs are known the nearest others are borrowed from, with wide ends: a guess, and
said to be one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from django.db.models import QuerySet

from leaderboard.models import Run
from leaderboard.web import Refreshed, Span

SIZES = (10**8, 10**9, 3 * 10**9, 8 * 10**9, 15 * 10**9, 35 * 10**9, 80 * 10**9)
"""Parameters: the largest model of each size class but the last."""
ENOUGH = 5
"""Finished runs of a size class and task from which an estimate is made."""
NEWEST = 20
"""So many of them count: machines and engine change."""
LOOKED_AT = 20_000
"""The newest finished runs among which they are looked for."""
GROWTH = 3.0
"""About so much larger are the models of the next size class, and at most so much slower."""
WIDE = 4.0
"""The ends of a guess lie so many times below and above what it is borrowed from."""
LOW, HIGH = 10, 90
"""Percentiles: the ends of a range."""


def size_class(parameters: int) -> int:
    """Number of the class from 0, the smallest models."""
    return bisect_left(SIZES, parameters)


class Finished(NamedTuple):
    """A run that is done; moments as the database wrote them."""

    worker: str
    task: int
    parameters: int
    started: datetime
    finished: datetime


@dataclass(frozen=True)
class Pace:
    """Spans by task and size class."""

    spans: dict[tuple[int, int], Span]
    """Of those with enough finished runs."""
    hints: dict[tuple[int, int], Span] = field(default_factory=dict)
    """Of all that have any."""
    _guesses: dict[tuple[int, int], Span | None] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, finished: Iterable[Finished]) -> Pace:
        """From finished runs in any order."""
        seconds: dict[tuple[int, int], list[tuple[datetime, float]]] = {}
        for run, own in _own_seconds(finished):
            key = (run.task, size_class(run.parameters))
            seconds.setdefault(key, []).append((run.finished, own))
        hints = {key: _span(found) for key, found in seconds.items()}
        enough = {key: hints[key] for key, found in seconds.items() if len(found) >= ENOUGH}
        return cls(enough, hints)

    def span(self, task: int, parameters: int) -> Span | None:
        """How long a run of this task takes a model of this size; None where no run is known."""
        key = task, size_class(parameters)
        if key in self.spans:
            return self.spans[key]
        if key not in self._guesses:
            self._guesses[key] = self._guess(*key)
        return self._guesses[key]

    def _guess(self, task: int, size: int) -> Span | None:
        """From the nearest sizes of the same task; where it has none, from those of any task."""
        near = {key: span for key, span in self.hints.items() if key[0] == task} or self.hints
        if not near:
            return None
        steps = min((size - of for _, of in near), key=abs)
        spans = [span for (_, of), span in near.items() if abs(size - of) == abs(steps)]
        slower = GROWTH**steps
        return Span(
            low=min(span.low for span in spans) * min(slower, 1.0) / WIDE,
            middle=median(span.middle for span in spans) * slower**0.5,
            high=max(span.high for span in spans) * max(slower, 1.0) * WIDE,
        )


def current() -> Pace:
    """The pace of the newest finished runs; of many as it was when somebody last asked."""
    return _current.get()


def read() -> Pace:
    done = Run.objects.filter(state=Run.State.DONE, worker__isnull=False, started__isnull=False)
    rows: QuerySet[Run, Any] = done.order_by("-finished").values_list(
        "worker_id", "task_id", "variant__parameters", "started", "finished"
    )
    return Pace.of(map(Finished._make, rows[:LOOKED_AT]))


# What thousands of runs say changes little within an hour; who comes after a quiet one waits not.
# To read them takes a quarter of a second, longer than all else of the queue's page.
_current = Refreshed(read, oldest=3600, rest=200)


def _own_seconds(finished: Iterable[Finished]) -> list[tuple[Finished, float]]:
    """Each run with the time that was its own.

    A worker begins all runs of a claim at once and finishes them one after the other: a run's own
    time begins when the one before it was finished.
    """
    ordered = sorted(finished, key=attrgetter("worker", "finished"))
    own: list[tuple[Finished, float]] = []
    for _, runs in groupby(ordered, key=attrgetter("worker")):
        before: datetime | None = None
        for run in runs:
            began = max(run.started, before) if before else run.started
            own.append((run, max((run.finished - began).total_seconds(), 0.0)))
            before = run.finished
    return own


def _span(found: list[tuple[datetime, float]]) -> Span:
    newest = sorted(found)[-NEWEST:]
    seconds = sorted(seconds for _, seconds in newest)
    return Span(*(_percentile(seconds, share) for share in (LOW, 50, HIGH)))


def _percentile(ordered: list[float], share: int) -> float:
    """Between two neighbours in proportion."""
    place = (len(ordered) - 1) * share / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
