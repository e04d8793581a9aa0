"""Runs as lists show them: with their model, and with the title that a suite gives the task."""

from __future__ import annotations

from django.db.models import CharField, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from leaderboard.models import Run, SuiteEntry


def listed(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with model and task at hand, each with a `title`, in one query."""
    titles = SuiteEntry.objects.filter(task=OuterRef("task")).order_by("-suite__created")
    return runs.select_related("variant__hub_model", "task", "worker").annotate(
        title=Coalesce(
            Subquery(titles.values("title")[:1]), F("task__benchmark"), output_field=CharField()
        )
    )
