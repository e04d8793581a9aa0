"""The page of charts, drawn by the server: it needs no script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import Wanted, chosen_board, column_keys
from leaderboard.catalogue import suite_asked_for
from leaderboard.charts.axes import AXES
from leaderboard.charts.axis import SIZE, Axis
from leaderboard.charts.chart import AVERAGE, Chart, chart, scores_of
from leaderboard.charts.drawing import ALL_WHISKERS, picture
from leaderboard.charts.files import links, picture_file
from leaderboard.charts.kinds import kinds
from leaderboard.snapshot import published
from leaderboard.web import Address, kept, part, throttle

PER_PAGE = 50


def address_of(request: HttpRequest) -> Address:
    """`score` is what stands upwards: the average, or a column of the board; `against` names what
    lies to the right, `on` the kind of machine where that matters."""
    suite = settings.PLUMBLINE_SUITE
    usual = {"suite": suite, "score": AVERAGE, "against": SIZE.key, "on": "", "page": "1"}
    return Address(request, usual)


def chart_of(address: Address, axis: Axis) -> Chart | None:
    """The score that the address asks for along this axis; None where no board was built yet."""
    suite = suite_asked_for(address["suite"])
    board = chosen_board(suite, Wanted(suite=address["suite"])) if suite else None
    if board is None:
        return None
    keys = column_keys(board)
    score = address.choice("score", scores_of(board, keys))
    drawn = chart(board, score, keys, axis, address["on"])
    # The kind that is meant anyway need not be named.
    named = [kind for kind, _ in drawn.machines[1:]]
    address.choice("on", named)
    return drawn


@require_safe
def charts(request: HttpRequest) -> HttpResponseBase:
    """Chosen and paged by the address alone."""
    address = address_of(request)
    return kept.answer(
        request, lambda: published.edition(address["suite"]), lambda: _page(request, address)
    )


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    axis = AXES[address.choice("against", list(AXES))]
    drawn = chart_of(address, axis)
    others = kinds(address["suite"], axis.key, address["score"])
    if drawn is None:
        nothing = {"chart": None, "axis": axis, "axes": others}
        return address.redirect() or render(request, "charts/page.html", nothing)
    shown = part(address, "page", len(drawn.rows), PER_PAGE, "table")
    if redirect := address.redirect():
        return redirect
    context = {
        **_drawn(drawn),
        "axis": axis,
        "axes": others,
        "suite_name": address["suite"],
        "part": shown,
        "models": _lines(drawn, range(*shown.slice.indices(len(drawn.rows)))),
        "choices": _choices(drawn),
        # The name of the file says along which axis.
        "files": links(address.url(against=SIZE.key, page=1), "charts", f"charts-by-{axis.key}"),
    }
    return render_to_string("charts/page.html", context, request)


def svg(axis: Axis) -> Callable[[HttpRequest], HttpResponse]:
    """The picture as a file, with colours of its own."""

    @require_safe
    def as_file(request: HttpRequest) -> HttpResponse:
        throttle.count_download(request)
        chart = chart_of(address_of(request), axis)
        if chart is None or not len(chart.rows):
            raise Http404("there is nothing to draw yet")
        board = chart.board
        name = f"plumbline-{board.suite}-{board.version}-{chart.score}-by-{axis.key}"
        return picture_file("charts/chart.svg", {**_drawn(chart), "axis": axis}, name)

    return as_file


def _drawn(chart: Chart) -> dict[str, Any]:
    return {
        "chart": chart,
        "title": _title(chart),
        "picture": picture(chart, _model_url) if len(chart.rows) else None,
        "best": _lines(chart, chart.front),
        "every_whisker": len(chart.rows) <= ALL_WHISKERS,
    }


def _title(chart: Chart) -> str:
    if chart.score == AVERAGE:
        return f"Average of {chart.board.title} {chart.board.version}"
    column = chart.board.columns[column_keys(chart.board).index(chart.score)]
    return f"{column.title}, {column.style}"


def _choices(chart: Chart) -> list[tuple[str, str]]:
    keys = column_keys(chart.board)
    titles = {key: column.title for key, column in zip(keys, chart.board.columns, strict=True)}
    titles[AVERAGE] = "Average"
    return [(key, titles[key]) for key in scores_of(chart.board, keys)]


def _lines(chart: Chart, places: Iterable[int]) -> list[dict[str, Any]]:
    names, score = chart.names, chart.scores
    return [
        {
            "name": names[place],
            "url": _model_url(names[place]),
            "place": chart.axis.label(float(chart.across[place])),
            "value": float(score.value[place]),
            "low": float(score.low[place]),
            "high": float(score.high[place]),
            "on_front": bool(chart.on_front[place]),
        }
        for place in places
    ]


def _model_url(name: str) -> str:
    return reverse("model", args=[name])
