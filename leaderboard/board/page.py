"""The board, which is the front page: every model of a suite in one prompt style.

Read `_kept_page` first: an address becomes a query, the query a view of the newest snapshot. Then
`_page` makes a table of the view, and all of it goes to one template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.board import filters
from leaderboard.board.picture import headline, picture_url
from leaderboard.board.query import (
    ALL_COLUMNS,
    BITS,
    CHANCE,
    CHOICES,
    COMPACT,
    FILTERS,
    GPUS,
    HIDE,
    NORMAL,
    ONLY,
    RAW,
    TRAITS,
    BoardQuery,
    as_it_stood,
    chosen_board,
    days_of,
    style_label,
)
from leaderboard.board.reversal import reversal_of
from leaderboard.board.table import Table, rendered, table_of
from leaderboard.board.view import ADDED, AVERAGE, MODEL, SIZE, View, column_keys, view_of
from leaderboard.catalogue import among, every_suite, newest_suite
from leaderboard.models import Artifact, ItemAnalysis, Result, Suite
from leaderboard.models.task import is_share
from leaderboard.models.vector import CEILING, KEYS, NOISE
from leaderboard.samples import Waffle, by_result, draw_waffle
from leaderboard.snapshot import EVERY, OWN, Board, published
from leaderboard.web import kept, page_links

MAX_MAKERS = 8
"""Makers that the filters list besides those chosen; the search finds all."""
QUESTIONS_TO_SEE = 211
"""Marks that fill the picture of the number to check: the benchmark nearest to it is taken."""
MAX_QUESTIONS_TO_SEE = 424
WEIGHTS = [("", "As measured"), *((bits, f"{bits}-bit") for bits in BITS)]
CARE = {
    NOISE: "models of like size hardly differ beyond noise",
    CEILING: "its best models are at the ceiling",
    KEYS: "many keys are likely wrong",
}
"""Why a column is to be read with care, by the mark of its analysis."""


@require_safe
def board(request: HttpRequest) -> HttpResponseBase:
    """Filtered, sorted and paged by the address alone."""
    return _kept_page(request, BoardQuery.of(request), _page)


@require_safe
def gpu(request: HttpRequest, memory: int) -> HttpResponseBase:
    """The best models for a card with so many GB, with what each needs of them."""
    if str(memory) not in GPUS:
        raise Http404(f"no card of {memory} GB; there are {', '.join(GPUS)}")
    given = BoardQuery.of(request)
    query = BoardQuery(suite=given.suite, style=given.style, bits=given.bits).but(gpu=memory)
    return _kept_page(request, query, _gpu_page)


@dataclass(frozen=True)
class Shown:
    """What a page of the board is made from."""

    query: BoardQuery
    """As asked."""
    view: View
    suite: Suite
    suites: Sequence[Suite]
    """All there are, the newest last."""
    first_day: date | None
    """Of the board's first snapshot."""


def _kept_page(
    request: HttpRequest,
    query: BoardQuery,
    render_page: Callable[[HttpRequest, Shown], str | HttpResponseBase],
) -> HttpResponseBase:
    """The page that `render_page` makes of the snapshot, or one that says why there is none."""

    def make() -> str | HttpResponseBase:
        suites = every_suite()
        suite = among(suites, query.suite)
        if suite is None:
            return _without_suite(request, query)
        snapshot, first_day = _snapshot(suite, query)
        if snapshot is None:
            return _without_board(request, query, suite)
        view = view_of(snapshot, query)
        return render_page(request, Shown(query, view, suite, suites, first_day))

    return kept.answer(request, lambda: published.edition(query.suite), make)


def _page(request: HttpRequest, shown: Shown) -> str | HttpResponseBase:
    view, suite = shown.view, shown.suite
    if redirect := view.query.redirect(request):
        return redirect
    table = table_of(view, _care(view))
    context = {**_context(shown, table), "rendered": rendered(table), "front": False}
    if view.query.is_front_page:
        context |= {
            "front": True,
            "checked": checked_number(view.board, view.page_rows),
            "reversal": reversal_of(published.newest(suite, EVERY), view.query.suite),
        }
    return render_to_string("board/page.html", context, request)


def _snapshot(suite: Suite, query: BoardQuery) -> tuple[Board | None, date | None]:
    """The board that is asked for, and the first day that has one."""
    if query.moment:
        return chosen_board(suite, query), published.first_day(suite, query.style)
    return published.newest_and_first_day(suite, query.style)


