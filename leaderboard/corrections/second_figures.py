"""Questions whose keys people dispute, and every score without them, which never ranks.

`settle` notes which questions of a task are disputed. `compute_due` is a chore in the background,
which computes from the stored scores by question what the results are without those; pages read
the stored figures (`snapshot/adjusted.py`). A figure is made exactly as the result itself was;
where that does not give the result, there is no second figure either.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from time import monotonic
from typing import NamedTuple

import numpy as np
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from numpy.typing import NDArray

from evalcore.score.numbers import uncertainty
from evalcore.stats import Interval
from leaderboard.models import (
    DisputedSet,
    Report,
    Result,
    Run,
    SecondFigure,
    SuiteEntry,
    TaskVersion,
)
from leaderboard.models.edition import SITE, changing, note
from leaderboard.samples import Layout, Vector, by_result

MIN_PEOPLE = 2
"""Who must say that a key is wrong or ambiguous: one alone disputes nothing."""
BATCH_SIZE = 200
"""Results whose scores by question are in memory."""
MAX_SECONDS = 20.0
"""After so long the rest waits for the next call: other chores wait behind it."""
SAME = 1e-6
"""Scores by question are kept in single precision: within this it is the same number."""

Key = tuple[str, int]
"""Leaf task and number of a question."""


class Counts(NamedTuple):
    """How many people say so, each once."""

    right: int = 0
    wrong: int = 0
    ambiguous: int = 0

    @property
    def n(self) -> int:
        return sum(self)

    @property
    def disputed(self) -> bool:
        """At least MIN_PEOPLE people are against the key, and more than for it."""
        against = self.wrong + self.ambiguous
        return against >= MIN_PEOPLE and against > self.right


def counts_of(task: TaskVersion, docs_digest: str) -> dict[Key, Counts]:
    """By question what stands, with one query.

    A report counts while its account is there and active: who leaves and comes back under another
    name does not count twice.
    """
    standing = Report.objects.filter(
        kind=Report.Kind.KEY,
        task=task,
        docs_digest=docs_digest,
        state=Report.State.OPEN,
        by__is_active=True,
    )
    rows = standing.order_by().values_list("part", "doc_id")
    says = {str(v): Count("pk", filter=Q(verdict=v)) for v in Report.Verdict}
    return {(part, doc_id): Counts(*numbers) for part, doc_id, *numbers in rows.annotate(**says)}


def settle(task: TaskVersion, docs_digest: str) -> None:
    """Note which questions are disputed now, in the transaction that changed what stands."""
    with changing():
        # Two people who report at once are counted one after the other.
        TaskVersion.objects.select_for_update(no_key=True).get(pk=task.pk)
        counted = counts_of(task, docs_digest)
        questions = sorted([part, doc_id] for (part, doc_id), c in counted.items() if c.disputed)
        current = DisputedSet.objects.filter(task=task, docs_digest=docs_digest, current=True)
        before = current.values_list("questions", flat=True).first() or []
        if questions == before:
            return
        current.update(current=False)
        if questions:
            DisputedSet.objects.create(
                task=task, docs_digest=docs_digest, questions=questions, n=len(questions)
            )
        note_pages(task)


def settle_all() -> None:
    """Count anew wherever somebody reported: accounts that are gone since count no more."""
    # One of each: reports on a question have the same digest, of a changed data set another.
    keys = Report.objects.filter(kind=Report.Kind.KEY, task__isnull=False).order_by()
    reported = keys.values_list("task", "docs_digest").distinct()
    tasks = TaskVersion.objects.in_bulk([task for task, _ in reported])
    for task, docs_digest in reported:
        settle(tasks[task], docs_digest)


def note_pages(task: TaskVersion) -> None:
    """That pages change: the site's, and the boards that show the task."""
    entries = SuiteEntry.objects.filter(task=task).order_by()
    note("pages", of=[SITE, *entries.values_list("suite", flat=True).distinct()])


