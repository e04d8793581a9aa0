"""To recall results, to undo that, and to look first at what it would concern.

Whatever a recall names leaves every board with the transaction by which it stands
(`snapshot/recalled.py`), before the next one is built. Its runs are then taken in batches.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from leaderboard.corrections.reports import Refused
from leaderboard.models import Artifact, Recall, Result, Run, TaskVersion
from leaderboard.models.edition import changing, note
from leaderboard.models.run import WAITING, State
from leaderboard.queue import recalling, reruns
from leaderboard.samples import vectors
from leaderboard.snapshot import published, recalled
from leaderboard.tasks import items

logger = logging.getLogger(__name__)

LONGEST_REASON = 250
"""Characters: a rerun repeats it in its own."""
NOT_COMPARABLE = "its sample file has other questions than the other results of its column"
_DIGEST = re.compile(r"[0-9a-f]{64}")


Progress = Callable[[str, int, int], None]
"""Is told after each batch what is done, of how many runs, and of how many in all."""


@dataclass
class Concerned:
    """What a recall would take, or took."""

    stand: int = 0
    """Results on boards until now."""
    past: int = 0
    """Superseded before; they are marked where they are shown still."""
    models: int = 0
    """Of the results on boards."""
    queued: int = 0
    """How many were queued to be measured again."""

    @property
    def words(self) -> str:
        """As in “12 results of 3 models that stand, and 2 superseded ones”."""
        results = f"{self.stand:,} result{'' if self.stand == 1 else 's'}"
        models = f"{self.models:,} model{'' if self.models == 1 else 's'}"
        past = f", and {self.past:,} superseded" if self.past else ""
        verb = "stands" if self.stand == 1 else "stand"
        return f"{results} of {models} that {verb}{past}"


def free_runs(kind: str, named: Sequence[str]) -> QuerySet[Run]:
    """The runs that a recall of this would take. Raises Refused."""
    return recalling.concerned(kind, _known(kind, named)).filter(recall=None)


def look(kind: str, named: Sequence[str]) -> Concerned:
    """What a recall of this would take; nothing changes. Raises Refused."""
    runs = free_runs(kind, named)
    stand = runs.filter(state=State.DONE)
    models = stand.order_by().values("variant__hub_model").distinct().count()
    return Concerned(stand.count(), runs.filter(state=State.SUPERSEDED).count(), models)


def recall(
    kind: str, named: Sequence[str], *, reason: str, by: str, progress: Progress | None = None
) -> tuple[Recall, Concerned]:
    """Recall these results, and queue them again where engine or task was wrong. Raises Refused.

    Of results that are named one by one, each is at fault itself, and measured again it may be no
    better: they are queued when somebody says so (`again`).

    By its first transaction it stands: what ends later is recalled as it ends, and no board shows
    any more what it names. The next ones take what had ended before, and queue reruns, a batch
    each. Where it was cut off between them, `again` goes on.
    """
    reason, names = _reason(reason), _known(kind, named)
    if not recalling.concerned(kind, names).filter(recall=None).exists():
        raise Refused(f"{kind}: all that {', '.join(names)} names is recalled already.")
    with transaction.atomic(durable=True), changing():
        recalling.recalls_change()
        made = Recall.objects.create(kind=kind, named=names, reason=reason, by=by, at=Now())
        note("data", "pages")
    taken = _take_named(made, progress)
    if kind != Recall.Kind.RUNS:
        taken.queued = _queue(made, by, progress)
    made.refresh_from_db()
    return made, taken


def build_boards() -> int:
    """Build the boards that are due; how many were built.

    A result that did not answer what the others of its column did is recalled by the site: it keeps
    no board from being built, and an operator sees it named.
    """
    while True:
        try:
            return published.build_due()
        except* vectors.OtherQuestions as problems:
            at_fault = {pk for problem in _each(problems) for pk in problem.results}
        _take_out(at_fault)


def _each(group: BaseExceptionGroup[vectors.OtherQuestions]) -> Iterator[vectors.OtherQuestions]:
    for problem in group.exceptions:
        if isinstance(problem, BaseExceptionGroup):
            yield from _each(problem)
        else:
            yield problem


def _take_out(results: Iterable[int]) -> None:
    runs = Run.objects.filter(results__in=results, state=State.DONE).distinct()
    names = [str(pk) for pk in runs.order_by("pk").values_list("pk", flat=True)]
    if names:
        logger.error("recalled, since no board can be built with them: runs %s", ", ".join(names))
        recall(Recall.Kind.RUNS, names, reason=NOT_COMPARABLE, by=Recall.SITE)


def again(made: Recall, *, by: str, progress: Progress | None = None) -> int:
    """Take what a recall that was cut off has not taken, and queue what nothing waits to replace:
    say once a newer version is there. How many are queued. Raises Refused."""
    if not made.stands:
        raise Refused(f"again: recall {made.pk} was undone; there is nothing to measure again.")
    _take_named(made, progress)
    return _queue(made, by, progress)


def undo(made: Recall, *, reason: str, by: str) -> int:
    """Let stand again what it took; how many results do. Raises Refused.

    What another recall names as well goes over to that one.
    """
    reason = _reason(reason)
    with transaction.atomic(durable=True), changing():
        recalling.one_takes()
        recalling.recalls_change()
        undone = Recall.objects.filter(pk=made.pk, undone=None)
        if not undone.update(undone=Now(), undone_by=by, undone_why=reason):
            raise Refused(f"undo: recall {made.pk} was undone before.")
        freed = recalling.put_back(made, by=by, why=reason)
        others = list(Recall.objects.filter(undone=None).order_by("pk"))
        for other in others:
            while _take_batch(other):
                pass
        items.forget(_columns(freed))
        note("data", "pages")
        stand = Run.objects.filter(pk__in=[run.pk for run in freed], state=State.DONE).count()
    for other in others:
        recalled.settle(other)
    made.refresh_from_db()
    return stand


def _take_named(made: Recall, progress: Progress | None) -> Concerned:
    """Take all that it names, in batches; what was on boards until now."""
    taken, models, total = Concerned(), set[int](), left_of(made)
    while True:
        with transaction.atomic(durable=True), changing():
            recalling.one_takes()
            # Meanwhile somebody may have undone it.
            batch = _take_batch(made) if _stands(made) else []
        if not batch:
            break
        stood = [run for run in batch if run.state == State.DONE]
        models |= {run.variant.hub_model_id for run in stood}
        taken.stand += len(stood)
        taken.past += len(batch) - len(stood)
        if progress:
            progress("recalled", taken.stand + taken.past, total)
    taken.models = len(models)
    recalled.settle(made)
    return taken


def _take_batch(made: Recall) -> list[Run]:
    batch = recalling.take(made)
    if batch:
        # Boards that know of it may have been built with what it takes now.
        Recall.objects.filter(pk=made.pk).update(settled=None)
        items.forget(_columns(batch))
        note("data", "pages")
    return batch


def _stands(made: Recall) -> bool:
    return Recall.objects.filter(pk=made.pk, undone=None).exists()


def left_of(made: Recall) -> int:
    """How many runs that it names it has not taken yet; 0 once all of it is done."""
    settled = Recall.objects.values_list("settled", flat=True).get(pk=made.pk)
    if settled or not _stands(made):
        return 0
    return recalling.concerned(made.kind, made.named).filter(recall=None).count()


def _queue(made: Recall, by: str, progress: Progress | None) -> int:
    """Queue once more what it took and nothing waits to replace, where that can be measured."""
    waiting = Run.objects.filter(replaces=OuterRef("pk"), state__in=WAITING)
    left = made.runs.filter(~Exists(waiting), state=State.RECALLED, superseded_by=None)
    keys = list(left.order_by("variant", "finished", "pk").values_list("pk", "variant"))
    reason, looked_at, queued = f"recall {made.pk}: {made.reason}", 0, 0
    for batch in _by_variant(keys):
        with transaction.atomic(durable=True), changing():
            recalling.one_takes()
            if not _stands(made):
                break
            found = left.filter(pk__in=batch).select_related("variant", "task")
            if runs := _measurable(found.order_by("variant", "finished", "pk")):
                queued += len(reruns.rerun(runs, by=by, reason=reason).queued)
        looked_at += len(batch)
        if progress:
            progress("looked at to be measured again", looked_at, len(keys))
    return queued


def _by_variant(keys: Iterable[tuple[UUID, int]]) -> Iterator[list[UUID]]:
    """Batches of runs, all of a variant in the same one: they share a turn in the queue."""
    batch: list[UUID] = []
    for _, of_variant in groupby(keys, key=itemgetter(1)):
        runs = [pk for pk, _ in of_variant]
        if batch and len(batch) + len(runs) > recalling.BATCH_SIZE:
            yield batch
            batch = []
        batch += runs
    if batch:
        yield batch


def _measurable(runs: Iterable[Run]) -> list[Run]:
    """All but those whose task's newest version is itself recalled."""
    tasks = Recall.objects.filter(undone=None, kind=Recall.Kind.TASK)
    wrong = {name for named in tasks.values_list("named", flat=True) for name in named}
    newest: dict[str, str] = {}
    for name, version in TaskVersion.objects.order_by("created", "pk").values_list(
        "name", "version"
    ):
        newest[name] = f"{name}@{version}"
    return [run for run in runs if newest[run.task.name] not in wrong]