def _without_suite(request: HttpRequest, query: BoardQuery) -> HttpResponse:
    if query.suite != settings.PLUMBLINE_SUITE:
        raise Http404(f"no suite {query.suite}")
    return render(request, "board/without.html", {"suite_name": query.suite})


def _without_board(request: HttpRequest, query: BoardQuery, suite: Suite) -> HttpResponseBase:
    """No snapshot: it is being built, the day was too early, or nothing is asked in this style."""
    if redirect := query.redirect(request):
        return redirect
    context = {
        "suite": suite,
        "style": style_label(query.style),
        "asked": query.style in published.styles_of(suite),
        "first_day": published.first_day(suite, query.style) if query.moment else None,
        "at": query.at if query.moment else "",
        "now_url": query.url(at=""),
        "own_url": query.url(style=OWN, sort=AVERAGE, cols="", at=""),
    }
    return render(request, "board/without.html", context)


def _gpu_page(request: HttpRequest, shown: Shown) -> str:
    query, view = shown.query, shown.view
    table = table_of(view, gpu=query.gpu)
    rungs = _ladder(view, query)
    context = {
        **_context(shown, table),
        "rendered": rendered(table, query.gpu, query.bits),
        "gpu": query.gpu,
        "rungs": rungs,
        "level": view.bands[0].others + 1 if view.bands else 0,
        "weights": [
            (label, _gpu_url(query.but(bits=bits)), bits == query.bits) for bits, label in WEIGHTS
        ],
        "bigger": _change(rungs, 1),
        "smaller": _change(rungs, -1),
        "on_board_url": query.url(),
    }
    return render_to_string("board/gpu.html", context, request)


@dataclass(frozen=True)
class Rung:
    """The best model that fits a card; no name where none does."""

    gpu: str
    url: str
    chosen: bool
    name: str
    average: float
    x: int
    height: int
    """Where its bar stands in the picture, and how high it is of 40."""

    @property
    def y(self) -> int:
        return 40 - self.height