def compute_due() -> int:
    """Compute the second figures that are missing; how many were stored."""
    settle_all()
    SecondFigure.objects.filter(disputed__current=False).delete()
    begun, stored = monotonic(), 0
    for disputed in DisputedSet.objects.filter(current=True).select_related("task").order_by("pk"):
        while monotonic() - begun < MAX_SECONDS:
            found = list(_missing(disputed)[:BATCH_SIZE])
            if not found:
                break
            stored += _store(disputed, found)
    return stored


def _missing(disputed: DisputedSet) -> QuerySet[Result]:
    """The numbers that columns and runs of the task show, on these very questions."""
    task = disputed.task
    metrics = SuiteEntry.objects.filter(task=task).values_list("metric", flat=True)
    known = SecondFigure.objects.filter(disputed=disputed, result=OuterRef("pk"))
    return Result.objects.filter(
        ~Exists(known),
        run__task=task,
        run__state=Run.State.DONE,
        subset="",
        task_name=task.name,
        metric__in={*metrics, task.primary_metric},
        vector__questions__docs_digest=disputed.docs_digest,
    ).order_by("pk")


def _store(disputed: DisputedSet, results: Sequence[Result]) -> int:
    vectors = by_result([result.pk for result in results])
    figures = [_figure(disputed, result, vectors[result.pk]) for result in results]
    with changing():
        # Meanwhile it may be another set: figures of this one are then shown nowhere.
        SecondFigure.objects.bulk_create(figures, ignore_conflicts=True)
        note_pages(disputed.task)
    return len(figures)


def _figure(disputed: DisputedSet, result: Result, vector: Vector) -> SecondFigure:
    left = kept(vector.layout, disputed.questions)
    removed = len(left) - int(left.sum())
    found = second(vector, left, result) if removed == disputed.n else None
    sides = (found.value, found.low, found.high) if found else (None, None, None)
    value, low, high = sides
    return SecondFigure(
        disputed=disputed, result=result, n=int(left.sum()), value=value, low=low, high=high
    )


def kept(layout: Layout, questions: Sequence[Sequence[object]]) -> NDArray[np.bool_]:
    """By question whether it is counted; `questions`, pairs of leaf task and number, are not."""
    left = np.ones(layout.n, np.bool_)
    for task, doc_id in questions:
        if task in layout.tasks:
            left &= ~((layout.task == layout.tasks.index(str(task))) & (layout.doc_id == doc_id))
    return left


def second(vector: Vector, left: NDArray[np.bool_], result: Result) -> Interval | None:
    """The score over the questions that are left; None for none, or where it cannot be told."""
    first = measured(vector, np.ones(len(left), np.bool_))
    own = (result.value, result.low, result.high)
    both = zip((first.value, first.low, first.high), own, strict=True)
    if not left.any() or not all(isclose(one, other, abs_tol=SAME) for one, other in both):
        return None
    return measured(vector, left)


def measured(vector: Vector, left: NDArray[np.bool_]) -> Interval:
    """Value and 95 % interval over these questions, as evaluations compute them
    (`evalcore.score.numbers.uncertainty`; docs/method.md, standard errors and intervals)."""
    layout, scores = vector.layout, vector.scores[left]
    task, cluster = layout.task[left], None if layout.cluster is None else layout.cluster[left]
    if cluster is not None and _reach_over(cluster, task):
        return uncertainty.measure(scores.tolist(), cluster.tolist()).interval
    places = [np.flatnonzero(task == one) for one in np.unique(task)]
    parts = [scores[at].tolist() for at in places]
    labels = [None if cluster is None else cluster[at].tolist() for at in places]
    if len(parts) == 1:
        return uncertainty.measure(parts[0], labels[0]).interval
    if not vector.by_part:
        return uncertainty.measure_group(parts, labels).interval
    each = [uncertainty.measure(part, of) for part, of in zip(parts, labels, strict=True)]
    sizes = [len(part) for part in parts]
    return uncertainty.measure_parts(each, sizes, by_size=False).interval


def _reach_over(cluster: NDArray[np.int32], task: NDArray[np.int32]) -> bool:
    """Whether one cluster has questions of several tasks, as where they ask the same ones."""
    pairs = np.unique(np.stack([cluster, task]), axis=1)
    return bool(pairs.shape[1] > len(np.unique(cluster)))
