"""All questions that people ruled on, each once with its rulings, and their benchmarks."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from django.db.models import Case, Count, F, IntegerField, Max, Q, QuerySet, When, Window
from django.db.models.functions import RowNumber

from leaderboard.court.bench import within
from leaderboard.disputed import Counts
from leaderboard.models import DisputedSet, Ruling, TaskVersion
from leaderboard.tasks import column as task_column

AT_ONCE = 10
"""Rulings of a question that the list unfolds; all stand on the question's own page."""
QUESTION = ("task", "docs_digest", "part", "doc_id")
"""What makes two rulings those of one question."""
_STANDING = Q(ended=None, by__is_active=True)


@dataclass(frozen=True)
class Ruled:
    """A question that people ruled on."""

    title: str
    """Of its benchmark, as the benchmark's own page has it."""
    counts: Counts
    ever: int
    """Rulings, ended ones among them."""
    newest: Ruling
    rulings: Sequence[Ruling]
    """Some: those that stand first, of these and of the others the newest first."""

    @property
    def called(self) -> str:
        """As the list names the question, beside the title."""
        return within(self.newest.task, self.newest.called)

    @property
    def more(self) -> int:
        return self.ever - len(self.rulings)


@dataclass(frozen=True)
class Benchmark:
    name: str
    title: str
    disputed: int
    n: int
    """Rulings that stand."""
    ever: int


def of_task(name: str) -> QuerySet[Ruling]:
    """All that was ever said, of one task where one is named."""
    return Ruling.objects.filter(task__name=name) if name else Ruling.objects.all()


def questions_of(found: QuerySet[Ruling]) -> QuerySet[Any, Any]:
    """A row for each question, the one with the newest ruling first."""
    says = {
        f"says_{v}": Count("pk", filter=_STANDING & Q(verdict=v)) for v in Ruling.Verdict.values
    }
    rows = found.order_by().values(*QUESTION)
    counted: QuerySet[Any, Any] = rows.annotate(newest=Max("pk"), ever=Count("pk"), **says)
    return counted.order_by("-newest")


def with_rulings(rows: Iterable[dict[str, Any]]) -> list[Ruled]:
    """Some rows of `questions_of`, with three queries."""
    rows = list(rows)
    if not rows:
        return []
    newest = {one.pk: one for one in _told().filter(pk__in=[row["newest"] for row in rows])}
    titles = titles_of({one.task for one in newest.values()})
    rulings: dict[tuple[Any, ...], list[Ruling]] = {}
    for one in _some(rows):
        key = (one.task_id, one.docs_digest, one.part, one.doc_id)
        rulings.setdefault(key, []).append(one)
    return [
        Ruled(
            title=titles[row["task"]],
            counts=Counts(row["says_right"], row["says_wrong"], row["says_ambiguous"]),
            ever=row["ever"],
            newest=newest[row["newest"]],
            rulings=rulings[tuple(row[name] for name in QUESTION)],
        )
        for row in rows
    ]


def _some(rows: Sequence[dict[str, Any]]) -> QuerySet[Ruling]:
    """At most AT_ONCE rulings of each question: two hundred people may have ruled on one."""
    asked = reduce(operator.or_, (Q(**{name: row[name] for name in QUESTION}) for row in rows))
    ended = Case(When(ended=None, then=0), default=1, output_field=IntegerField())
    place = Window(
        RowNumber(),
        partition_by=[F(name) for name in QUESTION],
        order_by=[ended.asc(), F("pk").desc()],
    )
    return _told().filter(asked).annotate(place=place).filter(place__lte=AT_ONCE).order_by("place")


def _told() -> QuerySet[Ruling]:
    return Ruling.objects.select_related("task", "by", "ended_by")


def benchmarks() -> list[Benchmark]:
    """Those with a ruling, the most disputed questions first."""
    rows = list(
        Ruling.objects.order_by()
        .values("task__name")
        .annotate(n=Count("pk", filter=_STANDING), ever=Count("pk"))
    )
    disputed: dict[str, int] = {}
    for name, n in DisputedSet.objects.filter(current=True).values_list("task__name", "n"):
        disputed[name] = disputed.get(name, 0) + n
    titles = titles_by_name([row["task__name"] for row in rows])
    told = [
        Benchmark(name, titles[name], disputed.get(name, 0), row["n"], row["ever"])
        for row in rows
        for name in [row["task__name"]]
    ]
    return sorted(told, key=lambda one: (-one.disputed, -one.n, one.title, one.name))


def titles_by_name(names: Sequence[str]) -> dict[str, str]:
    """The title of each task's newest version; of a name that is not known, the name."""
    tasks = TaskVersion.objects.filter(name__in=names).order_by("created", "pk")
    newest = {task.name: task for task in tasks}
    titles = titles_of(newest.values())
    return {name: titles[newest[name].pk] if name in newest else name for name in names}


def titles_of(tasks: Iterable[TaskVersion]) -> dict[int, str]:
    """By task its title as its own page has it, of all of them with one query."""
    tasks = list(tasks)
    entries = task_column.entries_by_name({task.name for task in tasks})
    return {task.pk: task_column.title_of(task, entries.get(task.name, [])) for task in tasks}
