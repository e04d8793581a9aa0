"""The queue: every change of a run's state, each one conditional UPDATE.

A claim gives its runs an attempt, a lease and a random token. Whoever writes for a claim later
names that token, and the same UPDATE that writes also asks whether the run still has it. Zero rows
means that the lease went to somebody else: store nothing. All times are the database's clock.

Every change is an event of its run and moves on the editions of the suites that ask its benchmark;
those at the very end of the transaction, since all workers share their rows.

From top to bottom: a run is queued, claimed, followed, completed, failed or given back; then what a
full machine, the operator and a worker that died do to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Least, Now

from evalcore.engine import VERSION
from evalcore.record import RunRecord
from leaderboard.models import Agreement, Artifact, Run, SuiteEntry, Worker
from leaderboard.models.edition import changing
from leaderboard.models.run import IN_TURN, REPLACEABLE, ErrorClass, State
from leaderboard.models.variant import TRANSFORMERS
from leaderboard.queue import orders, recalling, records
from leaderboard.queue.estimate import live_workers
from leaderboard.queue.history import GONE, NOBODY, announce, held, holder, tell
from leaderboard.samples import StoredFile, costs, path_of, vectors

LEASE = timedelta(seconds=60)
BACK_OFF = {1: timedelta(seconds=30), 2: timedelta(minutes=5)}
"""How long a run rests after its first and second failure of ours."""
MAX_ATTEMPTS = len(BACK_OFF) + 1

JOINS = timedelta(seconds=15)
"""A run whose rest ends so soon is taken with its companions: those that failed together rest until
moments side by side, and would else be a load of the model each."""

SMALLEST_SHARE = 6
"""Runs: a smaller part is not worth loading a model for."""

WORKER_RESTS = timedelta(minutes=5)
ELSEWHERE = timedelta(hours=1)
FIRST_REST, SLOWER = timedelta(minutes=1), 4
MOST_TIMES_FULL = 6
"""With the rests between them some six hours, in which somebody may make room."""
REMEDY = (
    "every machine that took it was full: make room on the workers, "
    "or add a larger one, and have the run tried again"
)

WAITS = "turn"
"""The phase of a run that its worker has not yet begun, but a companion of it."""
NOT_BEGUN = ("", WAITS)

BLANK: dict[str, Any] = {
    **dict.fromkeys(("started", "finished", "not_before")),
    **dict.fromkeys(("phase", "error_class", "error_message", "log_tail"), ""),
    **dict.fromkeys(("progress_done", "progress_total"), 0),
    "so_far": {},
}
"""What a new attempt knows of those before it."""
AGAIN: dict[str, Any] = {**NOBODY, "state": State.QUEUED, "not_before": Now()}
"""Of a run that is queued once more: it waits from now on, not since it was asked for."""
UNTRIED = {
    **{**BLANK, **AGAIN, "attempt": 0, "worker": None},
    **{"times_full": 0, "full_on": "", "full_until": None},
}


class LeaseLost(Exception):
    """The run is no longer ours: it was cancelled, or its lease ran out and was released."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Runs of one variant, shots, draw and mode that one worker holds under one token."""

    token: uuid.UUID
    worker: str
    runs: tuple[Run, ...]


def enqueue(runs: Iterable[Run], *, by: str, why: str = "submitted") -> list[Run]:
    """Insert new runs as queued; listeners of `runs_queued` hear of it after the commit."""
    with changing():
        inserted = list(runs)
        for run in inserted:
            run.state = State.QUEUED
        Run.objects.bulk_create(inserted)
        tell(inserted, State.QUEUED, by=by, why=why)
        if inserted:
            announce(inserted)
    return inserted


