"""In which order waiting runs will be taken, by whom, and about when.

The order is that of `leaderboard/queue/claims.py`: a worker takes the first run that fits it, and
with it all others of the same variant, shots, draw and mode. Times come from playing the
queue through with the pace of finished runs; where one of them is not known, neither is what comes
after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from leaderboard.models import Run, Variant, Worker
from leaderboard.models.run import IN_TURN
from leaderboard.models.variant import NAMES, TRANSFORMERS
from leaderboard.queue import orders, pace
from leaderboard.queue.pace import Pace
from leaderboard.templatetags.figures import filesize
from leaderboard.web import NO_SPAN, Refreshed, Span, total_span

EVALUATES = "evaluate"
"""The phase in which a run's counts are of its requests."""


CLOCKS = {
    "postgresql": "SELECT STATEMENT_TIMESTAMP()",
    "sqlite": "SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')",
}
"""What Now() is there, also within a transaction that began long ago."""


class Obstacle(StrEnum):
    """What a run waits for besides its turn."""

    NONE = ""
    NO_WORKER = "no worker"
    NO_DTYPE = "no dtype"
    TOO_LARGE = "too large"
    RESTING = "resting"
    FULL = "full"
    """Whoever can hold it rests, since its machine had no room."""


class Running(NamedTuple):
    """A run that a worker has."""

    pk: UUID
    claim: UUID
    repo_id: str
    phase: str
    worker: str | None
    task: int
    parameters: int
    done: int
    total: int


class Waiting(NamedTuple):
    """A run in the queue: enough to say when it is taken."""

    pk: UUID
    variant: int
    repo_id: str
    dtype: str
    quantisation: str
    backend: str
    code: str
    parameters: int
    needed_bytes: int
    task: int
    shots: int
    mode: str
    draw: str
    seed: int
    not_before: datetime | None
    full_on: str
    """The worker that does not take it before `full_until`."""
    full_until: datetime | None


@dataclass(frozen=True)
class Turn:
    """Runs that one worker will take together; positions count runs, from 1."""

    runs: tuple[Waiting, ...]
    position: int
    obstacle: Obstacle
    takers: tuple[str, ...]
    """The live workers that can hold them, by name."""
    begins: Span | None
    """Seconds from now; None where it cannot be told."""
    takes: Span | None

    @property
    def first(self) -> Waiting:
        return self.runs[0]

    @property
    def last_position(self) -> int:
        return self.position + len(self.runs) - 1


@dataclass(frozen=True)
class Plan:
    """All turns in their order, with the workers that are alive."""

    turns: tuple[Turn, ...]
    workers: tuple[Worker, ...]
    """Those that take runs, now or when they have rested."""
    paused: tuple[Worker, ...]
    """Those that are alive and were told to take none."""
    running: tuple[Running, ...]
    """In the order in which they were begun."""
    left: Mapping[UUID, Span | None]
    """By running run the seconds that it will still take."""

    def all_rest(self) -> bool:
        """Whether every machine had no room a moment ago, so that nobody takes anything."""
        return bool(self.workers) and all(worker.is_full() for worker in self.workers)

    def places(self) -> dict[UUID, tuple[Turn, int]]:
        """By waiting run its turn and its position."""
        return {
            run.pk: (turn, turn.position + number)
            for turn in self.turns
            for number, run in enumerate(turn.runs)
        }


def plan() -> Plan:
    """The queue as it stands; a long one as it stood some seconds ago."""
    return _plan.get()


def made() -> Plan:
    """The queue as it stands, in a fixed number of queries."""
    now = database_now()
    alive = sorted(live_workers(), key=lambda worker: worker.name)
    told = orders.by_name(worker.name for worker in alive)
    workers = [worker for worker in alive if worker.name not in told]
    paused = tuple(worker for worker in alive if worker.name in told)
    waiting, running = _waiting(), _running()
    known = pace.current() if waiting or running else Pace({})
    left = {run.pk: _left(run, known) for run in running}
    groups = _together(waiting, now)
    takes = [total_span([known.span(run.task, run.parameters) for run in runs]) for runs in groups]
    busy = [
        total_span([left[r.pk] for r in running if r.worker == worker.name]) for worker in workers
    ]
    begins = _played(groups, takes, workers, busy, now)
    turns, position = [], 1
    for runs, takes_, begins_ in zip(groups, takes, begins, strict=True):
        takers = tuple(worker.name for worker in workers if _fits(worker, runs[0]))
        obstacle = _obstacle(runs[0], workers, now)
        turns.append(Turn(runs, position, obstacle, takers, begins_, takes_))
        position += len(runs)
    return Plan(tuple(turns), tuple(workers), paused, tuple(running), left)


