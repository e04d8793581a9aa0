"""Which worker to ask for next, if any: computed from what waits, what is open and what was spent.

Nothing here asks a database, an engine or a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from leaderboard.models import Launch, Worker
from leaderboard.queue import launches, unserved
from runners.launchers.kinds import Budget, Configuration, Kind

DAY = timedelta(hours=24)
State = Launch.State


@dataclass(frozen=True)
class Standing:
    """All that the decision needs to know."""

    now: datetime
    waiting: Sequence[unserved.Group]
    workers: Sequence[Worker]
    launches: Sequence[Launch]
    """The open ones, and all of the last day, the newest first."""
    measured: Mapping[str, int]
    """By kind the bytes that its last worker found free."""
    arriving: Set[UUID] = frozenset()
    """Launches whose worker has come and is not yet among `workers`."""

    def on_their_way(self) -> Counter[str]:
        """How many, by kind."""
        return Counter(
            launch.kind
            for launch in self.launches
            if launch.state in (State.ASKING, State.WAITING) or launch.pk in self.arriving
        )


def wanted(standing: Standing, plan: Configuration) -> Kind | None:
    """The kind of worker to ask for now; None where none is missing or none may be had."""
    left, _ = _matched(standing, plan)
    for group in left:
        for kind in _fitting(group, standing, plan):
            rests = launches.resting_until(kind.name, standing.launches)
            if rests and rests > standing.now:
                continue
            if obstacle(kind, plan.budget, standing) is None:
                return kind
    return None


def superfluous(standing: Standing, plan: Configuration) -> list[Launch]:
    """Launches whose worker has not come and that nothing waits for any more, the newest first."""
    _, spare = _matched(standing, plan)
    left = []
    for launch in standing.launches:
        if launch.state == State.WAITING and spare[launch.kind]:
            spare[launch.kind] -= 1
            left.append(launch)
    return left


def obstacle(kind: Kind, budget: Budget, standing: Standing) -> str | None:
    """Why no worker of this kind may be asked for now: the limit that it would exceed."""
    live = [launch for launch in standing.launches if launch.state in Launch.OPEN]
    if len(live) + 1 > budget.workers_at_once:
        return "workers_at_once"
    gpus = sum(launch.gpus for launch in live)
    if budget.gpus_at_once is not None and gpus + kind.gpus > budget.gpus_at_once:
        return "gpus_at_once"
    hours, money = spent(standing.launches, standing.now)
    limit = budget.gpu_hours_per_day
    if limit is not None and hours + kind.gpus * kind.hours > limit:
        return "gpu_hours_per_day"
    if budget.money_per_day is not None and money + kind.price * kind.hours > budget.money_per_day:
        return "money_per_day"
    return None


def spent(of: Iterable[Launch], now: datetime) -> tuple[float, float]:
    """GPU hours and money of the 24 hours before `now`; an open launch counts with all its hours,
    so that what is promised to it is there until its end."""
    gpu_hours = money = 0.0
    for launch in of:
        hours = _hours(launch, now)
        gpu_hours += launch.gpus * hours
        money += launch.price * hours
    return gpu_hours, money


def _hours(launch: Launch, now: datetime) -> float:
    if launch.state in Launch.OPEN:
        return launch.hours
    if launch.came is None or launch.ended is None:
        return 0.0  # nobody knows that it ever ran
    began = max(launch.came, now - DAY)
    return max((launch.ended - began) / timedelta(hours=1), 0.0)


def _lacking(standing: Standing, plan: Configuration) -> list[unserved.Group]:
    """What no live worker takes, or what has waited too long for those that would."""
    patience = timedelta(minutes=plan.after_minutes)
    return [
        group
        for group in standing.waiting
        if standing.now - group.since > patience
        or not any(group.fits(worker) for worker in standing.workers)
    ]


def _matched(standing: Standing, plan: Configuration) -> tuple[list[unserved.Group], Counter[str]]:
    """For what of it no worker is on its way, and how many by kind are on theirs for nothing.

    Each worker is for one group.
    """
    coming = standing.on_their_way()
    left = []
    for group in _lacking(standing, plan):
        on_its_way = next((k for k in _fitting(group, standing, plan) if coming[k.name]), None)
        if on_its_way:
            coming[on_its_way.name] -= 1
        else:
            left.append(group)
    return left, coming


def _fitting(group: unserved.Group, standing: Standing, plan: Configuration) -> list[Kind]:
    """The kinds that can hold it, the cheapest first."""
    able = [
        kind for kind in plan.kinds if group.fits(kind.as_worker(standing.measured.get(kind.name)))
    ]
    return sorted(able, key=lambda kind: (kind.price, kind.gpus, kind.memory_bytes, kind.name))