def claim_next(worker: Worker) -> Claim | None:
    """Take the first run by priority and turn that fits `worker`, and its companions with it.

    Companions are all other queued runs of the same variant, shots, draw and mode, or a part of
    them where other workers are idle (`_share`): one child process answers them, so that the
    model is loaded once. None where nothing fits, the operator has told the worker to take
    nothing, or its machine was full a moment ago.
    """
    if not _may_take(worker):
        return None
    token = uuid.uuid4()
    with changing():
        if not _take(fitting(worker)[:1], token, worker):
            return None
        first = Run.objects.select_related("variant", "task").get(lease_token=token)
        same = fitting(worker, joins=JOINS).filter(
            variant=first.variant,
            shots=first.shots,
            mode=first.mode,
            fewshot_draw=first.fewshot_draw,
            fewshot_seed=first.fewshot_seed,
            rerun=first.rerun_id,
        )
        together = [first, *same.select_related("task")]
        shared = [run.pk for run in _share(together, worker)]
        _take(same.filter(pk__in=shared), token, worker)
        runs = tuple(
            Run.objects.filter(lease_token=token)
            .select_related("variant__hub_model", "task")
            .order_by(*IN_TURN)
        )
        tell(runs, State.RUNNING, by=worker.name)
    return Claim(token=token, worker=worker.name, runs=runs)


def first_fitting(worker: Worker) -> Run | None:
    """The run that `claim_next` would take first."""
    if not _may_take(worker):
        return None
    return fitting(worker).select_related("variant__hub_model", "task").first()


def summary(run: Run) -> dict[str, str]:
    """What a run is about, for those who look at messages."""
    suites = SuiteEntry.objects.filter(task=run.task_id).order_by("suite")
    return {
        "model": str(run.variant),
        "suite": suites.values_list("suite__name", flat=True).first() or run.task.name,
        "size": f"{run.needed_bytes / 2**30:.1f} GiB",
    }


def _may_take(worker: Worker) -> bool:
    """Not where the operator says otherwise, or its machine was full a moment ago."""
    full = Worker.objects.filter(pk=worker.pk, full_until__gt=Now())
    return not orders.standing(worker.name) and not full.exists()


def fitting(worker: Worker, *, joins: timedelta = timedelta(0)) -> QuerySet[Run]:
    """The queued runs that this worker may take now, in the order in which it takes them."""
    return Run.objects.filter(
        Q(not_before=None) | Q(not_before__lte=Now() + joins),
        ~Q(full_on=worker.name) | Q(full_until=None) | Q(full_until__lte=Now()),
        plain_or_packed_by(worker.quantisations),
        Q() if worker.runs_code else Q(variant__code=""),
        state=State.QUEUED,
        needed_bytes__lte=worker.memory_bytes,
        variant__dtype__in=worker.dtypes,
        variant__backend=worker.backend,
    ).order_by(*IN_TURN)


def plain_or_packed_by(methods: Sequence[str]) -> Q:
    """Weights that are plain, or packed by one of these methods."""
    runnable = Q(variant__quantisation="")
    for method in methods:
        named = Q(variant__quantisation=method)
        runnable |= named | Q(variant__quantisation__startswith=f"{method} ")
    return runnable


def _take(wanted: QuerySet[Run], token: uuid.UUID, worker: Worker) -> int:
    # Rows that another worker is taking right now are skipped, not waited for (PostgreSQL);
    # SQLite has one writer at a time and ignores the lock. The rows are locked by a statement of
    # their own: as a subquery of the UPDATE, PostgreSQL may run it again for each row that it
    # compares, and every time it skips what it has locked itself and takes the next.
    free = list(
        wanted.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True)
    )
    return Run.objects.filter(pk__in=free, state=State.QUEUED).update(
        state=State.RUNNING,
        lease_token=token,
        lease_until=Now() + LEASE,
        worker=worker,
        attempt=F("attempt") + 1,
        **{**BLANK, "started": Now()},
    )


def _share(runs: Sequence[Run], worker: Worker) -> Sequence[Run]:
    """Of runs in their order, which all fit `worker`, those that it takes: all, or a part where
    others have nothing to do. The model is then loaded once by each, which costs nobody anything
    that he would need.

    Tasks of one benchmark stay together: they ask the same documents, and are answered together.
    """
    if len(runs) <= SMALLEST_SHARE or not (helpers := _helpers(runs[0], worker)):
        return runs
    enough = max(ceil(len(runs) / (1 + helpers)), SMALLEST_SHARE)
    by_benchmark: dict[str, list[Run]] = {}
    for run in runs:
        by_benchmark.setdefault(run.task.benchmark, []).append(run)
    taken: list[Run] = []
    for together in by_benchmark.values():
        if len(taken) >= enough:
            break
        taken += together
    return taken


