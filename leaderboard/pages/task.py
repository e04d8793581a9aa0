"""A task: what it asks, who does best on it, what its questions are worth, and its versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotModified,
)
from django.shortcuts import render
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from leaderboard import artifacts, excerpts, items
from leaderboard.agreement import Agreement
from leaderboard.models import Run, SuiteEntry, TaskVersion
from leaderboard.pages import task_column
from leaderboard.pages.address import Address


@dataclass(frozen=True)
class Version:
    """One version with what changed in it and the columns that show it."""

    task: TaskVersion
    change: str
    columns: list[SuiteEntry]
    measured: int
    """Finished runs."""


def task(request: HttpRequest, name: str) -> HttpResponse:
    """Of all versions that a suite of this site has asked; as a column of one suite."""
    found = _versions(name)
    newest = found[0]
    address = Address(request, {"suite": "", "questions": "1"})
    columns = _columns(newest)
    column = _column(address, columns)
    others = _others(newest)
    run, samples = task_column.run_with_samples(newest)
    first = excerpts.first(samples, task_column.DOCUMENTS) if run else ()
    questions = task_column.questions(column, run, samples, address) if column else None
    if redirect := address.redirect():
        return redirect
    standings = task_column.standings(column) if column else None
    context = {
        "task": newest,
        "column": column,
        "columns": [
            (entry, address.url(suite=entry.suite.name, questions=1), entry == column)
            for entry in columns
        ],
        "run": run,
        "first": first,
        "beside": task_column.beside(newest, others, first[0].doc_digest) if first else [],
        "standings": standings,
        "ends": [standings.best, standings.worst] if standings else [],
        "questions": questions,
        "agreement": _agreement(questions, column),
        "enough": items.ENOUGH,
        "versions": [_version(one) for one in found],
        "earlier_changes": _earlier_changes(newest, found),
        "other_styles": others,
    }
    return render(request, "pages/task.html", context)


@require_safe
def questions_file(request: HttpRequest, name: str) -> HttpResponseBase:
    """The item analysis of the task's column as parquet, a row for each question."""
    address = Address(request, {"suite": ""})
    column = _column(address, _columns(_versions(name)[0]))
    table = items.latest(column.comparability_key) if column else None
    if column is None or table is None:
        raise Http404(f"no analysis of the questions of {name}")
    etag = f'"{table.row.sha256}"'
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        return HttpResponseNotModified(headers={"ETag": etag})
    called = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{name}_{column.suite.name}_questions.parquet")
    response = FileResponse(
        artifacts.open(table.row.sha256),
        content_type="application/vnd.apache.parquet",
        as_attachment=True,
        filename=called,
    )
    response["ETag"] = etag
    response["X-Robots-Tag"] = "noindex"
    return response


def _versions(name: str) -> list[TaskVersion]:
    """The newest first. Raises Http404 for a task that no suite of this site has asked."""
    found: list[TaskVersion] = list(
        TaskVersion.objects.filter(name=name)
        .annotate(measured=Count("runs", filter=Q(runs__state=Run.State.DONE)))
        .prefetch_related("entries__suite")
        .order_by("-created", "-pk")
    )
    if not found:
        raise Http404(f"no task {name} in a suite of this site")
    return found


def _columns(task: TaskVersion) -> list[SuiteEntry]:
    """The newest column of each suite that asks this version, that of the site's suite first."""
    entries = [entry for entry in task.entries.all() if not entry.draw]
    entries.sort(key=lambda entry: (entry.suite.created, entry.suite_id))
    newest = {entry.suite.name: entry for entry in entries}
    return sorted(
        newest.values(),
        key=lambda entry: (entry.suite.name != settings.PLUMBLINE_SUITE, entry.suite.title),
    )


def _column(address: Address, columns: Sequence[SuiteEntry]) -> SuiteEntry | None:
    asked = address.choice("suite", [entry.suite.name for entry in columns])
    named = [entry for entry in columns if entry.suite.name == asked]
    return next(iter([*named, *columns]), None)


def _others(task: TaskVersion) -> list[TaskVersion]:
    """The same questions in other styles: the newest version of each task."""
    others = TaskVersion.objects.filter(benchmark=task.benchmark).exclude(name=task.name)
    return list({other.name: other for other in others.order_by("created", "pk")}.values())


def _agreement(
    questions: task_column.Questions | None, column: SuiteEntry | None
) -> Agreement | None:
    """With the rest of the suite that the page is about."""
    if questions is None or questions.table is None or column is None:
        return None
    of_suite = (one for one in questions.table.agreements if one.suite == column.suite.name)
    return next(of_suite, None)


def _version(task: TaskVersion) -> Version:
    entries = [entry for entry in task.entries.all() if not entry.draw]
    measured: int = task.measured  # type: ignore[attr-defined]
    return Version(task, str(task.changelog.get(task.version, "")), entries, measured)


def _earlier_changes(newest: TaskVersion, found: Sequence[TaskVersion]) -> list[tuple[str, str]]:
    """Versions of the task's changelog that this site never asked."""
    asked = {one.version for one in found}
    changes = newest.changelog.items()
    return [(version, change) for version, change in changes if version not in asked]