def _columns(runs: Sequence[Run]) -> set[str]:
    """The comparability keys of their numbers."""
    keys: set[str] = set()
    for start in range(0, len(runs), recalling.BATCH_SIZE):
        some = [run.pk for run in runs[start : start + recalling.BATCH_SIZE]]
        own = Result.objects.filter(run__in=some, subset="").order_by()
        keys |= set(own.values_list("comparability_key", flat=True).distinct())
    return keys


def _reason(reason: str) -> str:
    reason = reason.strip().rstrip(".")
    if not reason:
        raise Refused("reason: say in one sentence what is wrong; everybody reads it.")
    if len(reason) > LONGEST_REASON:
        raise Refused(f"reason: {len(reason)} characters; say it in {LONGEST_REASON}.")
    return reason


def _known(kind: str, named: Sequence[str]) -> list[str]:
    """The names, once each and as the tables have them. Raises Refused for one of nothing."""
    names = list(dict.fromkeys(name.strip() for name in named if name.strip()))
    if kind not in Recall.Kind.values:
        raise Refused(f"kind: {kind!r} is none of {', '.join(Recall.Kind.values)}.")
    if not names:
        raise Refused(f"{kind}: name at least one.")
    return [_KNOWN[Recall.Kind(kind)](name) for name in names]