def _helpers(run: Run, worker: Worker) -> int:
    """Workers that are idle and could take such a run, less the other models that wait for them."""
    busy = Run.objects.filter(worker=OuterRef("pk"), state=State.RUNNING)
    live = {other.name for other in live_workers()} - {worker.name}
    idle = Worker.objects.filter(~Exists(busy), name__in=live)
    told = orders.by_name(live)
    variant = run.variant
    how = (variant.dtype, variant.quantisation, variant.backend, variant.code)
    helpers = sum(
        other.computes(*how)
        and run.needed_bytes <= other.memory_bytes
        and other.name not in told
        and not other.is_full()
        for other in idle
    )
    if not helpers:
        return 0
    ready = Q(not_before=None) | Q(not_before__lte=Now())
    waiting = Run.objects.filter(ready, state=State.QUEUED).exclude(variant=variant).order_by()
    return max(helpers - len(waiting.values("variant").distinct()[:helpers]), 0)


def renew(token: uuid.UUID) -> set[uuid.UUID]:
    """Extend the lease; the ids of the runs that are still ours."""
    with transaction.atomic():
        held(token).update(lease_until=Now() + LEASE)
        return set(held(token).values_list("pk", flat=True))


def report(token: uuid.UUID, run: Run, *, phase: str, done: int, total: int) -> bool:
    """Store how far a run is; False where it is no longer ours. At most once a second, please."""
    mine = held(token).filter(pk=run.pk)
    return bool(mine.update(phase=phase, progress_done=done, progress_total=total))


def look(token: uuid.UUID, run: Run, *, metric: str, looks: Sequence[Mapping[str, float]]) -> bool:
    """Store where a run's score stood at each look so far, the oldest first; False where it is no
    longer ours."""
    stands = {"metric": metric, "looks": list(looks)}
    return bool(held(token).filter(pk=run.pk).update(so_far=stands))


def put_behind(token: uuid.UUID, runs: Iterable[Run]) -> None:
    """Let these runs of a claim wait for their turn, whatever an earlier child began of them.

    A worker that dies over a companion then dies over none of them.
    """
    behind = held(token).filter(pk__in=[run.pk for run in runs])
    behind.update(phase=WAITS, progress_done=0, progress_total=0)


def complete(
    token: uuid.UUID, run: Run, record: RunRecord, artifacts: Sequence[StoredFile]
) -> None:
    """Store what a run measured and call it done, all or nothing.

    Raises LeaseLost where the run is no longer ours, and ValueError (records.OtherTask) for a
    record that is not this run's; either way nothing is stored.
    """
    records.check(run, record)
    engine_version = _engine_version(run, record)
    samples = _samples_among(artifacts, record)
    same = vectors.asks_the_same_questions(record)
    by_question = vectors.read(samples, record.own_results(), same_questions=same)
    records.check_questions(record, by_question.layout)
    cost = costs.read(run, record, samples)
    with changing():
        recalling.recalls_stay()
        _take_place(run, by=holder(run))
        moved = (
            held(token)
            .filter(pk=run.pk)
            .update(
                state=State.DONE,
                finished=Now(),
                replaces=None,
                so_far={},
                progress_done=F("progress_total"),
                environment=record.environment,
                engine_version=engine_version,
                computed_by=records.computed_by(record),
                docs_digest=record.docs_digest,
                dataset_commits={
                    task: pins.get("commit") for task, pins in sorted(record.datasets.items())
                },
                **NOBODY,
            )
        )
        if not moved:
            raise LeaseLost(f"run {run.pk} was taken away before its results were stored")
        records.store(run, record, by_question)
        cost.save(force_insert=True)
        if cost.tokens:
            _count_tokens(holder(run), cost.tokens)
        Artifact.objects.bulk_create(
            Artifact(run=run, kind=file.kind, sha256=file.sha256, bytes=file.bytes, rows=file.rows)
            for file in artifacts
        )
        tell([run], State.DONE, by=holder(run))
        recalling.at_birth(run)


