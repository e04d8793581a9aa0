"""Cloze beside MMLU-style: the same questions asked in several ways."""

from __future__ import annotations

from typing import Any

import numpy as np
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from leaderboard.board import Days, as_it_stood, chosen_board, days_of, shared_as
from leaderboard.catalogue import suite_asked_for
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import EVERY, Board, in_styles, published
from leaderboard.styles import order as styles_order
from leaderboard.styles import split
from leaderboard.styles import table as styles_table
from leaderboard.styles.view import (
    ALL,
    AVERAGE,
    LEADERS,
    View,
    address_of,
    in_both,
    pair_of,
    view,
    wanted,
)
from leaderboard.web import Address, kept


@require_safe
def styles(request: HttpRequest) -> HttpResponseBase:
    """Searched, sorted and paged by the address alone."""
    address = address_of(request)
    return kept.answer(
        request, lambda: published.edition(address["suite"]), lambda: _answer(request, address)
    )


def _answer(request: HttpRequest, address: Address) -> str | HttpResponseBase:
    suite = suite_asked_for(address["suite"])
    board = chosen_board(suite, wanted(address)) if suite else None
    if not suite or not board or not in_styles(board):
        return _without_scores(request, address, suite, built=board is not None)
    first, second = (
        chosen_board(suite, wanted(address, style)) for style in pair_of(board, address)
    )
    return _page(request, address, suite, board, (first, second))


def _days(suite: Suite, address: Address) -> Days:
    return days_of(suite, wanted(address), published.first_day(suite, EVERY))


def _without_scores(
    request: HttpRequest, address: Address, suite: Suite | None, *, built: bool
) -> HttpResponseBase:
    """The explanations alone, with the reason why there is nothing to compare."""
    if redirect := address.redirect():
        return redirect
    context = {
        "suite": suite,
        "built": built,
        "reported": suite and _reported(suite),
        "days": suite and _days(suite, address),
        "now_url": address.url(at=""),
    }
    return render(request, "styles/page.html", context)


def _page(
    request: HttpRequest,
    address: Address,
    suite: Suite,
    board: Board,
    averages: styles_order.Averages,
) -> str | HttpResponseBase:
    shown = view(board, address)
    if redirect := address.redirect():
        return redirect
    days = _days(suite, address)
    context = {
        "suite": suite,
        "built": True,
        "board": board,
        "view": shown,
        "address": address,
        "labels": (Style(shown.first).label, Style(shown.second).label),
        "pair": styles_table.compared(shown),
        "scored": bool((~np.isnan(board.scores.value)).any()),
        "order": styles_order.ordering(shown, averages),
        "choices": _choices(shown),
        "table": styles_table.render(shown) if shown.page_rows else "",
        "pages": shown.part.links,
        "downloads": [
            (label, _file_url(address, label.lower())) for label in ("CSV", "JSON", "Parquet")
        ],
        "split": _split(shown),
        "reported": _reported(suite),
        "days": days,
        **({} if address["at"] else shared_as(board, suite)),
        **as_it_stood(days, address),
    }
    return render_to_string("styles/page.html", context, request)


def _file_url(address: Address, ending: str) -> str:
    """Of the table as a file; what changes only the page is left out."""
    path, _, query = address.url(page=1, model="", benchmark=AVERAGE, draw="").partition("?")
    return f"{path}.{ending}" + (f"?{query}" if query else "")


def _choices(shown: View) -> dict[str, Any]:
    """What the page's two forms offer, and what each carries along."""
    address = shown.address
    chosen = {group.benchmark for group in shown.groups}
    pair = shown.first, shown.second

    def carried(*own: str) -> list[tuple[str, str]]:
        fields = ("suite", "at", "benchmark", "a", "b", "draw", "q", "sort", "cols", "model")
        return [(name, address[name]) for name in fields if name not in own and address[name]]

    return {
        "styles": [(style, Style(style).label) for style in shown.styles],
        "orders": [
            (AVERAGE, "Average of the suite"),
            *((name, shown.titles[name]) for name in in_both(shown.board, pair)),
        ],
        "order": address["benchmark"],
        "with_order": carried("a", "b", "benchmark"),
        "benchmarks": [(name, title, name in chosen) for name, title in shown.titles.items()],
        "with_table": carried("q", "cols", "at"),
        "all_url": address.url("table", cols=ALL, page=1),
        "few_url": address.url("table", cols="", page=1),
        "clear_url": address.url("table", q="", page=1),
        "drawn": [
            (label, address.url("order", draw=draw), address["draw"] == draw)
            for draw, label in (("", "Those that move farthest"), (LEADERS, "The leaders"))
        ],
        "turned_url": address.url("order", a=shown.second, b=shown.first),
    }


def _split(shown: View) -> dict[str, Any] | None:
    """Where the variance of the chosen model's answers comes from, in each benchmark shown."""
    if shown.chosen is None:
        return None
    name = shown.board.models[shown.chosen].repo_id.rpartition("/")[2]
    places = [group.places for group in shown.groups]
    return {
        "name": name,
        "parts": split.split(shown.board, shown.chosen, places),
        "without_url": shown.address.url("table", model=""),
    }


def _reported(suite: Suite) -> dict[str, Any] | None:
    """Figures that others published, with the suite's own words for their columns."""
    stated: dict[str, Any] | None = suite.reported
    if not stated:
        return None
    words = {entry.task.name: entry for entry in suite.entries.select_related("task")}
    heads = [(words[name].title, words[name].style) for name in stated["columns"]]
    called = [f"{title}, {Style(style).label}" for title, style in heads]
    return {
        "source": stated["source"],
        "link": stated["link"],
        "heads": heads,
        # By model: of each column what it is called where it stands alone, value, half width.
        "rows": [
            (model, [(name, value, half) for name, (value, half) in zip(called, row, strict=True)])
            for model, row in stated["rows"].items()
        ],
    }
