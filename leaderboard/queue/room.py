"""A worker's machine that is full, in memory or on disk: nobody's fault but ours.

The claim goes back uncharged, to another worker before all: the one that was full takes nothing for
some minutes, and these runs only after an hour, unless no other can hold them. A run that finds
machine after machine full ends with what the operator has to do.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now

from leaderboard.models import Run, Worker
from leaderboard.models.edition import changing
from leaderboard.models.run import ErrorClass, State
from leaderboard.queue import estimate
from leaderboard.queue.history import NOBODY, held, tell

WORKER_RESTS = timedelta(minutes=5)
ELSEWHERE = timedelta(hours=1)
FIRST_REST, SLOWER = timedelta(minutes=1), 4
MOST_TIMES = 6
"""With the rests between them some six hours, in which somebody may make room."""
REMEDY = (
    "every machine that took it was full: make room on the workers, "
    "or add a larger one, and have the run tried again"
)


def set_aside(token: uuid.UUID, worker: Worker, *, message: str) -> int:
    """Queue the runs of a claim again whose worker's machine is full; how many there were."""
    with changing():
        runs = list(held(token).select_for_update().select_related("variant"))
        Worker.objects.filter(pk=worker.pk).update(full_until=Now() + WORKER_RESTS)
        for run in runs:
            _set_aside(token, run, worker, message)
    return len(runs)


def _set_aside(token: uuid.UUID, run: Run, worker: Worker, message: str) -> None:
    why = f"not tried: {message}"
    mine = held(token).filter(pk=run.pk)
    times = run.times_full + 1
    told = {"error_class": ErrorClass.INFRA, "times_full": times, **NOBODY}
    if times >= MOST_TIMES:
        why = f"{message}. {REMEDY.capitalize()}"
        mine.update(state=State.FAILED, finished=Now(), error_message=why, **told)
        tell([run], State.FAILED, by=worker.name, why=why)
        return
    mine.update(
        state=State.QUEUED,
        attempt=F("attempt") - 1,
        error_message=message,
        not_before=Now() + FIRST_REST * SLOWER**run.times_full,
        full_on=worker.name,
        full_until=Now() + ELSEWHERE if _others(run, worker) else None,
        **told,
    )
    tell([run], State.QUEUED, by=worker.name, why=why)


def _others(run: Run, full: Worker) -> bool:
    """Whether another worker that is alive, and not full itself, could hold the run."""
    variant = run.variant
    how = (variant.dtype, variant.quantisation, variant.backend, variant.code)
    return any(
        worker.pk != full.pk
        and not worker.is_full()
        and run.needed_bytes <= worker.memory_bytes
        and worker.computes(*how)
        for worker in estimate.live_workers()
    )