def _engine(name: str) -> str:
    known = Run.objects.exclude(engine_version="").order_by()
    versions = sorted(known.values_list("engine_version", flat=True).distinct())
    if name not in versions:
        raise Refused(f"engine: no result is by version {name!r}, only {', '.join(versions)}.")
    return name


def _task(name: str) -> str:
    task, _, version = name.rpartition("@")
    versions = list(TaskVersion.objects.filter(name=task).values_list("version", flat=True))
    if not task:
        raise Refused(f"task: {name!r} names no version; write NAME@VERSION.")
    if version not in versions:
        known = f"only {', '.join(sorted(versions))}" if versions else "nor has it any other"
        raise Refused(f"task: {task} has no version {version!r}, {known}.")
    return name


def _run(name: str) -> str:
    if _DIGEST.fullmatch(name.lower()):
        found: QuerySet[Run] = Run.objects.filter(
            pk__in=Artifact.objects.filter(sha256=name.lower()).values("run")
        )
        name, what = name.lower(), "file with the digest"
    else:
        try:
            name, what = str(UUID(name)), "run"
        except ValueError:
            raise Refused(
                f"runs: {name!r} is neither the ID of a run nor the SHA-256 of a file; a run's "
                "page has both."
            ) from None
        found = Run.objects.filter(pk=name)
    run = found.first()
    if run is None:
        raise Refused(f"runs: there is no {what} {name}; copy it from the page of a run.")
    if not recalling.concerned(Recall.Kind.RUNS, [name]).exists():
        raise Refused(f"runs: {name} is {run.get_state_display().lower()}: it has no numbers.")
    return name


_KNOWN = {Recall.Kind.ENGINE: _engine, Recall.Kind.TASK: _task, Recall.Kind.RUNS: _run}


# How far it is measured again


@dataclass(frozen=True)
class RecallStand:
    """How far the results of a recall are measured again."""

    replaced: int = 0
    waiting: int = 0
    failed: int = 0
    left: int = 0
    """Nothing waits to replace them: the operator decides."""

    @property
    def counts(self) -> list[tuple[str, int, str]]:
        """How each is marked, how many, and what they are; without those that are none."""
        every = (
            ("ok", self.replaced, "measured again"),
            ("wait", self.waiting, "in the queue"),
            ("fail", self.failed, "failed again"),
            ("off", self.left, "not queued"),
        )
        return [count for count in every if count[1]]


def with_rerun(runs: QuerySet[Run]) -> QuerySet[Run]:
    # Two lists that are made once. Asked of each run whether another replaces it, SQLite reads the
    # whole table each time: seconds, of a recall of a thousand results.
    again = Run.objects.exclude(replaces=None).values("replaces")
    return runs.annotate(
        waits=Q(pk__in=again.filter(state__in=WAITING)),
        failed=Q(pk__in=again.filter(state=State.FAILED)),
    )


def stands_of(made: Iterable[int]) -> dict[int, RecallStand]:
    """By recall, with one query for all."""
    keys = list(made)
    replaced, unreplaced = Q(superseded_by__isnull=False), Q(superseded_by=None)
    rows = (
        with_rerun(Run.objects.filter(recall__in=keys))
        .order_by()
        .values("recall")
        .annotate(
            n_replaced=Count("pk", filter=replaced),
            n_waiting=Count("pk", filter=unreplaced & Q(waits=True)),
            n_failed=Count("pk", filter=unreplaced & Q(waits=False, failed=True)),
            n_left=Count("pk", filter=unreplaced & Q(waits=False, failed=False)),
        )
        .values_list("recall", "n_replaced", "n_waiting", "n_failed", "n_left")
    )
    stands = {key: RecallStand(*counts) for key, *counts in rows}
    return {key: stands.get(key, RecallStand()) for key in keys}
