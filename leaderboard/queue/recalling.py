"""Results that are recalled and that stand again: what becomes of their runs.

A state and not a flag: all that counts, ranks or averages finished runs asks for `done`, and so
forgets a recalled one without knowing of recalls.

A run that ends looks which recalls stand (`at_birth`), and a recall looks which runs have ended
(`take`). So that no run slips through between, which recalls stand changes only while no run is in
the middle of ending: `recalls_stay` for the run, `recalls_change` for the recall, which then begins
to stand by a transaction of its own, and takes what had ended in the next ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from leaderboard.models import Agreement, Recall, Run
from leaderboard.models.run import WAITING, State
from leaderboard.queue.history import NOBODY, tell

BATCH_SIZE = 1_000
"""Runs that are taken in one transaction, and primary keys in one query."""
WHICH_STAND, ONE_TAKES = 0x504C_5243, 0x504C_5244
"""Locks of PostgreSQL that are of no row. SQLite needs none: it has one writer at a time."""
OF_PAST = (State.DONE, State.SUPERSEDED)
"""Runs with numbers, which boards show or showed."""


def recalls_stay() -> None:
    """Until this transaction ends, the same recalls stand. Before it locks a row, please."""
    _lock(WHICH_STAND, shared=True)


def recalls_change() -> None:
    """Wait for the runs that are just ending, and have the next ones wait for this transaction,
    which should be short. Before it locks a row, please."""
    _lock(WHICH_STAND)


def one_takes() -> None:
    """Until this transaction ends, no other takes runs or puts them back: two would wait for each
    other's rows in a circle. Before anything else, please."""
    _lock(ONE_TAKES)


def _lock(key: int, *, shared: bool = False) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock{'_shared' * shared}(%s)", [key])


def concerned(kind: str, named: Iterable[str]) -> QuerySet[Run]:
    """Every run whose numbers a recall of this kind names; those recalled already among them."""
    names = list(named)
    measured = Run.objects.filter(state__in=(*OF_PAST, State.RECALLED))
    if kind == Recall.Kind.ENGINE:
        return measured.filter(engine_version__in=names)
    wanted = Q(pk__in=[])
    if kind == Recall.Kind.TASK:
        for name, _, version in (name.rpartition("@") for name in names):
            wanted |= Q(task__name=name, task__version=version)
        return measured.filter(wanted)
    digests = [name for name in names if len(name) == 64]
    ids = [name for name in names if len(name) != 64]
    with_file = Run.objects.filter(artifacts__sha256__in=digests).values("pk")
    return measured.filter(Q(pk__in=ids) | Q(pk__in=with_file))


def take(recall: Recall) -> list[Run]:
    """Recall the next BATCH_SIZE of the runs that it names and nobody recalled yet.

    Returns them in the states that they were in. The caller is `changing`, and began with
    `one_takes`.
    """
    free = (
        concerned(recall.kind, recall.named).filter(recall=None).select_related("task", "variant")
    )
    # Locked, since a rerun may take the place of one right now: then it is found among the past.
    runs = list(free.select_for_update(of=("self",), no_key=True).order_by("pk")[:BATCH_SIZE])
    stood = [run for run in runs if run.state == State.DONE]
    keys = [run.pk for run in stood]
    Run.objects.filter(pk__in=keys, state=State.DONE).update(state=State.RECALLED, recall=recall)
    # What was shown of these answers says nothing of others.
    Agreement.objects.filter(Q(run__in=keys) | Q(reference__in=keys)).delete()
    past = [run.pk for run in runs if run.state == State.SUPERSEDED]
    Run.objects.filter(pk__in=past).update(recall=recall)
    tell(stood, State.RECALLED, by=recall.by, why=recall.reason)
    Recall.objects.filter(pk=recall.pk).update(results=F("results") + len(runs))
    return runs


def at_birth(run: Run) -> None:
    """Recall a run in the moment in which it ends, where its engine or task is recalled.

    So an old worker that still computes with a recalled version puts nothing onto a board. The
    caller's transaction began with `recalls_stay`.
    """
    for recall in Recall.objects.filter(undone=None).exclude(kind=Recall.Kind.RUNS).order_by("pk"):
        born = concerned(recall.kind, recall.named).filter(pk=run.pk, state=State.DONE)
        if born.update(state=State.RECALLED, recall=recall):
            tell([run], State.RECALLED, by=recall.by, why=recall.reason)
            return


def put_back(recall: Recall, *, by: str, why: str) -> list[Run]:
    """Let stand again what this recall took, and cancel what waits to replace it.

    What was replaced since stays so: its new number was measured, and nothing says that it is
    wrong. The caller is `changing`, and began with `recalls_change`: else a run that is just ending
    could join a recall that is undone.
    """
    runs = list(recall.runs.filter(state=State.RECALLED).select_related("task"))
    for part in _parts([run.pk for run in runs]):
        waiting = list(Run.objects.filter(replaces__in=part, state__in=WAITING))
        Run.objects.filter(pk__in=[run.pk for run in waiting], state__in=WAITING).update(
            state=State.CANCELLED, finished=Now(), **NOBODY
        )
        tell(waiting, State.CANCELLED, by=by, why=f"the recall was undone: {why}")
        Run.objects.filter(pk__in=part, state=State.RECALLED).update(state=State.DONE, recall=None)
    recall.runs.update(recall=None)
    tell(runs, State.DONE, by=by, why=f"the recall was undone: {why}")
    return runs


def _parts(keys: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for start in range(0, len(keys), BATCH_SIZE):
        yield keys[start : start + BATCH_SIZE]
