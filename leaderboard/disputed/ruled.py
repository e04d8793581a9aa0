"""From rulings to disputed questions: counted by person, and noted as a set."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Count, Q

from leaderboard.models import DisputedSet, Ruling, SuiteEntry, TaskVersion
from leaderboard.models.edition import SITE, changing, note

LEAST = 2
"""People who must rule against a key: one alone disputes nothing."""

Key = tuple[str, int]
"""Leaf task and number of a question."""
_Verdict = Ruling.Verdict


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
        """At least LEAST people rule against the key, and more than for it."""
        against = self.wrong + self.ambiguous
        return against >= LEAST and against > self.right


def counts_of(task: TaskVersion, docs_digest: str) -> dict[Key, Counts]:
    """By question what stands, with one query.

    A ruling counts while its account is there and active: who leaves and comes back under another
    name does not count twice.
    """
    standing = Ruling.objects.filter(
        task=task, docs_digest=docs_digest, ended=None, by__is_active=True
    )
    rows = standing.order_by().values_list("part", "doc_id")
    says = {str(v): Count("pk", filter=Q(verdict=v)) for v in _Verdict}
    return {(part, doc_id): Counts(*numbers) for part, doc_id, *numbers in rows.annotate(**says)}


def settle(task: TaskVersion, docs_digest: str) -> None:
    """Note which questions are disputed now, in the transaction that changed what stands."""
    with changing():
        # Two people who rule at once are counted one after the other.
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
    """Count anew wherever somebody ruled: accounts that are gone since count no more."""
    # One of each: rulings of a question have the same digest, of a changed data set another.
    ruled = Ruling.objects.order_by().values_list("task", "docs_digest").distinct()
    tasks = TaskVersion.objects.in_bulk([task for task, _ in ruled])
    for task, docs_digest in ruled:
        settle(tasks[task], docs_digest)


def note_pages(task: TaskVersion) -> None:
    """That pages change: the site's, and the boards that show the task."""
    entries = SuiteEntry.objects.filter(task=task).order_by()
    note("pages", of=[SITE, *entries.values_list("suite", flat=True).distinct()])
