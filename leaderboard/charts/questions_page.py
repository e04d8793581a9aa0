"""The page of the questions of a benchmark, its picture as a file, and its figures as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.charts.files import links, picture_file
from leaderboard.charts.kinds import QUESTIONS, kinds
from leaderboard.charts.questions import Questions, questions_of
from leaderboard.charts.questions_drawing import picture, two_places
from leaderboard.snapshot import TableFile, published
from leaderboard.tasks import items
from leaderboard.web import Address, kept, part, throttle

PER_PAGE = 50


def _address(request: HttpRequest) -> Address:
    return Address(request, {"suite": settings.PLUMBLINE_SUITE, "task": "", "page": "1"})


@require_safe
def questions(request: HttpRequest) -> HttpResponseBase:
    address = _address(request)
    return kept.answer(
        request, lambda: published.edition(address["suite"]), lambda: _page(request, address)
    )


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    found = questions_of(address)
    table = found.table if found else None
    shown = part(address, "page", table.n if table else 0, PER_PAGE, "table")
    if redirect := address.redirect():
        return redirect
    context: dict[str, Any] = {
        "questions": found,
        "axes": kinds(address["suite"], QUESTIONS),
        "suite_name": address["suite"],
        "enough": items.ENOUGH,
        "part": shown,
    }
    if found is None or table is None:
        return render(request, "charts/questions.html", context)
    places = found.order[shown.slice].tolist()
    context |= {
        **_drawn(found, table),
        "lines": [_line(found, table, place) for place in places],
        "files": links(address.url(page=1), "charts-questions", "charts-questions"),
    }
    return render_to_string("charts/questions.html", context, request)


@require_safe
def svg(request: HttpRequest) -> HttpResponse:
    """The picture as a file, with colours of its own."""
    throttle.count_download(request)
    found, table = _or_404(request)
    if not table.defined.any():
        raise Http404("all models answer every question alike")
    return picture_file("charts/questions.svg", _drawn(found, table), _name(found))


def file(request: HttpRequest) -> TableFile:
    """Every question, in the order of the benchmark."""
    found, table = _or_404(request)
    suite, row = found.entry.suite, table.row
    site = request.build_absolute_uri("/").rstrip("/")
    query = f"suite={suite.name}@{suite.version}&task={found.entry.task.name}"
    return TableFile(
        name=_name(found),
        built=row.built,
        about={
            "suite": suite.name,
            "suite_version": suite.version,
            "benchmark": found.entry.task.name,
            "benchmark_version": found.entry.task.version,
            "comparability_key": row.comparability_key,
            "built": row.built.isoformat(),
            "address": f"{site}{reverse('charts-questions')}?{query}",
        },
        details={"models": row.models_n},
        batches=lambda: _batches(table),
        rows="questions",
    )


def _or_404(request: HttpRequest) -> tuple[Questions, items.Table]:
    found = questions_of(_address(request))
    if found is None or found.table is None:
        raise Http404("no questions were analysed yet")
    return found, found.table


def _batches(table: items.Table) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict(
        {
            "task": [table.tasks[place] for place in table.task.tolist()],
            "doc_id": pa.array(table.doc_id),
            "part": [table.parts[place] for place in table.part.tolist()],
            "difficulty": pa.array(table.difficulty),
            "discrimination": pa.array(table.discrimination, mask=~table.defined),
            "suspicious": pa.array(table.suspicious),
        }
    )


def _name(found: Questions) -> str:
    suite = found.entry.suite
    return f"plumbline-{suite.name}-{suite.version}-{found.entry.task.name}-questions"


def _drawn(found: Questions, table: items.Table) -> dict[str, Any]:
    return {
        "questions": found,
        "table": table,
        "suspects": int(table.suspicious.sum()),
        "picture": picture(found, table) if table.defined.any() else None,
    }


def _line(found: Questions, table: items.Table, place: int) -> dict[str, Any]:
    return {
        "name": found.called(place),
        "url": found.url(place),
        "difficulty": float(table.difficulty[place]),
        "discrimination": two_places(float(table.discrimination[place]))
        if table.defined[place]
        else "",
        "suspicious": bool(table.suspicious[place]),
    }
