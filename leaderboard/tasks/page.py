"""A task: what it asks, who does best on it, how good its questions are, and its versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count
from django.http import (
    FileResponse,
    Http404,
    HttpRequest,
    HttpResponseBase,
)
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from leaderboard.models import ItemAnalysis, Run, Suite, SuiteEntry, TaskVersion
from leaderboard.models import edition as editions
from leaderboard.samples import Unavailable, excerpts
from leaderboard.samples import store as artifacts
from leaderboard.snapshot import Board, adjusted
from leaderboard.tasks import column as task_column
from leaderboard.tasks import items
from leaderboard.tasks.health import Health
from leaderboard.tasks.items import Agreement
from leaderboard.web import Address, kept, prose


@dataclass(frozen=True)
class Version:
    """One version with what changed in it and the columns that show it."""

    task: TaskVersion
    change: str
    columns: list[SuiteEntry]
    measured: int
    """Finished runs."""


@dataclass(frozen=True)
class Known:
    """What the page is made from, found with few queries."""

    found: list[TaskVersion]
    """Its versions, the newest first."""
    others: list[TaskVersion]
    """The same questions in other styles: the newest version of each task."""
    entries: list[SuiteEntry]
    """Where suites ask any of its versions."""
    columns: list[SuiteEntry]
    """The newest column of each suite that asks the newest version, the site's suite first."""
    column: SuiteEntry | None
    board: Board | None
    analysis: ItemAnalysis | None
    models: int
    """How many models have a number, counted up to a few, where there is no analysis."""


@require_safe
def task(request: HttpRequest, name: str) -> HttpResponseBase:
    """Of all versions that a suite of this site has asked; as a column of one suite."""
    address = Address(request, {"suite": "", "questions": "1"})
    return kept.answer(request, editions.now, lambda: _answer(request, name, address))


def _answer(request: HttpRequest, name: str, address: Address) -> str | HttpResponseBase:
    """Without what is in stored files where these are out of reach, and then for now alone."""
    try:
        return _page(request, name, address)
    except Unavailable:
        kept.only_for_now()
        return _page(request, name, address, away=True)


def _known(name: str, address: Address, *, away: bool = False) -> Known:
    """Raises Http404 for a task that no suite of this site has asked."""
    of_name = TaskVersion.objects.filter(name=name)
    related = TaskVersion.objects.filter(benchmark__in=of_name.values("benchmark"))
    rows = list(related.order_by("created", "pk"))
    found = [row for row in reversed(rows) if row.name == name]
    if not found:
        raise Http404(f"no task {name} in a suite of this site")
    same = [row for row in rows if row.name != name and row.benchmark == found[0].benchmark]
    entries = task_column.entries_of(name)
    columns = task_column.columns_of(found[0], entries)
    column = _column(address, columns)
    key = column.comparability_key if column else ""
    analysis = items.newest(key) if key and not away else None
    return Known(
        found=found,
        others=list({other.name: other for other in same}.values()),
        entries=entries,
        columns=columns,
        column=column,
        board=task_column.board(column) if column else None,
        analysis=analysis,
        models=items.models_of(key) if key and analysis is None and not away else 0,
    )


def _page(
    request: HttpRequest, name: str, address: Address, *, away: bool = False
) -> str | HttpResponseBase:
    known = _known(name, address, away=away)
    newest, column = known.found[0], known.column
    run, samples = (None, "") if away else task_column.run_with_samples(newest)
    table = items.table(known.analysis) if known.analysis else None
    questions = task_column.questions(table, known.models, run, samples, address)
    if redirect := address.redirect():
        return redirect
    first = excerpts.first(samples, task_column.DOCUMENTS) if run else ()
    standings = task_column.standings(known.board, column) if known.board and column else None
    title = column.title if column else next((entry.title for entry in known.entries), "")
    context = {
        "task": newest,
        "title": newest.titled(title),
        "comes_from": prose.line(newest.origin),
        "column": column,
        "columns": [
            (entry, address.url(suite=entry.suite.name, questions=1), entry == column)
            for entry in known.columns
        ],
        "run": run,
        "first": first,
        "beside": task_column.beside(newest, known.others, first[0].doc_digest) if first else [],
        "standings": standings,
        "ends": [standings.best, standings.worst] if standings else [],
        "questions": questions if column else None,
        "away": away,
        "agreement": _agreement(table, column),
        "enough": items.ENOUGH,
        **_health(table),
        "disputed": sum(one.n for one in adjusted.sets_of([name]) if one.task_id == newest.pk),
        "draws": task_column.draws(known.board, column) if known.board and column else None,
        "versions": _told(known),
        "earlier_changes": earlier_changes(known.found),
        "other_styles": [(other, other.titled(title)) for other in known.others],
    }
    return render_to_string("tasks/page.html", context, request)


@require_safe
def questions_file(request: HttpRequest, name: str) -> HttpResponseBase:
    """The item analysis of the task's column as parquet, a row for each question."""
    address = Address(request, {"suite": ""})
    known = _known(name, address)
    column, analysis = known.column, known.analysis
    if column is None or analysis is None:
        raise Http404(f"no analysis of the questions of {name}")
    etag = f'"{analysis.sha256}"'
    if unchanged := get_conditional_response(request, etag):
        return unchanged
    called = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{name}_{column.suite.name}_questions.parquet")
    response = FileResponse(
        artifacts.open(analysis.sha256),
        content_type="application/vnd.apache.parquet",
        as_attachment=True,
        filename=called,
    )
    response["ETag"] = etag
    response["X-Robots-Tag"] = "noindex"
    return response


def _column(address: Address, columns: Sequence[SuiteEntry]) -> SuiteEntry | None:
    asked = address.choice("suite", [entry.suite.name for entry in columns])
    named = [entry for entry in columns if entry.suite.name == asked]
    return next(iter([*named, *columns]), None)


def _health(table: items.Table | None) -> dict[str, Any]:
    """What `tasks/health.html` shows; nothing where the column was not analysed."""
    found = Health.of_json(table.row.health) if table else None
    if table is None or found is None:
        return {}
    solved = found.saturation
    return {
        "health": found,
        "marks": table.row.marks,
        "suspected": float(table.suspicious.mean()),
        "idle": (solved.all_right + solved.none_right) / table.n if solved else None,
    }


def _agreement(table: items.Table | None, column: SuiteEntry | None) -> Agreement | None:
    """With the rest of the suite that the page is about."""
    if table is None or column is None:
        return None
    of_suite = (agreement for agreement in table.agreements if agreement.suite == column.suite.name)
    return next(of_suite, None)


def _told(known: Known) -> list[Version]:
    keys = [task.pk for task in known.found]
    done = Run.objects.filter(task__in=keys, state=Run.State.DONE).order_by()
    measured = dict(done.values_list("task").annotate(n=Count("pk")))
    return [
        Version(
            task,
            str(task.changelog.get(task.version, "")),
            [entry for entry in known.entries if entry.task_id == task.pk],
            measured.get(task.pk, 0),
        )
        for task in known.found
    ]


def earlier_changes(asked: Sequence[TaskVersion | Suite]) -> list[tuple[str, str]]:
    """Versions in the changelog of the newest, which comes first, that this site never asked."""
    versions = {benchmark.version for benchmark in asked}
    changes = asked[0].changelog.items()
    return [(version, str(change)) for version, change in changes if version not in versions]
