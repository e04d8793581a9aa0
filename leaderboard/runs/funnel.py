"""Where a run's score stood at each look while it goes, and between what it will end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.models import Run
from leaderboard.runs import headline
from leaderboard.stats import Standing
from leaderboard.web import Scale


@dataclass(frozen=True)
class Mark:
    """A look and its places on the scale, in percent of its width."""

    stood: Standing
    low: str
    x: str
    high: str


@dataclass(frozen=True)
class Funnel:
    """The looks at a run that goes, the oldest first, each interval inside those of the earlier."""

    metric: str
    marks: Sequence[Mark]
    ends: tuple[str, str]
    """Of the scale, as they are written."""

    @property
    def now(self) -> Standing:
        return self.marks[-1].stood


def funnel(run: Run) -> Funnel | None:
    """None where the run does not go, or nobody has looked; `run` is one of `headline.runs`."""
    metric = headline.metric(run)
    if run.state != Run.State.RUNNING or run.so_far.get("metric") != metric:
        return None
    looks = [Standing(**look) for look in run.so_far["looks"]]
    scale = Scale.over(looks)
    marks = [
        Mark(look, *(f"{scale.x(value):.2f}%" for value in (look.low, look.value, look.high)))
        for look in looks
    ]
    return Funnel(metric, marks, scale.ends)
