"""What the styles page shows to one reader: benchmarks side by side, searched, sorted and paged.

Everything is arithmetic on the arrays of the board of every style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from django.conf import settings
from django.http import HttpRequest
from numpy.typing import NDArray

from leaderboard.board import BoardQuery, date_problem, facets_of, in_order, rows_named, search
from leaderboard.snapshot import EVERY, BestOf, Board, Flags, Scores, StyleGap, in_styles
from leaderboard.stats import StyleSpreads, style_spreads
from leaderboard.web import Address, Part, part

PAGE, CELLS = 25, 5_000
"""Rows of a page, fewer where they have so many columns that it would be too large."""
FIT = 12
"""Columns that stand beside each other on a wide screen: so many benchmarks the table has unless
the reader chooses."""
WIDE = 24
"""With more columns than this cells have no titles."""
AVERAGE, ALL, MODEL, LEADERS = "average", "all", "model", "leaders"


@dataclass(frozen=True)
class Group:
    """A benchmark’s columns in the table."""

    benchmark: str
    title: str
    places: tuple[int, ...]
    """Its scores on the board of every style."""
    change: StyleGap | None
    """The first of the two styles less the second; None where it is not asked in both."""
    spreads: StyleSpreads
    """By row; NaN where a style is missing."""
    best: BestOf

    def key(self, name: str) -> str:
        """How addresses and files call one of its columns."""
        return f"{self.benchmark}.{name}"


@dataclass(frozen=True, kw_only=True)
class View:
    """Rows are places in the board's arrays."""

    board: Board
    address: Address
    first: str
    """The two styles that are compared."""
    second: str
    styles: list[str]
    """Those that may be compared."""
    groups: list[Group]
    titles: dict[str, str]
    """Of every benchmark that is asked in several styles."""
    sort_key: str
    ascending: bool
    found: Flags
    """Which models the search finds, shape (rows,)."""
    hits: list[tuple[str, int]]
    rows: NDArray[np.intp]
    """Those found that have a score in the table, in order."""
    part: Part
    page_rows: list[int]
    chosen: int | None
    """The row whose variance is split."""
    problems: list[str]

    @cached_property
    def columns(self) -> int:
        """Columns of the table besides the models."""
        return columns_of(self.groups)

    @property
    def wide(self) -> bool:
        return self.columns > WIDE


def columns_of(groups: Sequence[Group]) -> int:
    return sum(len(group.places) + 2 + (group.change is not None) for group in groups)


