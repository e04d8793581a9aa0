"""The charts: an address becomes a chart; the page, its figure and its files are made from that."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import (
    CHOICES,
    FILTERS,
    GPUS,
    BoardQuery,
    chosen_board,
    column_keys,
    facets_of,
    filter_label,
    filtered,
    sheet_context,
    style_label,
    view_of,
)
from leaderboard.catalogue import suite_asked_for
from leaderboard.charts.against import (
    AVERAGE,
    AXES,
    SECONDS,
    SIZE,
    TOKENS,
    Front,
    against,
    scores_of,
)
from leaderboard.charts.agreement import agreement
from leaderboard.charts.chart import Chart
from leaderboard.charts.questions import questions
from leaderboard.charts.spread import spread
from leaderboard.models import Suite
from leaderboard.snapshot import (
    EVERY,
    OWN,
    Board,
    Flags,
    TableFile,
    published,
    table_file,
)
from leaderboard.tasks import analysed_column
from leaderboard.templatetags.figures import day_of
from leaderboard.web import MAP_STYLE_ID, Address, kept, part, throttle

AGREEMENT, QUESTIONS, SPREAD = "agreement", "questions", "spread"
TABS = {SIZE: "Size", "time": "Time", TOKENS: "Cost", AGREEMENT: "Benchmarks that agree",
        QUESTIONS: "Hard questions", SPREAD: "Prompts and draws"}  # fmt: skip
"""In the navigation; seconds are the other half of cost."""
FILES = {kind: f"charts-by-{kind}" if kind in AXES else f"charts-{kind}"
         for kind in (*AXES, AGREEMENT, QUESTIONS, SPREAD)}  # fmt: skip
FIELDS = {"score": AVERAGE, "against": SIZE, "on": "", "legend": "type", "task": "",
          "benchmark": "", "page": "1"}  # fmt: skip
"""Of the address, besides the board's filters."""


class View:
    """What an address asks for, and the chart that it is; None where there is nothing yet."""

    def __init__(self, request: HttpRequest, kind: str) -> None:
        # A choice that the board does not know becomes its usual one.
        self.query = BoardQuery.of(request)
        names = ("suite", "style", *FILTERS, "bits")
        filters = {name: getattr(BoardQuery(), name) for name in names}
        joined = {**dict.fromkeys(CHOICES, ","), "size": "-"}
        self.kind, self.address = kind, Address(request, filters | FIELDS, joined)
        for name in filters:
            self.address.choice(name, (getattr(self.query, name),))
        self.address.choice("against", AXES)
        self.suite = suite_asked_for(self.query.suite)
        self.problems: list[str] = []
        self.board: Board | None = None
        self.chart: Chart | None = None
        if self.suite:
            style = {"style": EVERY} if kind == SPREAD else {}
            self.board = chosen_board(self.suite, self.query.but(at="", **style))
        if self.suite is None or self.board is None:
            return
        applied = filtered(facets_of(self.board), self.query)
        self.problems = applied.problems
        self.chips = [(filter_label(name, self.query), self.url(kind, **{name: ""}))
                      for name in applied.masks]  # fmt: skip
        self.chart = self._chart(self.suite, self.board, applied.left(len(self.board.models)))
        for choice in self.chart.choices if self.chart else ():
            if choice.name != "against":  # what is meant anyway need not be named
                self.address.choice(choice.name, list(choice.options)[1:])

    def _chart(self, suite: Suite, board: Board, chosen: Flags) -> Chart | None:
        address, keys = self.address, column_keys(board)
        if self.kind == QUESTIONS:
            analysed = analysed_column(suite, address["task"])
            return questions(*analysed) if analysed else None
        if self.kind == SPREAD:
            return spread(board, address["benchmark"], chosen)
        if self.kind == AGREEMENT:
            return agreement(board, chosen)
        titles, legend = scores_of(board, keys), address.choice("legend", ("type", "family"))
        score = address.choice("score", titles)
        column = keys.index(score) if score in keys else None
        front = Front.of(board, self.kind, column, chosen, address["on"])
        return against(front, titles, score, legend)

    def url(self, kind: str, form: str = "", **changes: object) -> str:
        """Of a chart with the same filters, or of one of its files, whose name has its axis."""
        axis, page = kind if kind in AXES and not form else SIZE, {"page": 1}
        shown = {"against": axis, **({} if form == "plotly" else page), **changes}
        _, mark, query = self.address.url("", **shown).partition("?")
        name = "charts" if kind in AXES else FILES[kind]
        return reverse(f"{FILES[kind]}-{form}" if form else name) + mark + query

    @property
    def drawn(self) -> tuple[Board, Chart]:
        """Raises Http404 where there is nothing."""
        if self.board is None or self.chart is None or not self.chart.rows:
            raise Http404("there is nothing to draw yet")
        return self.board, self.chart

    @property
    def name(self) -> str:
        """Of its files."""
        board, chart = self.board, self.chart
        return f"plumbline-{board.suite}-{board.version}-{chart.name}" if board and chart else ""


