"""To recall results, to undo that, and to look first at what it would concern.

Whatever is recalled leaves every board with the transaction that takes it (`snapshot/recalled.py`),
before the next one is built.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Concerned:
    """What a recall would take, or took."""

    stand: list[Run]
    """On boards until now."""
    past: int
    """Superseded before; they are marked where they are shown still."""
    queued: int = 0
    """How many were queued to be measured again."""

    @property
    def models(self) -> int:
        return len({run.variant.hub_model_id for run in self.stand})

    @property
    def words(self) -> str:
        """As in “12 results of 3 models that stand, and 2 superseded ones”."""
        results = f"{len(self.stand)} result{'' if len(self.stand) == 1 else 's'}"
        models = f"{self.models} model{'' if self.models == 1 else 's'}"
        past = f", and {self.past} superseded" if self.past else ""
        verb = "stands" if len(self.stand) == 1 else "stand"
        return f"{results} of {models} that {verb}{past}"


def look(kind: str, named: Sequence[str]) -> Concerned:
    """What a recall of this would take; nothing changes. Raises Refused."""
    runs = recalling.concerned(kind, _known(kind, named)).filter(recall=None)
    stand = runs.filter(state=State.DONE).select_related("variant__hub_model", "task")
    return Concerned(
        list(stand.order_by("variant__hub_model__repo_id", "task__name", "pk")),
        runs.filter(state=State.SUPERSEDED).count(),
    )


def recall(kind: str, named: Sequence[str], *, reason: str, by: str) -> tuple[Recall, Concerned]:
    """Recall these results, and queue them again where engine or task was wrong. Raises Refused.

    Of results that are named one by one, each is at fault itself, and measured again it may be no
    better: they are queued when somebody says so (`again`).

    Three transactions. From the first on it stands: what ends later is recalled as it ends. The
    second takes what had ended before, the third queues reruns, which takes longest. Where it was
    cut off between them, `again` goes on.
    """
    reason, names = _reason(reason), _known(kind, named)
    if not recalling.concerned(kind, names).filter(recall=None).exists():
        raise Refused(f"{kind}: all that {', '.join(names)} names is recalled already.")
    with transaction.atomic(durable=True), changing():
        recalling.recalls_change()
        made = Recall.objects.create(kind=kind, named=names, reason=reason, by=by, at=Now())
    stood = _take_named(made)
    queued = 0 if kind == Recall.Kind.RUNS else _queue(made, by)
    made.refresh_from_db()
    return made, Concerned(stood, made.results - len(stood), queued)


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


def again(made: Recall, *, by: str) -> int:
    """Take what a recall that was cut off has not taken, and queue what nothing waits to replace:
    say once a newer version is there. How many are queued. Raises Refused."""
    if not made.stands:
        raise Refused(f"again: recall {made.pk} was undone; there is nothing to measure again.")
    _take_named(made)
    return _queue(made, by)


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
            _take(other)
        items.forget(_columns(freed))
        note("data", "pages")
        stand = Run.objects.filter(pk__in=[run.pk for run in freed], state=State.DONE).count()
    for other in others:
        _settled(other)
    made.refresh_from_db()
    return stand


def _take_named(made: Recall) -> list[Run]:
    """Take all that it names, in a transaction; what stood until now."""
    with transaction.atomic(durable=True), changing():
        recalling.one_takes()
        if not Recall.objects.filter(pk=made.pk, undone=None).exists():
            return []  # somebody was faster
        taken = _take(made)
    _settled(made)
    return taken


def _take(made: Recall) -> list[Run]:
    named = recalling.concerned(made.kind, made.named)
    if not named.filter(recall=None).exists():
        return []
    # Boards that know of it may have been built with what it takes now.
    Recall.objects.filter(pk=made.pk).update(settled=None)
    taken = recalling.take(named, made)
    items.forget(_columns(taken))
    note("data", "pages")
    return taken


def _queue(made: Recall, by: str) -> int:
    """Queue once more what it took and nothing waits to replace, where that can be measured."""
    with transaction.atomic(durable=True), changing():
        recalling.one_takes()
        if not Recall.objects.filter(pk=made.pk, undone=None).exists():
            return 0
        waiting = Run.objects.filter(replaces=OuterRef("pk"), state__in=WAITING)
        left = made.runs.filter(~Exists(waiting), state=State.RECALLED, superseded_by=None)
        runs = _measurable(left.select_related("variant", "task").order_by("finished", "pk"))
        if not runs:
            return 0
        return len(reruns.rerun(runs, by=by, reason=f"recall {made.pk}: {made.reason}").queued)


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


def _settled(made: Recall) -> None:
    transaction.on_commit(lambda: recalled.settle(made))


def _columns(runs: Sequence[Run]) -> set[str]:
    """The comparability keys of their numbers."""
    keys: set[str] = set()
    for start in range(0, len(runs), recalling.AT_ONCE):
        some = [run.pk for run in runs[start : start + recalling.AT_ONCE]]
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