def _take_place(run: Run, *, by: str) -> None:
    """End the standing of the run that this one replaces; the caller's transaction ends `run` well.

    Of the same key there is one result at most, so the earlier one leaves boards and submissions.
    Of an older task version it stays, since the suites of then ask for nothing else, and says what
    is newer. Files and samples stay either way.
    """
    # Locked, since it may be recalled right now.
    replaced = Run.objects.filter(replacements=run.pk, state__in=REPLACEABLE)
    old = replaced.select_for_update(of=("self",), no_key=True).first()
    if old is None:
        return
    stands = Run.objects.filter(pk=old.pk, state=old.state)
    if old.run_key != run.run_key:
        stands.update(superseded_by=run)
        tell([old], State(old.state), by=by, why=f"measured by version {run.task.version} as well")
        return
    stands.update(state=State.SUPERSEDED, superseded_by=run)
    tell([old], State.SUPERSEDED, by=by, why=run.rerun.reason if run.rerun else "")
    for submission in old.submissions.all():
        submission.runs.add(run)
        submission.runs.remove(old)
    # What was shown of the earlier answers; of the new ones it is found anew.
    Agreement.objects.filter(Q(run=old) | Q(reference=old)).delete()


def _samples_among(artifacts: Sequence[StoredFile], record: RunRecord) -> Path:
    for file in artifacts:
        if file.kind == Artifact.Kind.SAMPLES and file.sha256 == record.samples.sha256:
            return path_of(file.sha256)
    raise ValueError(f"record of {record.task}: the sample file that it describes is not there")


def _count_tokens(worker: str, tokens: int) -> None:
    """Its sum stops at the largest number that the column holds."""
    most = Worker.tokens.field.MAX_BIGINT - tokens
    by = Worker.objects.filter(pk=worker)
    by.update(tokens=Least(F("tokens"), Value(most)) + Value(tokens))


def _engine_version(run: Run, record: RunRecord) -> str:
    """What measured it, by which it can be recalled. Raises ValueError where that is not so.

    A model's process writes its record itself, but is of the same installation as the worker that
    is here to store it. What vLLM computes has an installation of its own, whose word is taken.
    """
    told = str(record.engine.get("version", ""))
    if run.variant.backend == TRANSFORMERS and told != VERSION:
        raise ValueError(
            f"record of {record.task}: it names version {told[:32]!r} of the engine, its "
            f"worker has {VERSION}: the model's process wrote what is not so, or the worker is of "
            "before an upgrade and has to be started anew"
        )
    return told


def fail(token: uuid.UUID, run: Run, *, error_class: str, message: str, log_tail: str = "") -> None:
    """End a run with its reason; a failure of ours is tried again until the third attempt.

    Raises LeaseLost where the run is no longer ours.
    """
    reason = {
        "error_class": error_class,
        "error_message": message or "no reason was given",
        "log_tail": log_tail,
        **NOBODY,
    }
    with changing():
        mine = held(token).filter(pk=run.pk)
        if error_class == ErrorClass.INFRA:
            for attempt, rest in BACK_OFF.items():
                if mine.filter(attempt=attempt).update(
                    state=State.QUEUED, not_before=Now() + rest, **reason
                ):
                    tell([run], State.QUEUED, by=holder(run), why=f"{error_class}: {message}")
                    return
        if not mine.update(state=State.FAILED, finished=Now(), **reason):
            raise LeaseLost(f"run {run.pk} was taken away before its failure was stored")
        tell([run], State.FAILED, by=holder(run), why=f"{error_class}: {message}")


def give_back(token: uuid.UUID, *, why: str) -> int:
    """Queue the claim's unfinished runs again, as if they had not been tried; how many."""
    with changing():
        runs = list(held(token).select_for_update())
        back = held(token).update(attempt=F("attempt") - 1, **AGAIN)
        for run in runs:
            tell([run], State.QUEUED, by=run.worker_id or GONE, why=why)
    return back