_plan = Refreshed(made)


def in_order(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Queued runs in the order in which workers look at them."""
    return runs.filter(state=Run.State.QUEUED).order_by(*IN_TURN)


def _waiting() -> list[Waiting]:
    queued = Run.objects.filter(state=Run.State.QUEUED)
    # Joined here: a queue has sixty runs of a variant, and the database would repeat it in each.
    facts: QuerySet[Variant, Any] = Variant.objects.filter(pk__in=queued.values("variant"))
    told = ("pk", "hub_model__repo_id", "dtype", "quantisation", "backend", "code", "parameters")
    of_variant: dict[int, tuple[str, str, str, str, str, int]] = {
        row[0]: row[1:] for row in facts.values_list(*told)
    }
    rows: QuerySet[Run, Any] = in_order(Run.objects.all()).values_list(
        *("pk", "variant_id", "needed_bytes", "task_id", "shots", "mode"),
        *("fewshot_draw", "fewshot_seed", "not_before", "full_on", "full_until"),
    )
    return [
        Waiting(pk, variant, *of_variant[variant], *others)
        for pk, variant, *others in rows
        if variant in of_variant  # else queued between the two questions
    ]


def _running() -> list[Running]:
    running = Run.objects.filter(state=Run.State.RUNNING)
    rows: QuerySet[Run, Any] = running.order_by("started", *IN_TURN).values_list(
        *("pk", "lease_token", "variant__hub_model__repo_id", "phase", "worker_id", "task_id"),
        *("variant__parameters", "progress_done", "progress_total"),
    )
    return [Running(*row) for row in rows]


def _left(run: Running, known: Pace) -> Span | None:
    """Before it is asked anything its counts are of data sets, and nothing of its time is over."""
    span = known.span(run.task, run.parameters)
    counts = run.phase == EVALUATES and run.total
    return span and span.times(1 - run.done / run.total if counts else 1.0)


def _together(waiting: Sequence[Waiting], now: datetime) -> list[tuple[Waiting, ...]]:
    """Those that are taken together, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Waiting]] = {}
    for run in waiting:
        rests_until = run.not_before if _rests(run, now) else None
        elsewhere = run.full_on if _until(run.full_until, now) else None
        key = (run.variant, run.shots, run.mode, run.draw, run.seed, rests_until, elsewhere)
        groups.setdefault(key, []).append(run)
    return [tuple(runs) for runs in groups.values()]


def _rests(run: Waiting, now: datetime) -> bool:
    return run.not_before is not None and run.not_before > now


def _fits(worker: Worker, run: Waiting) -> bool:
    return run.needed_bytes <= worker.memory_bytes and _computes(worker, run)


def _computes(worker: Worker, run: Waiting) -> bool:
    return worker.computes(run.dtype, run.quantisation, run.backend, run.code)


def _obstacle(run: Waiting, workers: Sequence[Worker], now: datetime) -> Obstacle:
    if not workers:
        return Obstacle.NO_WORKER
    if not any(_computes(worker, run) for worker in workers):
        return Obstacle.NO_DTYPE
    if not any(_fits(worker, run) for worker in workers):
        return Obstacle.TOO_LARGE
    if _rests(run, now):
        return Obstacle.RESTING
    at_once = any(_ready(worker, run, now) == 0 for worker in workers)
    return Obstacle.NONE if at_once else Obstacle.FULL


def _played(
    groups: Sequence[tuple[Waiting, ...]],
    takes: Sequence[Span | None],
    workers: Sequence[Worker],
    busy: Sequence[Span | None],
    now: datetime,
) -> list[Span | None]:
    """When each group begins: the queue is played with the short, the middle, the long times."""
    ready = [[_ready(worker, runs[0], now) for worker in workers] for runs in groups]
    ends = [_play(_end(takes, end), _end(busy, end), ready) for end in range(len(NO_SPAN))]
    return [
        None if any(begin is None for begin in begins) else Span(*sorted(map(float, begins)))
        for begins in zip(*ends, strict=True)
    ]


