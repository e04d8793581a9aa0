"""The charts: an address becomes a chart; the page, its figure and its files are made from that."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_safe

from leaderboard.board import BoardQuery, chosen_board, column_keys, facets_of
from leaderboard.board.filters import filter_label, filtered
from leaderboard.board.query import CHOICES, FILTERS
from leaderboard.catalogue import suite_asked_for
from leaderboard.charts.against import AVERAGE, AXES, SECONDS, SIZE, TOKENS, against, scores_of
from leaderboard.charts.agreement import agreement
from leaderboard.charts.chart import Chart
from leaderboard.charts.questions import questions
from leaderboard.charts.spread import spread
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import EVERY, OWN, Board, Flags, Front, TableFile, published, table_file
from leaderboard.tasks.column import analysed_column
from leaderboard.templatetags.figures import day_of
from leaderboard.web import Address, kept, part, throttle
from leaderboard.web.plotly_script import MAP_STYLE_ID

AGREEMENT, QUESTIONS, SPREAD = "agreement", "questions", "spread"
TABS = {SIZE: "Size", "time": "Time", TOKENS: "Cost", AGREEMENT: "Benchmarks that agree",
        QUESTIONS: "Hard questions", SPREAD: "Prompts and draws"}  # fmt: skip
"""In the navigation; seconds are the other half of cost."""
FILES = {kind: f"charts-by-{kind}" if kind in AXES else f"charts-{kind}"
         for kind in (*AXES, AGREEMENT, QUESTIONS, SPREAD)}  # fmt: skip
FIELDS = {"score": AVERAGE, "against": SIZE, "on": "", "legend": "type", "task": "",
          "benchmark": "", "page": "1"}  # fmt: skip
"""Of the address, besides the board's filters."""
NOT_LISTED = {"X-Robots-Tag": "noindex"}


class View:
    """What an address asks for, and the chart that it is; None where there is nothing yet."""

    def __init__(self, request: HttpRequest, kind: str) -> None:
        filters = {"suite": settings.PLUMBLINE_SUITE, "style": OWN}
        filters |= dict.fromkeys((*FILTERS, "bits"), "")
        joined = {**dict.fromkeys(CHOICES, ","), "size": "-"}
        self.kind, self.address = kind, Address(request, filters | FIELDS, joined)
        style = self.address.choice("style", (OWN, *Style.values))
        self.address.choice("against", AXES)
        wanted = BoardQuery(**{name: self.address[name] for name in filters})
        self.suite = suite_asked_for(wanted.suite)
        self.problems: list[str] = []
        self.board: Board | None = None
        self.chart: Chart | None = None
        if self.suite:
            self.board = chosen_board(
                self.suite, wanted.but(style=EVERY if kind == SPREAD else style)
            )
        if self.suite is None or self.board is None:
            return
        applied = filtered(facets_of(self.board), wanted)
        self.problems = applied.problems
        self.chips = [(filter_label(name, wanted), self.url(kind, **{name: ""}))
                      for name in applied.masks]  # fmt: skip
        self.chart = self._chart(self.suite, self.board, applied.left(len(self.board.models)))
        for choice in self.chart.choices if self.chart else ():
            if choice.name != "against":  # what is meant anyway need not be named
                self.address.choice(choice.name, list(choice.options)[1:])

    def _chart(self, suite: Suite, board: Board, chosen: Flags) -> Chart | None:
        address, keys = self.address, column_keys(board)
        if self.kind == QUESTIONS:
            column = analysed_column(suite, address["task"])
            return questions(*column) if column else None
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
    styles = {OWN: "Each task’s own"} | {
        style: str(Style(style).label) for style in (board.styles if board else ())
    }
    context = {
        "view": view,
        "chart": chart,
        "part": shown,
        "lines": chart.lines(shown.slice) if chart else [],
        "heads": json.dumps(chart.heads) if chart else "",
        "source": f"{board.title} {board.version}, {day_of(board.built)}" if board else "",
        "tabs": [(label, view.url(key), key == (TOKENS if kind == SECONDS else kind))
                 for key, label in TABS.items()],
        "styles": [(style, label, view.url(kind, style=style), style == address["style"])
                   for style, label in styles.items()],
        "fields": [(name, address[name]) for name in (*FIELDS, "style", *FILTERS, "bits")],
        "files": {form: view.url(kind, form) for form in ("csv", "json", "parquet")},
        "figure_url": view.url(kind, "plotly") if chart and chart.figure else "",
        "map_style_id": MAP_STYLE_ID,
    }  # fmt: skip
    return render_to_string("charts/page.html", context, request)


def _kept(
    render: Callable[[HttpRequest, str], str | HttpResponseBase], kind: str, request: HttpRequest
) -> HttpResponseBase:
    suite = request.GET.get("suite") or settings.PLUMBLINE_SUITE
    return kept.answer(request, lambda: published.edition(suite), lambda: render(request, kind))


@require_safe
def charts(request: HttpRequest) -> HttpResponseBase:
    """Size, time or cost, as the address says."""
    return _kept(_page, Address(request, FIELDS).choice("against", AXES), request)


def _figure_text(request: HttpRequest, kind: str) -> str:
    from plotly.utils import PlotlyJSONEncoder

    view = View(request, kind)
    _, chart = view.drawn
    if chart.figure is None:
        raise Http404("there is nothing to draw yet")
    figure = chart.figure(part(view.address, "page", chart.rows, chart.per_page).slice)
    return json.dumps(figure.to_plotly_json(), cls=PlotlyJSONEncoder, ensure_ascii=False)


def _figure(kind: str, request: HttpRequest) -> HttpResponseBase:
    response = _kept(_figure_text, kind, request)
    response["Content-Type"] = "application/json"
    return response


def _svg(kind: str, request: HttpRequest) -> HttpResponseBase:
    """The picture of agreement as a file; the others are drawn by the browser, on their pages."""
    view = View(request, kind)
    if kind != AGREEMENT:
        return redirect(view.url(kind))
    throttle.count_download(request)
    _, chart = view.drawn
    picture = render_to_string("charts/agreement.svg", {"chart": chart, "alone": True})
    name = {"Content-Disposition": f'attachment; filename="{view.name}.svg"'}
    return HttpResponse(picture, content_type="image/svg+xml", headers=NOT_LISTED | name)


def _file(kind: str, request: HttpRequest) -> TableFile:
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


def _addresses(kind: str, name: str) -> list[URLPattern]:
    """Of a page and its files. The old address of a picture leads to its page, and has no name."""
    picture, figure = (require_safe(partial(view, kind)) for view in (_svg, _figure))
    drawn = path(f"{name}.plotly.json", figure, name=f"{name}-plotly")
    if kind == AGREEMENT:
        drawn = path(f"{name}.svg", picture, name=f"{name}-svg")
    files = [path(f"{name}.svg", picture), *table_file.addresses(name, partial(_file, kind))]
    page = path(name, require_safe(partial(_kept, _page, kind)), name=name)
    return [drawn, *files] if kind in AXES else [page, drawn, *files]


ADDRESSES = [
    path("charts", charts, name="charts"),
    *(address for kind, name in FILES.items() for address in _addresses(kind, name)),
]