def set_aside(token: uuid.UUID, worker: Worker, *, message: str) -> int:
    """Queue the runs of a claim whose worker's machine is full, in memory or on disk; how many.

    Nobody's fault but ours: the claim goes back uncharged, to another worker before all. The one
    that was full takes nothing for some minutes, and these runs only after an hour, unless no other
    can hold them. A run that found machine after machine full ends with what the operator has to
    do.
    """
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
    if times >= MOST_TIMES_FULL:
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
        full_until=Now() + ELSEWHERE if _another_could_hold(run, worker) else None,
        **told,
    )
    tell([run], State.QUEUED, by=worker.name, why=why)


def _another_could_hold(run: Run, full: Worker) -> bool:
    """Whether another worker that is alive, and not full itself, could hold the run."""
    variant = run.variant
    how = (variant.dtype, variant.quantisation, variant.backend, variant.code)
    return any(
        worker.pk != full.pk
        and not worker.is_full()
        and run.needed_bytes <= worker.memory_bytes
        and worker.computes(*how)
        for worker in live_workers()
    )


def cancel(run: Run, *, by: str, why: str = "") -> bool:
    """Stop a run that waits or runs; its worker notices within seconds. False if it has ended."""
    with changing():
        live = Run.objects.filter(pk=run.pk, state__in=(State.QUEUED, State.RUNNING))
        moved = live.update(state=State.CANCELLED, finished=Now(), **NOBODY)
        if moved:
            tell([run], State.CANCELLED, by=by, why=why)
    return bool(moved)


def retry(run: Run, *, by: str) -> bool:
    """Queue a failed or cancelled run once more, as if it had not been tried.

    False where it has not ended so, another run of the same variant and key stands in its place, or
    the model's author took it out of the ranking.
    """
    ended = Run.objects.filter(
        # What was to be replaced may have been, by another.
        Q(replaces=None)
        | Q(replaces__in=Run.objects.filter(state__in=REPLACEABLE, superseded_by=None)),
        pk=run.pk,
        state__in=(State.FAILED, State.CANCELLED),
        variant__hub_model__departed=False,
    )
    try:
        with changing():
            moved = ended.update(**UNTRIED)
            if moved:
                tell([run], State.QUEUED, by=by, why="to be tried again")
                announce([run])
    except IntegrityError:
        return False
    return bool(moved)


def put(run: Run, priority: int, *, by: str) -> bool:
    """Have a waiting run taken before all of a lower priority; False where it waits no more."""
    with changing():
        waiting = Run.objects.filter(pk=run.pk, state=State.QUEUED)
        moved = waiting.update(priority=priority)
        if moved:
            tell([run], State.QUEUED, by=by, why=f"put at priority {priority}")
    return bool(moved)


def release_stalled() -> int:
    """Take runs from workers that no longer renew their lease; how many.

    Those that were being worked on are queued again at once. A run whose third worker died over it
    is given up: whatever kills its workers would kill a fourth. A run that its worker had not yet
    begun did nothing of the kind: the attempt does not count.
    """
    stalled = Run.objects.filter(state=State.RUNNING, lease_until__lt=Now())
    released = 0
    for run in stalled:
        with changing():
            theirs = stalled.filter(pk=run.pk, lease_token=run.lease_token, phase=run.phase)
            why = f"{holder(run)} stopped reporting in attempt {run.attempt}"
            state = State.QUEUED
            if run.phase in NOT_BEGUN:
                why = f"{holder(run)} stopped reporting before it began"
                moved = theirs.update(attempt=F("attempt") - 1, **AGAIN)
            elif run.attempt < MAX_ATTEMPTS:
                moved = theirs.update(**AGAIN)
            else:
                state = State.FAILED
                moved = theirs.update(
                    state=state,
                    finished=Now(),
                    error_class=ErrorClass.INFRA,
                    error_message=f"{why}, as the workers before it did",
                    **NOBODY,
                )
            if moved:
                tell([run], state, by="housekeeping", why=why)
                released += 1
    return released
