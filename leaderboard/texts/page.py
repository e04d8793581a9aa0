"""Pages of words: what this site is, how each number is made, and what changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date

from django.conf import settings
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber, TruncDate
from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string

from leaderboard.catalogue import LICENCE
from leaderboard.models import HubModel, Suite, SuiteEntry, TaskVersion
from leaderboard.web import Address, kept, part, prose

METHOD = settings.BASE_DIR / "docs" / "method.md"
CHANGELOG = settings.BASE_DIR / "CHANGELOG.md"
DAYS = 20
"""Days with a change that a page lists."""
NAMED = 6
"""Models of a day that are named; the others are counted."""


def about(request: HttpRequest) -> HttpResponseBase:
    """What this site is, who answers for it, and how anybody checks a number of it."""
    context = {
        "operator": settings.PLUMBLINE_OPERATOR,
        "contact": settings.PLUMBLINE_CONTACT,
        "contact_link": _link(settings.PLUMBLINE_CONTACT),
        "licence": LICENCE,
        "trusted_code": len(settings.PLUMBLINE_TRUSTED_CODE),
    }
    return kept.compressed(request, render_to_string("texts/about.html", context, request))


def _link(contact: str) -> str:
    """Where a click on the contact leads; nowhere if it is neither an address nor a page."""
    if re.match(r"https?://", contact):
        return contact
    return f"mailto:{contact}" if re.fullmatch(r"[^\s@]+@[^\s@]+", contact) else ""


def method(request: HttpRequest) -> HttpResponseBase:
    """How each number is made: `docs/method.md` as a page."""
    page = render_to_string("texts/method.html", {"prose": prose.read_prose(METHOD)}, request)
    return kept.compressed(request, page)


@dataclass
class Day:
    """What was added on one day."""

    date: date
    suites: list[tuple[Suite, str]] = field(default_factory=list)
    """With what changed in this version, as its file tells it."""
    tasks: list[tuple[TaskVersion, str]] = field(default_factory=list)
    """With the title that pages name it by."""
    models: list[HubModel] = field(default_factory=list)
    """Submitted for the first time; the first few of them."""
    models_n: int = 0

    @property
    def models_left(self) -> int:
        return self.models_n - len(self.models)


def changelog(request: HttpRequest) -> HttpResponseBase:
    """What changed: on this site, day by day, and in the software."""
    address = Address(request, {"page": "1"})
    suites = Suite.objects.annotate(day=TruncDate("created"))
    tasks = TaskVersion.objects.annotate(day=TruncDate("created"))
    models = HubModel.objects.annotate(day=TruncDate("first_seen"))
    of_each = [added.values_list("day", flat=True).distinct() for added in (suites, tasks, models)]
    dates = sorted({day for days in of_each for day in days})
    shown = part(address, "page", len(dates), DAYS)
    if redirect := address.redirect():
        return redirect
    days = {date: Day(date) for date in dates[::-1][shown.slice]}
    for suite in suites.filter(day__in=days).order_by("title", "version"):
        change = str(suite.changelog.get(suite.version, ""))
        days[suite.day].suites.append((suite, change))
    titles = dict(SuiteEntry.objects.order_by("suite__created").values_list("task", "title"))
    for task in tasks.filter(day__in=days).order_by("name", "version"):
        days[task.day].tasks.append((task, task.titled(titles.get(task.pk, ""))))
    for day, of_day, model in _new_models(days):
        days[day].models.append(model)
        days[day].models_n = of_day
    context = {
        "number": shown.number,
        "days": days.values(),
        "pages": shown.links,
        "software": prose.read_prose(CHANGELOG, below=1),
    }
    return kept.compressed(request, render_to_string("texts/changelog.html", context, request))


def _new_models(days: Iterable[date]) -> Iterator[tuple[date, int, HubModel]]:
    """The first few models of each day, each with its day and how many that day has in all."""
    models = (
        HubModel.objects.annotate(day=TruncDate("first_seen"))
        .filter(day__in=days)
        .annotate(
            place=Window(RowNumber(), partition_by=F("day"), order_by=["first_seen", "pk"]),
            of_day=Window(Count("pk"), partition_by=F("day")),
        )
    )
    for model in models.filter(place__lte=NAMED).order_by("first_seen", "pk"):
        yield model.day, model.of_day, model