def _ladder(view: View, query: BoardQuery) -> list[Rung]:
    """From the smallest card to any."""
    board, memory = view.board, view.facets.memory(query.bits)
    best = {}
    for size in (*GPUS, ""):
        fitting = board.ranks.rank > 0
        if size:
            fitting &= memory <= float(size)
        rows = np.flatnonzero(fitting)
        best[size] = int(rows[0]) if len(rows) else None
    values = [float(board.average.value[row]) for row in best.values() if row is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    rungs = []
    for place, (size, row) in enumerate(best.items()):
        average = float("nan") if row is None else float(board.average.value[row])
        name = "" if row is None else board.models.value(row, "repo_id").rpartition("/")[2]
        share = (average - low) / (high - low) if name and high > low else 0.0
        url = _gpu_url(query.but(gpu=size)) if size else query.url(gpu="", bits="")
        height = round(8 + 30 * share) if name else 0
        rungs.append(Rung(size, url, size == query.gpu, name, average, 20 * place, height))
    return rungs


def _gpu_url(query: BoardQuery) -> str:
    address = BoardQuery(suite=query.suite, style=query.style, bits=query.bits).url()
    _, mark, rest = address.partition("?")
    return reverse("gpu", args=[int(query.gpu)]) + mark + rest


def _change(rungs: Sequence[Rung], step: int) -> tuple[str, float] | None:
    """The next card with the points it would gain or lose; None where they round to nothing."""
    at = next(place for place, rung in enumerate(rungs) if rung.chosen)
    other = at + step
    if not 0 <= other < len(rungs) - 1 or not rungs[at].name or not rungs[other].name:
        return None
    points = abs(rungs[other].average - rungs[at].average)
    return (rungs[other].gpu, points) if round(points, 3) else None


@require_safe
def cell(request: HttpRequest, variant: int, column: str) -> HttpResponseRedirect:
    """To the run behind a variant’s number in a column of the board that the query asks for."""
    query = BoardQuery.of(request)
    suite = newest_suite(query.suite)
    board = chosen_board(suite, query) if suite else None
    if board is None:
        raise Http404(f"no board {query.suite}")
    row, keys = board.row_of.get(variant), column_keys(board)
    run = board.run_id(row, keys.index(column)) if row is not None and column in keys else None
    if run is None:
        raise Http404(f"no run of {variant} in {column}")
    return HttpResponseRedirect(reverse("run", args=[run]))


# The two cards of the front page


@dataclass(frozen=True)
class CheckedNumber:
    """A score that a visitor may count again, with a mark for each of its questions."""

    run: UUID
    model: str
    benchmark: str
    value: float
    questions: int
    picture: Waffle | None
    """None where there are too many questions to be seen at a glance."""
    countable: bool
    """Whether its answers are stored here."""


def checked_number(board: Board, rows: Iterable[int]) -> CheckedNumber | None:
    """Of the first ranked model among `rows` on the benchmark whose questions can be seen at a
    glance; None where no such score is a share of right answers that is known question by
    question."""
    leader = next((row for row in rows if board.ranks.rank[row]), None)
    if leader is None:
        return None
    seen = sorted(
        (abs(column.n - QUESTIONS_TO_SEE), place)
        for place, column in enumerate(board.columns)
        if column.n and column.n <= MAX_QUESTIONS_TO_SEE and is_share(column.metric)
        if column.draws == 1 and board.score(leader, place)
    )
    places = {board.run_id(leader, place): place for _, place in seen[:3]}
    results = Result.objects.filter(run__in=places, subset="").order_by("pk")
    results = results.annotate(files=Count("run__artifacts"))
    numbers = {
        places[result.run_id]: result
        for result in results
        if (column := board.columns[places[result.run_id]])
        and (result.metric, result.filter) == (column.metric, column.filter)
    }
    known = by_result([result.pk for result in numbers.values()])
    for _, place in seen:
        vector = known.get(numbers[place].pk) if place in numbers else None
        picture = draw_waffle(vector.scores, width=369, height=54) if vector else None
        if picture and picture.right is not None:
            name = board.models.value(leader, "repo_id").rpartition("/")[2]
            column, result = board.columns[place], numbers[place]
            countable = getattr(result, "files") == len(Artifact.Kind.values)  # noqa: B009
            title = column.title
            return CheckedNumber(
                result.run_id, name, title, result.value, picture.questions, picture, countable
            )
    return None


# What stands around the table


def _care(view: View) -> dict[str, str]:
    """By comparability key why a shown column is to be read with care, by its newest analysis."""
    if view.query.moment:  # what is known now says nothing of a past day's board
        return {}
    keys = {view.board.columns[place].comparability_key for place in view.columns} - {""}
    rows = ItemAnalysis.objects.filter(comparability_key__in=keys).exclude(marks=[])
    marks = rows.order_by("built", "pk").values_list("comparability_key", "marks")
    return {key: "; ".join(CARE[mark] for mark in of_column) for key, of_column in marks}


def _context(shown: Shown, table: Table) -> dict[str, Any]:
    """What the templates name besides the table."""
    view, suite = shown.view, shown.suite
    board, query = view.board, view.query
    newest = {one.name: one for one in shown.suites}
    days = days_of(suite, query, shown.first_day)
    return {
        "suite": suite,
        "notice": re.split("[.:;]", suite.notice)[0],
        "newer": newest[suite.name] if newest[suite.name].version != suite.version else None,
        "newer_url": query.url(suite=board.suite, at="", cols="", sort=AVERAGE, page=1),
        "days": days,
        **as_it_stood(days, query),
        "board": board,
        "view": view,
        "query": query,
        "table": table,
        "questions": sum(column.n or 0 for column in board.columns),
        "chosen_style": "" if query.style == OWN else style_label(query.style),
        "suites_own_url": query.url(cols="", score="", page=1),
        "pages": page_links(view.page, view.pages, query.but(at_model="")),
        "compared_on": [
            (name, getattr(query, name))
            for name in ("suite", "style", "at")
            if getattr(query, name) != getattr(BoardQuery(), name)
        ],
        "ticked_elsewhere": _ticked_elsewhere(view),
        "unpinned_url": query.url(pin="", at_model=""),
        "picture_url": picture_url(suite, query),
        "share_title": headline(view),
        **finder_context(view),
        **sheet_context(view),
        **_view_context(view, newest, query),
    }


def _ticked_elsewhere(view: View) -> list[tuple[int, str]]:
    """Models that are ticked and not on this page: variant and name."""
    here = {*view.page_rows, *view.pins}
    ticked = (view.board.models[row] for row in view.ticked if row not in here)
    return [(model.variant, model.repo_id.rpartition("/")[2]) for model in ticked]


def finder_context(view: View) -> dict[str, Any]:
    """What `board/bar.html` needs: search, styles, cards' memory, active filters."""
    query = view.query
    plain = query.but(page=1, at_model="")
    return {
        "searched": query.carried("q"),
        "styles": [
            (key, style_label(key), plain.url(style=key), key == query.style)
            for key in dict.fromkeys((OWN, *view.board.styles, query.style))
        ],
        "gpus": [
            (size, plain.url(gpu=size, bits=query.bits if size else ""), size == query.gpu)
            for size in ("", *GPUS)
        ],
        "active": sum(name != "q" for name in FILTERS if getattr(query, name)),
        "clear_url": plain.url(**dict.fromkeys(FILTERS, ""), bits=""),
        "gpu_url": _gpu_url(query) if query.gpu else "",
    }


def sheet_context(view: View) -> dict[str, Any]:
    """What `board/sheet.html` has fields for, and where it leads; charts have the same filters."""
    query, facets = view.query, view.facets
    options = filters.options(facets, query)
    options["maker"] = [
        option
        for place, option in enumerate(options["maker"])
        if place < MAX_MAKERS or option.chosen
    ]
    sizes = (int(facets.sizes.min()), int(facets.sizes.max())) if view.total else (0, 0)
    return {
        "carried": query.carried(*(name for name in FILTERS if name != "q"), "bits", "sort"),
        "orders": _orders(view),
        "fits": [("", view.total), *filters.fits(facets, query.bits)],
        "bits": WEIGHTS,
        "bins": filters.size_bins(facets, query.size),
        "size": query.size.partition("-")[::2],
        "sizes": [size / 10**9 for size in sizes],
        "facets": [
            (name, filters.NAMES[name], options[name], max(o.models for o in options[name]))
            for name in CHOICES
            if len(options[name]) > 1 or getattr(query, name)
        ],
        "makers": len(facets.choices("maker")),
        "traits": [
            (name, filters.NAMES[name], int(facets.flags(name).sum()), getattr(query, name))
            for name in TRAITS
            if facets.flags(name).any() or getattr(query, name)
        ],
        "sheet_url": reverse("board"),
        "shut_url": query.url(),
        "trait_choices": (("", "Shown"), (ONLY, "Only these"), (HIDE, "Left out")),
    }


def _orders(view: View) -> list[tuple[str, str, bool]]:
    """Everything to sort by, for phones, which show no column heads."""
    titles = [column.title for column in view.board.columns]
    names = ("Average", "Name", "Parameters", "Day it came")
    orders = dict(zip([AVERAGE, MODEL, SIZE, ADDED, *view.keys], [*names, *titles], strict=True))
    current = view.query.sort
    if current.startswith("-"):
        orders[current] = f"{orders[view.sort_key]}, the other way round"
    return [(key, label, key == current) for key, label in orders.items()]


def _view_context(view: View, newest: dict[str, Suite], query: BoardQuery) -> dict[str, Any]:
    """What the menus of view and download have."""
    board, shown = view.board, set(view.columns)
    return {
        "viewed": query.carried("suite", "at", "cols", "score", "rows"),
        "scales": [
            ("" if (scale == CHANCE) == board.by_chance else scale, label, scale == view.scale)
            for scale, label in ((RAW, "As measured"), (CHANCE, "From chance"))
        ],
        "densities": [
            (rows, label, rows == query.rows)
            for rows, label in ((NORMAL, "With ranges"), (COMPACT, "Compact"))
        ],
        "column_boxes": [
            (key, column.title, place in shown)
            for place, (key, column) in enumerate(zip(view.keys, board.columns, strict=True))
        ],
        "all_columns_url": query.url(cols=ALL_COLUMNS) if view.folded else "",
        "other_suites": list(newest.values()) if len(newest) > 1 else [],
        "downloads": [
            (label, query.url(to=f"board-{label.lower()}")) for label in ("CSV", "JSON", "Parquet")
        ],
        "this_view": query.url(
            suite=f"{board.suite}@{board.version}", at=query.at or f"{board.built:%Y-%m-%d}"
        ),
    }
