"""The page of charts, drawn by the server: it needs no script."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import Wanted, chosen_board, column_keys
from leaderboard.catalogue import suite_asked_for
from leaderboard.charts.drawing import ALL_WHISKERS, picture
from leaderboard.charts.size import AVERAGE, SizeChart, scores_of, size_chart
from leaderboard.snapshot import published
from leaderboard.web import Address, kept, part, throttle

PER_PAGE = 50


def address_of(request: HttpRequest) -> Address:
    """`score` is what stands upwards: the average, or a column of the board."""
    usual = {"suite": settings.PLUMBLINE_SUITE, "score": AVERAGE, "page": "1"}
    return Address(request, usual)


def chart_of(address: Address) -> SizeChart | None:
    """What the address asks for; None where no board was built yet."""
    suite = suite_asked_for(address["suite"])
    board = chosen_board(suite, Wanted(suite=address["suite"])) if suite else None
    if board is None:
        return None
    keys = column_keys(board)
    return size_chart(board, address.choice("score", scores_of(board, keys)), keys)


@require_safe
def charts(request: HttpRequest) -> HttpResponseBase:
    """Chosen and paged by the address alone."""
    address = address_of(request)
    return kept.answer(
        request, lambda: published.edition(address["suite"]), lambda: _page(request, address)
    )


def _page(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    chart = chart_of(address)
    if chart is None:
        return address.redirect() or render(request, "charts/page.html", {"chart": None})
    shown = part(address, "page", len(chart.rows), PER_PAGE, "table")
    if redirect := address.redirect():
        return redirect
    context = {
        **_drawn(chart),
        "suite_name": address["suite"],
        "part": shown,
        "models": _lines(chart)[shown.slice],
        "choices": _choices(chart),
        "files": [
            (form, address.url(page=1).replace(request.path, reverse(f"charts-by-size-{form}"), 1))
            for form in ("svg", "csv", "json")
        ],
    }
    return render_to_string("charts/page.html", context, request)


@require_safe
def svg(request: HttpRequest) -> HttpResponse:
    """The picture as a file, with colours of its own."""
    throttle.count_download(request)
    chart = chart_of(address_of(request))
    if chart is None or not len(chart.rows):
        raise Http404("there is nothing to draw yet")
    text = render_to_string("charts/size.svg", {**_drawn(chart), "alone": True})
    name = f"plumbline-{chart.board.suite}-{chart.board.version}-{chart.score}-by-size.svg"
    return HttpResponse(
        text,
        content_type="image/svg+xml",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Robots-Tag": "noindex",
        },
    )


def _drawn(chart: SizeChart) -> dict[str, Any]:
    return {
        "chart": chart,
        "title": _title(chart),
        "picture": picture(chart, _model_url) if len(chart.rows) else None,
        "best": [line for line in _lines(chart) if line["on_front"]],
        "every_whisker": len(chart.rows) <= ALL_WHISKERS,
    }


def _title(chart: SizeChart) -> str:
    if chart.score == AVERAGE:
        return f"Average of {chart.board.title} {chart.board.version}"
    column = chart.board.columns[column_keys(chart.board).index(chart.score)]
    return f"{column.title}, {column.style}"


def _choices(chart: SizeChart) -> list[tuple[str, str]]:
    keys = column_keys(chart.board)
    titles = {key: column.title for key, column in zip(keys, chart.board.columns, strict=True)}
    titles[AVERAGE] = "Average"
    return [(key, titles[key]) for key in scores_of(chart.board, keys)]


def _lines(chart: SizeChart) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "url": _model_url(name),
            "parameters": int(size),
            "value": value,
            "low": low,
            "high": high,
            "on_front": front,
        }
        for name, size, value, low, high, front in zip(
            chart.names,
            chart.parameters.tolist(),
            *(side.tolist() for side in chart.scores.sides),
            chart.on_front.tolist(),
            strict=True,
        )
    ]


def _model_url(name: str) -> str:
    return reverse("model", args=[name])