def _ready(worker: Worker, run: Waiting, now: datetime) -> float | None:
    """Seconds until this worker may take the run; None where it does not fit."""
    if not _fits(worker, run):
        return None
    rests = [_until(run.not_before, now), _until(worker.full_until, now)]
    if run.full_on == worker.name:
        rests.append(_until(run.full_until, now))
    return max(rests)


def _until(moment: datetime | None, now: datetime) -> float:
    return max((moment - now).total_seconds(), 0.0) if moment else 0.0


def _end(spans: Sequence[Span | None], end: int) -> list[float | None]:
    return [None if span is None else span[end] for span in spans]


def _play(
    takes: Sequence[float | None],
    busy: Sequence[float | None],
    ready: Sequence[Sequence[float | None]],
) -> list[float | None]:
    """Seconds until each group begins, None where it cannot be told.

    `ready` says by group and worker from when on it may be taken; None where it does not fit.

    A worker whose end is not known might take anything that fits it, so nothing that fits it can
    be told from then on.
    """
    begins: list[float | None] = [None] * len(takes)
    unknown = {worker for worker, end in enumerate(busy) if end is None}
    free = [(end, worker) for worker, end in enumerate(busy) if end is not None]
    heapify(free)
    waiting = [group for group, of in enumerate(ready) if any(at is not None for at in of)]
    while free and waiting:
        now, worker = heappop(free)
        group, rested = _first(((group, ready[group][worker]) for group in waiting), now)
        if group is None:
            if rested is not None:
                heappush(free, (rested, worker))
            continue
        waiting.remove(group)
        if all(ready[group][other] is None for other in unknown):
            begins[group] = now
        end = takes[group]
        if end is None:
            unknown.add(worker)
        else:
            heappush(free, (now + end, worker))
    return begins


def _first(
    groups: Iterable[tuple[int, float | None]], now: float
) -> tuple[int | None, float | None]:
    """The first that has rested; where there is none, when the first of them will have."""
    soonest: float | None = None
    for group, rests in groups:
        if rests is None:
            continue
        if rests <= now:
            return group, None
        soonest = rests if soonest is None else min(soonest, rests)
    return None, soonest


ALIVE = timedelta(minutes=2)
"""A worker that has not been seen for so long does not count."""


def live() -> QuerySet[Worker]:
    """Workers that can evaluate: not one whose GPUs cannot be used."""
    return Worker.objects.filter(seen__gte=Now() - ALIVE, ended=None, refusal="")


def live_workers() -> list[Worker]:
    return list(live())


def largest_memory(
    workers: list[Worker], dtype: str, quantisation: str, backend: str, code: str = ""
) -> int | None:
    """Bytes of the largest of these workers that computes so; None where none does."""
    able = (worker for worker in workers if worker.computes(dtype, quantisation, backend, code))
    return max((worker.memory_bytes for worker in able), default=None)


def reason(turn: Turn, plan: Plan) -> str:
    """One sentence on what has to happen before a worker can take it."""
    run = turn.first
    if turn.obstacle is Obstacle.NO_DTYPE:
        how = run.quantisation or run.dtype
        how += ", with code of its own" if run.code else ""
        how += "" if run.backend == TRANSFORMERS else f" by {NAMES.get(run.backend, run.backend)}"
        return f"Waits for a worker that computes in {how}: none that is alive does."
    if turn.obstacle is Obstacle.TOO_LARGE:
        how_run = (run.dtype, run.quantisation, run.backend, run.code)
        largest = filesize(largest_memory(list(plan.workers), *how_run) or 0)
        return (
            f"Waits for a larger worker: it needs {filesize(run.needed_bytes)}, "
            f"the largest alive has {largest}."
        )
    if turn.obstacle is Obstacle.FULL:
        return "Waits until a worker has rested: the machines that can hold it had no room."
    return ""


def database_now() -> datetime:
    """The database's clock, which all hosts share, to compare with moments that it wrote: a host's
    own may be minutes away from it."""
    with connection.cursor() as cursor:
        cursor.execute(CLOCKS[connection.vendor])
        (moment,) = cursor.fetchone()
    moment = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
