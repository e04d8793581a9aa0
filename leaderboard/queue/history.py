"""What every change of a run's state shares: who holds it, and the event that tells of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from leaderboard.models import MEASURED, Run, RunEvent, SuiteEntry, TaskVersion
from leaderboard.models.edition import note
from leaderboard.models.run import State
from leaderboard.signals import runs_queued

GONE = "a worker that is gone"
NOBODY = {"lease_token": None, "lease_until": None}


def held(token: uuid.UUID) -> QuerySet[Run]:
    """The runs that a claim still has.

    Who has a token is running, as the constraint `running_means_leased` says. To ask for the state
    as well would let a database that has not counted lately look through all that run.
    """
    return Run.objects.filter(lease_token=token)


def holder(run: Run) -> str:
    """Who has the run, or had it last."""
    worker = Run.objects.values_list("worker", flat=True).get(pk=run.pk)
    return worker or GONE


def tell(runs: Iterable[Run], state: State, *, by: str, why: str = "") -> None:
    """Append an event to each of the runs; the caller is `changing`."""
    told = list(runs)
    RunEvent.objects.bulk_create(
        RunEvent(run=run, at=Now(), state=state, by=by, why=why) for run in told
    )
    tasks = TaskVersion.objects.filter(pk__in={run.task_id for run in told})
    benchmarks = set(tasks.values_list("benchmark", flat=True))
    entries = SuiteEntry.objects.filter(task__benchmark__in=benchmarks)
    suites = entries.order_by().values_list("suite", flat=True).distinct()
    note("data", of=suites, benchmarks=benchmarks, measured=state in MEASURED)


def announce(runs: Sequence[Run]) -> None:
    """Workers hear of them after the commit."""
    transaction.on_commit(lambda: runs_queued.send_robust(sender=Run, runs=runs), robust=True)
