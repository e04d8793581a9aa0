"""Every address that search engines shall know: fixed pages, suites, tasks, models.

Runs, samples and submissions are left out: benchmark questions shall not spread by way of them.
"""

from __future__ import annotations

from django.contrib.sitemaps import Sitemap
from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse

from leaderboard.models import HubModel, Run, Suite, TaskVersion


class Pages(Sitemap):  # type: ignore[type-arg]
    def items(self) -> list[str]:
        return [
            "board",
            "styles",
            "compare",
            "queue",
            "pool",
            "submit",
            "suites",
            "method",
            "about",
            "changelog",
        ]

    def location(self, item: str) -> str:
        return reverse(item)


class Suites(Sitemap):  # type: ignore[type-arg]
    """The newest version of each under its name, every version under its own address."""

    def items(self) -> list[str]:
        versions = list(Suite.objects.order_by("name", "created").values_list("name", "version"))
        names = dict.fromkeys(name for name, _ in versions)
        return [*names, *(f"{name}@{version}" for name, version in versions)]

    def location(self, item: str) -> str:
        return reverse("suite", args=[item])


class Tasks(Sitemap):  # type: ignore[type-arg]
    def items(self) -> QuerySet[TaskVersion, str]:
        return TaskVersion.objects.order_by("name").values_list("name", flat=True).distinct()

    def location(self, item: str) -> str:
        return reverse("task", args=[item])


class Models(Sitemap):  # type: ignore[type-arg]
    """Those of which anything was measured."""

    def items(self) -> QuerySet[HubModel]:
        done = Run.objects.filter(variant__hub_model=OuterRef("pk"), state=Run.State.DONE)
        return HubModel.objects.filter(Exists(done)).order_by("pk")


SECTION = {"sitemaps": {"pages": Pages, "suites": Suites, "tasks": Tasks, "models": Models}}
INDEX = {**SECTION, "sitemap_url_name": "sitemap-section"}
"""What Django's two views of a sitemap are told; models fill a file for every 50,000."""