def rows_beside(columns: int) -> int:
    """Rows of a page with so many columns."""
    return max(1, min(PAGE, CELLS // max(columns, 1)))


def address_of(request: HttpRequest) -> Address:
    """The page's state.

    `at` is a past day, `benchmark` what models are ordered by, `draw` which of them the chart
    draws, `cols` are the table's benchmarks, and `model` is a variant or a repository.
    """
    usual = {"suite": settings.PLUMBLINE_SUITE, "benchmark": AVERAGE}
    empty = dict.fromkeys(("at", "a", "b", "draw", "q", "sort", "cols", "model"), "")
    return Address(request, {**usual, **empty, "page": "1"}, {"cols": ","})


def wanted(address: Address, style: str = EVERY) -> BoardQuery:
    """The board of a style that the page is made of, on the day asked for."""
    return BoardQuery(suite=address["suite"], style=style, at=address["at"])


def pair_of(board: Board, address: Address) -> tuple[str, str]:
    """The two styles that are compared: those asked for, else the suite's first two."""
    styles = styles_of(board)
    first = address.choice("a", styles[1:]) or styles[0]
    usual = next(style for style in styles if style != first)
    return first, address.choice("b", set(styles) - {first, usual}) or usual


def styles_of(board: Board) -> list[str]:
    """Those in which a benchmark is asked beside another style, in the suite's order."""
    asked = {board.columns[place].style for _, places in in_styles(board) for place in places}
    return [style for style in board.styles if style in asked]


def in_both(board: Board, pair: tuple[str, str]) -> list[str]:
    """The benchmarks that are asked in both of these styles."""
    return [
        name
        for name, places in in_styles(board)
        if set(pair) <= {board.columns[place].style for place in places}
    ]


def view(board: Board, address: Address, *, every_row: bool = False) -> View:
    """The board as the reader asked for it; what cannot be done is among its `problems`.

    The address is put right: it holds no choice that says nothing. `every_row`: not paged.
    """
    pair = pair_of(board, address)
    of_benchmark = dict(in_styles(board))
    problems = date_problem(wanted(address))
    shown = _chosen_benchmarks(address, of_benchmark, problems)
    groups = [_group(board, name, of_benchmark[name], pair) for name in shown]
    address.choice("benchmark", [AVERAGE, *in_both(board, pair)])
    address.choice("draw", [LEADERS])
    found, hits = _search(board, address["q"], problems)
    places = [place for group in groups for place in group.places]
    scored = ~np.isnan(board.scores.value[:, places]).all(axis=1)
    columns = _sortable(board, groups)
    sort_key, ascending = _sorting(address, columns)
    rows = in_order(np.flatnonzero(found & scored), columns[sort_key], ascending=ascending)
    size = max(len(rows), 1) if every_row else rows_beside(columns_of(groups))
    on_page = part(address, "page", len(rows), size)
    return View(
        board=board,
        address=address,
        first=pair[0],
        second=pair[1],
        styles=styles_of(board),
        groups=groups,
        titles={name: board.columns[of[0]].title for name, of in of_benchmark.items()},
        sort_key=sort_key,
        ascending=ascending,
        found=found,
        hits=hits,
        rows=rows,
        part=on_page,
        page_rows=rows[on_page.slice].tolist(),
        chosen=_chosen_model(board, address["model"], problems),
        problems=problems,
    )


def _chosen_benchmarks(
    address: Address, of_benchmark: Mapping[str, Sequence[int]], problems: list[str]
) -> list[str]:
    asked = [name for name in address["cols"].split(",") if name]
    if ALL in asked:
        return list(of_benchmark)
    known = [name for name in of_benchmark if name in asked]
    usual = _usual(of_benchmark)
    if unknown := [name for name in asked if name not in of_benchmark]:
        problems.append(
            f"“{unknown[0]}” is no benchmark that this suite asks in several styles. "
            "Choose among the benchmarks below."
        )
    elif known == usual:
        address.choice("cols", ())  # a form sends the usual ones, too
    return known or usual


def _usual(of_benchmark: Mapping[str, Sequence[int]]) -> list[str]:
    """The first benchmarks, as many as fit; each has three columns besides its scores."""
    columns = np.cumsum([len(places) + 3 for places in of_benchmark.values()])
    return list(of_benchmark)[: max(1, int((columns <= FIT).sum()))]


def _group(board: Board, name: str, places: tuple[int, ...], pair: tuple[str, str]) -> Group:
    by_style = {board.columns[place].style: place for place in places}
    change = None
    if all(style in by_style for style in pair):
        change = _turned(board, by_style[pair[0]], by_style[pair[1]])
    best = next(best for best in board.best if best.benchmark == name)
    title = board.columns[places[0]].title
    return Group(name, title, places, change, _spreads(board, name, places), best)


def _turned(board: Board, first: int, second: int) -> StyleGap:
    """The first column less the second, whichever way round the board has it."""
    for gap in board.gaps:
        if (gap.first, gap.second) == (first, second):
            return gap
        if (gap.first, gap.second) == (second, first):
            of = gap.difference
            turned = Scores(-of.value, -of.high, -of.low)
            return StyleGap(gap.benchmark, first, second, turned, gap.paired)
    raise LookupError(f"columns {first} and {second} are not of one benchmark")


_spreads_of: WeakKeyDictionary[Board, dict[str, StyleSpreads]] = WeakKeyDictionary()


def _spreads(board: Board, name: str, places: tuple[int, ...]) -> StyleSpreads:
    """Kept as long as the board itself is."""
    known = _spreads_of.setdefault(board, {})
    if name not in known:
        values = board.scores.value[:, places]
        complete = ~np.isnan(values).any(axis=1)
        sides = np.full((3, len(values)), np.nan)
        if complete.any():
            found = style_spreads(values[complete])
            sides[:, complete] = found.lowest, found.median, found.highest
        known[name] = StyleSpreads(*sides)
    return known[name]


def _search(board: Board, text: str, problems: list[str]) -> tuple[Flags, list[tuple[str, int]]]:
    try:
        return search.parse(text).found(facets_of(board))
    except search.SearchError as error:
        problems.append(f"Nothing was searched: {error}")
        return np.ones(len(board.models), np.bool_), []


def _sortable(board: Board, groups: Sequence[Group]) -> dict[str, NDArray[np.float64]]:
    """What rows can be sorted by; the first score where nothing is asked for.

    Not by the best of the styles: it is derived, and an order by it would be a rank.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    for group in groups:
        for place in group.places:
            columns[group.key(board.columns[place].style)] = board.scores.value[:, place]
        if group.change is not None:
            columns[group.key("change")] = group.change.difference.value
        columns[group.key("spread")] = group.spreads.spread
    columns[MODEL] = facets_of(board).by_name.astype(np.float64)
    return columns


def _sorting(address: Address, columns: dict[str, NDArray[np.float64]]) -> tuple[str, bool]:
    """By what, and whether the lowest comes first; names from A, numbers from the highest."""
    usual, asked = next(iter(columns)), address["sort"]
    key = asked.removeprefix("-")
    if key not in columns or asked == usual:
        address.choice("sort", ())
        key, asked = usual, usual
    return key, (key == MODEL) != asked.startswith("-")


def _chosen_model(board: Board, name: str, problems: list[str]) -> int | None:
    """The row of a variant by its number, or the first of a repository by its ID."""
    if not name:
        return None
    row = next(iter(rows_named(board, name)), None)
    if row is None:
        problems.append(f"“{name}” is not among this suite’s models. Choose one in the table.")
    return row
