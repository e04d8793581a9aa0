"""What changed: on this site, day by day, and in the software."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from django.conf import settings
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.models import Suite, TaskVersion
from leaderboard.pages.address import Address
from leaderboard.pages.pager import page_links
from leaderboard.pages.prose import read_prose

SOURCE = settings.BASE_DIR / "CHANGELOG.md"
DAYS = 20
"""Days with a change that a page lists."""


@dataclass
class Day:
    """What was added on one day."""

    date: date
    suites: list[tuple[Suite, str]] = field(default_factory=list)
    """With what changed in this version, as its file tells it."""
    tasks: list[TaskVersion] = field(default_factory=list)


def changelog(request: HttpRequest) -> HttpResponse:
    address = Address(request, {"page": "1"})
    suites = Suite.objects.annotate(day=TruncDate("created"))
    tasks = TaskVersion.objects.annotate(day=TruncDate("created"))
    dates = sorted({*suites.values_list("day", flat=True), *tasks.values_list("day", flat=True)})
    pages = max(1, -(-len(dates) // DAYS))
    number = address.number("page", last=pages)
    if redirect := address.redirect():
        return redirect
    shown = dates[::-1][(number - 1) * DAYS : number * DAYS]
    days = {date: Day(date) for date in shown}
    for suite in suites.filter(day__in=shown).order_by("title", "version"):
        change = str(suite.changelog.get(suite.version, ""))
        days[suite.day].suites.append((suite, change))
    for task in tasks.filter(day__in=shown).order_by("name", "version"):
        days[task.day].tasks.append(task)
    context = {
        "number": number,
        "days": days.values(),
        "pages": page_links(number, pages, address),
        "software": read_prose(SOURCE, below=1),
    }
    return render(request, "pages/changelog.html", context)
