"""The board: every model of a suite in one prompt style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from leaderboard.board import OWN, Board, Row, build_board, newest_suite
from leaderboard.models import Run, Suite
from leaderboard.models.task import Style
from leaderboard.pages.address import Address
from leaderboard.pages.board_table import dress, sort_keys, sorted_rows

PAGE = 50
STYLES = {OWN: "Task’s own", **dict(Style.choices)}
ALL = "all"


def board(request: HttpRequest) -> HttpResponse:
    """Filtered, sorted and paged by the address alone."""
    address = Address(
        request,
        {
            "suite": settings.PLUMBLINE_SUITE,
            "style": OWN,
            "q": "",
            "arch": ALL,
            "precision": ALL,
            "sort": "average",
            "page": "1",
        },
    )
    suite = newest_suite(address["suite"])
    if suite is None:
        if address["suite"] != settings.PLUMBLINE_SUITE:
            raise Http404(f"no suite {address['suite']}")
        return render(request, "pages/board_without_suite.html", {"suite": address["suite"]})
    table = build_board(suite, address.choice("style", STYLES))
    found = [row for row in table.rows if _matches(row, address)]
    address.choice("sort", sort_keys(table))
    pages = max(1, -(-len(found) // PAGE))
    number = address.number("page", last=pages)
    if redirect := address.redirect():
        return redirect
    first = (number - 1) * PAGE
    rows = sorted_rows(found, table, address["sort"])[first : first + PAGE]
    context = {
        "address": address,
        "board": table,
        "suites": _suites(suite),
        "newest_run": _newest_run(table),
        "chosen_style": STYLES[address["style"]] if address["style"] != OWN else "",
        "questions": sum(column.n or 0 for column in table.columns),
        "styles": [
            (key, label, key == address["style"])
            for key, label in STYLES.items()
            if key in (OWN, address["style"], *table.styles)
        ],
        "filters": _filters(table, address),
        "chips": _chips(address),
        "table": dress(rows, table, address),
        "found": len(found),
        "shown": (first + 1, first + len(rows)),
        "pages": page_links(number, pages, address),
        "ways_out": _ways_out(table, address) if not found else [],
    }
    return render(request, "pages/board.html", context)


def _suites(current: Suite) -> list[tuple[str, str, bool]]:
    """The newest version of each suite, for the switch; empty where there is only one."""
    newest = {suite.name: suite for suite in Suite.objects.order_by("created", "pk")}
    newest[current.name] = current
    if len(newest) < 2:
        return []
    return [(s.name, s.title, s.name == current.name) for s in newest.values()]


def _newest_run(board: Board) -> Any:
    keys = [column.entry.run_key for column in board.columns]
    done = Run.objects.filter(run_key__in=keys, state=Run.State.DONE)
    return done.aggregate(newest=Max("finished"))["newest"]


def _architecture(row: Row) -> str:
    return row.variant.model_type or row.variant.architecture


def _matches(row: Row, address: Address, without: str = "") -> bool:
    wanted = {name: address[name] for name in ("q", "arch", "precision") if name != without}
    return (
        wanted.get("q", "").lower() in row.variant.hub_model.repo_id.lower()
        and wanted.get("arch", ALL) in (ALL, _architecture(row))
        and wanted.get("precision", ALL) in (ALL, row.variant.dtype)
    )


def _filters(board: Board, address: Address) -> dict[str, list[tuple[str, bool]]]:
    """The options of the two selects: what occurs on this board, and what the address names."""
    options = {
        "arch": {_architecture(row) for row in board.rows},
        "precision": {row.variant.dtype for row in board.rows},
    }
    return {
        name: [(value, value == address[name]) for value in sorted({*found, address[name]} - {ALL})]
        for name, found in options.items()
    }


def _chips(address: Address) -> list[tuple[str, str]]:
    """Active filters, each with the address that drops it."""
    empty = {"q": "", "arch": ALL, "precision": ALL}
    return [
        (
            f"“{address[name]}”" if name == "q" else address[name],
            address.url(**{name: none}, page=1),
        )
        for name, none in empty.items()
        if address[name] != none
    ]


def _ways_out(board: Board, address: Address) -> list[tuple[str, str, int]]:
    """For a search that found nothing: which filter to drop, and how many models that shows."""
    ways = []
    for name, none in (("q", ""), ("arch", ALL), ("precision", ALL)):
        shown = sum(_matches(row, address, without=name) for row in board.rows)
        if address[name] != none and shown:
            ways.append((address[name], address.url(**{name: none}), shown))
    return ways


def page_links(number: int, pages: int, address: Address) -> Sequence[tuple[int, str]]:
    """The numbers worth a link: the first, the last and those around this one."""
    if pages < 2:
        return []
    near = {1, pages, *range(number - 2, number + 3)} & set(range(1, pages + 1))
    return [(n, "" if n == number else address.url(page=n)) for n in sorted(near)]
