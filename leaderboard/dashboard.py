"""The administration's first page: what an operator looks for in the morning, from the rows.

Failures by cause, boards that cannot be built, reports that wait for a ruling, workers and disk.
Each part is shown to accounts that may view its table, and leads to the rows behind it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.db.models import Case, Count, Max, Min, When
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from leaderboard.health import stand
from leaderboard.models import BoardFault, Report, Run, Worker
from leaderboard.models.run import ErrorClass, State
from leaderboard.samples import Folder
from leaderboard.samples import store as artifacts

FAILED_SINCE = timedelta(days=7)
MAX_CAUSES = 8
LOW_DISK = 0.1
"""The share of a disk that is free below which it is marked."""


@dataclass(frozen=True)
class Cause:
    """Failed runs with one message."""

    fault: str
    """Whose: the model's, the task's or the site's own."""
    message: str
    runs: int
    newest: datetime
    url: str


def causes(now: datetime) -> list[Cause]:
    """Why runs failed in the last days: the site's own faults first, then the most frequent."""
    failed = Run.objects.filter(state=State.FAILED, finished__gte=now - FAILED_SINCE).order_by()
    ours_first = Case(When(error_class=ErrorClass.INFRA, then=0), default=1)
    rows = failed.values("error_class", "error_message").annotate(
        runs=Count("pk"), newest=Max("finished")
    )
    listed = reverse("admin:leaderboard_run_changelist")
    return [
        Cause(
            fault=ErrorClass(row["error_class"]).label,
            message=row["error_message"],
            runs=row["runs"],
            newest=row["newest"],
            url=f"{listed}?state__exact=failed&error_class__exact={row['error_class']}",
        )
        for row in rows.order_by(ours_first, "-runs")[:MAX_CAUSES]
    ]


@dataclass(frozen=True)
class Disk:
    """A folder in which the site keeps files."""

    name: str
    folder: str
    free: int
    total: int

    @property
    def used_percent(self) -> int:
        return round(100 * (1 - self.free / self.total))

    @property
    def is_low(self) -> bool:
        return self.free < LOW_DISK * self.total


def disks() -> Iterator[Disk]:
    """The disks of this machine; those of other machines are in their workers' rows on /pool."""
    folders = {"Home": str(settings.PLUMBLINE_HOME)}
    if isinstance(storage := artifacts.storage(), Folder):
        folders["Artifacts"] = str(storage.here)
    for name, folder in folders.items():
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        yield Disk(name, folder, usage.free, usage.total)


def reports() -> dict[str, Any]:
    """How many reports no moderator has ruled on, and since when the oldest waits; reports on keys
    need no ruling."""
    waiting = Report.objects.filter(state=Report.State.OPEN).exclude(kind=Report.Kind.KEY)
    return waiting.order_by().aggregate(n=Count("pk"), oldest=Min("at"))


def workers(now: datetime) -> dict[str, Any]:
    """What the pool is at, what waits for it, and in whose own words a worker cannot work."""
    unable = Worker.objects.filter(ended=None, seen__gte=now - stand.REMEMBERED).exclude(refusal="")
    return {
        "by_state": stand.pool(now).workers,
        "waiting": stand.waiting(now),
        "unable": unable.order_by("name"),
    }


class OperatorSite(AdminSite):
    site_header = site_title = "Plumbline"
    index_title = "Today"

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        now, parts = timezone.now(), dict[str, Any]()
        may_view = request.user.has_perm
        if may_view("leaderboard.view_run"):
            parts["causes"] = causes(now)
            parts["faults"] = BoardFault.objects.select_related("suite")
            parts["disks"] = list(disks())
        if may_view("leaderboard.view_report"):
            parts["reports"] = reports()
        if may_view("leaderboard.view_worker"):
            parts["workers"] = workers(now)
        return super().index(request, {**parts, **(extra_context or {})})