def _page(request: HttpRequest, kind: str) -> str | HttpResponseBase:
    view = View(request, kind)
    board, chart, address = view.board, view.chart, view.address
    size = (chart.rows, chart.per_page) if chart else (0, 1)
    shown = part(address, "page", *size, "table")
    if short := address.redirect():
        return short
    context = {
        "view": view,
        "chart": chart,
        "part": shown,
        "lines": chart.lines(shown.slice) if chart else [],
        "heads": json.dumps(chart.heads) if chart else "",
        "source": f"{board.title} {board.version}, {day_of(board.built)}" if board else "",
        "tabs": [(label, view.url(key), key == (TOKENS if kind == SECONDS else kind))
                 for key, label in TABS.items()],
         "fields": [(name, address[name]) for name in (*FIELDS, "style", *FILTERS, "bits")],
        "files": {form: view.url(kind, form) for form in ("csv", "json", "parquet")},
        "figure_url": view.url(kind, "plotly") if chart and chart.figure else "",
        "map_style_id": MAP_STYLE_ID,
    }  # fmt: skip
    if board and kind != QUESTIONS:
        context |= _finder(view, board)
    return render_to_string("charts/page.html", context, request)


def _finder(view: View, board: Board) -> dict[str, Any]:
    """The board's filters, which lead to this chart."""
    kind, query, filters = view.kind, view.query, [name for name in FILTERS if name != "q"]
    seen = view_of(board, query.but(sort="average", page=1))
    carried = [(name, view.address[name]) for name in (*FIELDS, "suite", "style", "q")]
    return sheet_context(seen) | {
        "seen": seen,
        "query": query,
        "carried": [(name, value) for name, value in carried if value and name != "page"],
        "orders": [],
        "active": sum(bool(getattr(query, name)) for name in filters),
        "sheet_url": reverse("charts" if kind in AXES else FILES[kind]),
        "shut_url": view.url(kind),
        "clear_url": view.url(kind, **dict.fromkeys((*FILTERS, "bits"), "")),
        "styles": [(style, style_label(style), view.url(kind, style=style), style == query.style)
                   for style in (OWN, *board.styles)],
        "gpus": [(gpu, view.url(kind, gpu=gpu), gpu == query.gpu) for gpu in ("", *GPUS)],
    }  # fmt: skip


def _kept(request: HttpRequest, render: Callable[[], str | HttpResponseBase]) -> HttpResponseBase:
    suite = request.GET.get("suite") or settings.PLUMBLINE_SUITE
    return kept.answer(request, lambda: published.edition(suite), render)


@require_safe
def charts(request: HttpRequest, kind: str = "") -> HttpResponseBase:
    """One with a page of its own, or size, time or cost as the address says."""
    kind = kind or Address(request, FIELDS).choice("against", AXES)
    return _kept(request, lambda: _page(request, kind))


@require_safe
def figure(request: HttpRequest, kind: str) -> HttpResponseBase:
    """As plotly's JSON."""

    def render() -> str:
        from plotly.utils import PlotlyJSONEncoder

        view = View(request, kind)
        _, chart = view.drawn
        if chart.figure is None:
            raise Http404("there is nothing to draw yet")
        drawn = chart.figure(part(view.address, "page", chart.rows, chart.per_page).slice)
        return json.dumps(drawn.to_plotly_json(), cls=PlotlyJSONEncoder, ensure_ascii=False)

    response = _kept(request, render)
    response["Content-Type"] = "application/json"
    return response


@require_safe
def picture(request: HttpRequest, kind: str) -> HttpResponseBase:
    """That of agreement as an SVG; the others are drawn by the browser, on their pages."""
    view = View(request, kind)
    if kind != AGREEMENT:
        return redirect(view.url(kind))
    throttle.count_download(request)
    _, chart = view.drawn
    svg = render_to_string("charts/agreement.svg", {"chart": chart, "alone": True})
    named = {"Content-Disposition": f'attachment; filename="{view.name}.svg"'}
    headers = {**named, "X-Robots-Tag": "noindex"}
    return HttpResponse(svg, content_type="image/svg+xml", headers=headers)


def file(kind: str, request: HttpRequest) -> TableFile:
    view = View(request, kind)
    board, chart = view.drawn
    if view.problems:
        raise table_file.Refused(view.problems)
    page = view.url(kind, suite=f"{board.suite}@{board.version}")
    about = {
        **{"suite": board.suite, "suite_version": board.version, **chart.about},
        **{"built": board.built.isoformat(), "data_version": board.data_version},
        "address": request.build_absolute_uri(page),
    }
    return TableFile(view.name, board.built, about, chart.counts, chart.batches, chart.rows_are)
