"""Runs as lists show them: with their model, and with the title that a suite gives the task."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import CharField, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from leaderboard.models import Run, SuiteEntry
from leaderboard.models.run import run_url
from leaderboard.models.task import Style


def title_of(run: Run) -> str:
    """What its suite calls the benchmark of a `listed` run."""
    return str(getattr(run, "title"))  # noqa: B009


def listed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with model and task at hand, each with a `title`, in one query."""
    return _titled(runs.select_related("variant__hub_model", "task", "worker"))


LIGHT = (
    *("variant", "task", "worker", "state", "priority", "votes", "attempt", "times_full"),
    *("created", "due", "not_before", "started", "finished", "phase"),
    *("progress_done", "progress_total", "error_class", "error_message", "rerun", "replaces"),
    *("worker__name", "task__benchmark", "task__style", "variant__hub_model__repo_id"),
    *(f"variant__{name}" for name in ("hub_model", "commit", "parameters", "dtype")),
    *(f"variant__{name}" for name in ("quantisation", "adapter_base", "chat", "backend")),
)
"""What the queue shows of a run, of the hundred fields that `listed` has at hand."""


class Asked(NamedTuple):
    """Of a task what a list says."""

    benchmark: str
    style: str


class Named(NamedTuple):
    """Of a run no more than is said where it is one of many: a page names hundreds of them."""

    pk: UUID
    title: str
    created: datetime
    task: Asked

    def get_absolute_url(self) -> str:
        return run_url(self.pk)


def named(wanted: Iterable[UUID]) -> dict[UUID, Named]:
    """Runs by their primary keys, with one query."""
    runs: QuerySet[Any] = _titled(Run.objects.filter(pk__in=list(wanted))).order_by()
    rows = runs.values_list("pk", "title", "created", "task__benchmark", "task__style")
    return {pk: Named(pk, title, created, Asked(*task)) for pk, title, created, *task in rows}


def _titled(runs: QuerySet[Run]) -> QuerySet[Run]:
    titles = SuiteEntry.objects.filter(task=OuterRef("task")).order_by("-suite__created")
    return runs.annotate(
        title=Coalesce(
            Subquery(titles.values("title")[:1]), F("task__benchmark"), output_field=CharField()
        )
    )


def of_model(runs: QuerySet[Run], part: str) -> QuerySet[Run]:
    """The runs of models that have this text in their ID."""
    return runs.filter(variant__hub_model__repo_id__icontains=part) if part else runs


ARun = TypeVar("ARun", Run, Named)


def by_benchmark(runs: Iterable[ARun]) -> list[ARun]:
    """Benchmarks by name, each in the site's order of styles, older runs first."""
    place = {style: number for number, style in enumerate(Style.values)}
    return sorted(
        runs, key=lambda run: (run.task.benchmark, place.get(run.task.style, 9), run.created)
    )
