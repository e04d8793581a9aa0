"""How queue, workers and board stand, in a few questions that an index answers.

They are asked every few seconds by whoever watches the site, so none of them reads a table: what
ended long ago is not counted, and what waits is read from the queue's own index.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Max, Min, Sum
from django.db.models.functions import Now
from django.utils import timezone

from leaderboard.catalogue import newest_suite
from leaderboard.models import BoardSnapshot, Run, Worker
from leaderboard.models.run import WAITING_SINCE, State
from leaderboard.queue import ALIVE, live_workers, orders
from leaderboard.snapshot import OWN

LAST = timedelta(hours=1)
"""Of runs that ended, those of so long ago count."""
REMEMBERED = timedelta(days=7)
"""A worker that was not seen for longer is no longer missed."""
ENDED = (State.DONE, State.FAILED, State.CANCELLED)


@dataclass(frozen=True)
class Waiting:
    runs: int
    oldest_seconds: float | None


def waiting(now: datetime) -> Waiting:
    """The runs in the queue, and since when the one has been there that was queued first; a run
    that was queued again counts from then on."""
    queued = Run.objects.filter(state=State.QUEUED).order_by()
    oldest = queued.aggregate(oldest=Min(WAITING_SINCE))["oldest"]
    return Waiting(queued.count(), since(oldest, now))


def newest_heartbeat(now: datetime) -> float | None:
    """Seconds since any worker was seen."""
    return since(Worker.objects.aggregate(seen=Max("seen"))["seen"], now)


def oldest_heartbeat(now: datetime) -> float | None:
    """Seconds since that worker was seen which of all that have runs is silent for longest."""
    holding = Run.objects.filter(state=State.RUNNING).values("worker")
    return since(Worker.objects.filter(pk__in=holding).aggregate(seen=Min("seen"))["seen"], now)


def running() -> int:
    return Run.objects.filter(state=State.RUNNING).count()


@dataclass(frozen=True)
class Ended:
    """What ended in the last hour."""

    runs: dict[str, int]
    """By state, zeros included."""
    requests_per_second: float
    """Requests of the runs that are done, over the hour."""


def ended(now: datetime) -> Ended:
    rows = (
        Run.objects.filter(state__in=ENDED, finished__gte=now - LAST)
        .order_by()
        .values_list("state")
        .annotate(n=Count("pk"), requests=Sum("progress_total"))
    )
    found = {state: (n, requests or 0) for state, n, requests in rows}
    runs = {str(state): found.get(state, (0, 0))[0] for state in ENDED}
    requests = found.get(State.DONE, (0, 0))[1]
    return Ended(runs, requests / LAST.total_seconds())


@dataclass(frozen=True)
class Pool:
    workers: dict[str, int]
    """By what they are at, zeros included."""
    memory_bytes: dict[str, int]
    """For models, of the live workers together, by device."""
    in_use: dict[tuple[str, str], tuple[int, int]]
    """Bytes in use and in all, of each live worker's devices, by both names."""
    tokens: dict[str, int]
    """That each worker of the last week ever computed, by its name."""


def pool(now: datetime) -> Pool:
    """Who works, who waits for work, who was told to rest, who cannot work, and who was lost."""
    alive = live_workers()
    resting = orders.by_name(worker.name for worker in alive)
    busy = set(Run.objects.filter(state=State.RUNNING).values_list("worker", flat=True))
    known = Worker.objects.filter(seen__gte=now - REMEMBERED)
    tokens = dict(known.order_by("name").values_list("name", "tokens"))
    here = known.filter(ended=None)
    counted = Counter({"busy": 0, "idle": 0, "resting": 0})
    counted["unable"] = here.filter(seen__gte=Now() - ALIVE).exclude(refusal="").count()
    counted["lost"] = here.filter(seen__lt=Now() - ALIVE).count()
    memory: Counter[str] = Counter()
    for worker in alive:
        at = "busy" if worker.name in busy else "resting" if worker.name in resting else "idle"
        counted[at] += 1
        memory[worker.device] += worker.memory_bytes
    in_use = {
        (worker.name, device): (used, total)
        for worker in alive
        for device, used, total in worker.memory_in_use
    }
    return Pool(dict(counted), dict(memory), in_use, tokens)


def board_age(now: datetime) -> float | None:
    """Seconds since the board of this site's suite was built; None where there is none."""
    suite = newest_suite(settings.PLUMBLINE_SUITE)
    rows = BoardSnapshot.objects.filter(suite=suite, style=OWN, published=True)
    return since(rows.order_by("-built").values_list("built", flat=True).first(), now)


def since(moment: datetime | None, now: datetime | None = None) -> float | None:
    if moment is None:
        return None
    return round(max(((now or timezone.now()) - moment).total_seconds(), 0.0), 1)
