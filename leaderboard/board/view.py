"""What the board shows to one reader: a snapshot, filtered, sorted and paged as the address asks.

Everything is arithmetic on the snapshot's arrays; the database is not asked. Filters never change
a rank, and neither does any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaderboard.board import filters
from leaderboard.board.filters import Facets, Filtered, Option, facets_of, rows_named
from leaderboard.board.wanted import Shown, Wanted, column_keys, shown
from leaderboard.models import Suite
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Flags, Floats, Scores, published
from leaderboard.web import page_number

PAGE = 50
MOST_PINS = 20
AVERAGE, MODEL, SIZE, ADDED = "average", "model", "size", "added"
_ASCENDING_FIRST = (MODEL, SIZE)


@dataclass(frozen=True, kw_only=True)
class View(Shown):
    """Rows are places in the board's arrays, columns places in its columns."""

    board: Board
    wanted: Wanted
    """As asked, with what cannot be (a page beyond the last) put right."""
    keys: list[str]
    """How addresses and files call each of the board's columns."""
    sort_key: str
    ascending: bool
    bands_shown: bool
    rows: NDArray[np.intp]
    """All that the filters leave, in order, without the pinned ones."""
    pins: list[int]
    ticked: list[int]
    found: int
    """How many models the filters leave, pinned ones among them."""
    total: int
    found_ranks: NDArray[np.int32] | None
    """Ranks of those found, in order; None where no filter leaves a model out."""
    page: int
    pages: int
    first: int
    """Number of the page's first row among `rows`, from 1; 0 where there is none."""
    last: int
    page_rows: list[int]
    marked: int | None
    hits: list[tuple[str, int]]
    options: dict[str, list[Option]]
    sizes: tuple[int, int]
    """Fewest and most parameters on the board."""
    chips: list[tuple[str, str]]
    """Active filters, each with the address that drops it."""
    ways_out: list[tuple[str, str, int]]
    """Where nothing is left: each filter, the address without it, and how many models that has."""


def chosen_board(suite: Suite, wanted: Wanted) -> Board | None:
    """The snapshot that the reader asks for; None where none was built by then."""
    if wanted.moment:
        return published.at(suite, wanted.style, wanted.moment)
    return published.newest(suite, wanted.style)


def view_of(board: Board, wanted: Wanted) -> View:
    """The board as the reader asked for it; what cannot be done is among its `problems`."""
    facets, keys, total = facets_of(board), column_keys(board), len(board.models)
    chosen = shown(board, wanted, keys)
    filtered = filters.filtered(facets, wanted)
    left = filtered.left(total)
    pins, unknown = _firsts(board, wanted.many("pin"))
    ticked, _ = _firsts(board, wanted.many("m"))
    problems = [*date_problem(wanted), *filtered.problems, *chosen.problems]
    problems += _pin_problems(pins, unknown)
    pins = pins[:MOST_PINS]

    sort_key, ascending = _sorting(board, keys, wanted.sort)
    unpinned = left.copy()
    unpinned[pins] = False
    values = _sort_values(facets, keys, chosen.scores, chosen.average, sort_key)
    rows = in_order(np.flatnonzero(unpinned), values, ascending=ascending)

    pages = max(1, -(-len(rows) // PAGE))
    page = page_number(wanted.page, last=pages)
    sort = wanted.sort if wanted.sort.removeprefix("-") == sort_key else AVERAGE
    canonical = wanted.but(sort=sort, page=page, cols=chosen.cols, score=chosen.score)
    marked = None
    if wanted.at_model:
        marked, place, problem = _marked(board, wanted.at_model, rows, pins)
        problems += problem
        if place is not None:
            page, canonical = place // PAGE + 1, canonical.but(page=1)
    start = (page - 1) * PAGE
    page_rows = rows[start : start + PAGE].tolist()
    found = int(left.sum())
    return View(
        board=board,
        wanted=canonical,
        keys=keys,
        **{**vars(chosen), "problems": problems},
        sort_key=sort_key,
        ascending=ascending,
        bands_shown=sort == AVERAGE and not chosen.own_choice,
        rows=rows,
        pins=pins,
        ticked=ticked,
        found=found,
        total=total,
        found_ranks=_ranks_of(board, left) if filtered.masks else None,
        page=page,
        pages=pages,
        first=start + 1 if page_rows else 0,
        last=start + len(page_rows),
        page_rows=page_rows,
        marked=marked,
        hits=filtered.hits,
        options=filters.options(facets, canonical),
        sizes=(int(facets.sizes.min()), int(facets.sizes.max())) if total else (0, 0),
        chips=[
            (filters.filter_label(name, canonical), _without(canonical, name))
            for name in filtered.masks
        ],
        ways_out=[] if found else _ways_out(filtered, canonical, total),
    )


def _ranks_of(board: Board, left: Flags) -> NDArray[np.int32]:
    """In order, of those that have one."""
    ranks = board.ranks.rank[left]
    found: NDArray[np.int32] = np.sort(ranks[ranks > 0])
    return found


def _sorting(board: Board, keys: Sequence[str], sort: str) -> tuple[str, bool]:
    """By what rows are sorted, and whether the lowest comes first; the average where unknown."""
    key = sort.removeprefix("-")
    if key not in (AVERAGE, MODEL, SIZE, ADDED, *keys):
        return AVERAGE, False
    less_is_better = key in keys and not is_share(board.columns[keys.index(key)].metric)
    return key, (key in _ASCENDING_FIRST or less_is_better) != sort.startswith("-")


def _sort_values(
    facets: Facets, keys: Sequence[str], scores: Scores, average: Scores, key: str
) -> Floats | NDArray[np.int64]:
    """What every row of the board is sorted by; NaN for none."""
    if key == MODEL:
        return facets.by_name
    if key == SIZE:
        return facets.sizes
    if key == ADDED:
        return facets.added
    return average.value if key == AVERAGE else scores.value[:, keys.index(key)]


def in_order(
    rows: NDArray[np.intp], values: Floats | NDArray[np.int64], *, ascending: bool
) -> NDArray[np.intp]:
    """The rows by their values; equal ones in the board's order, those without a value last."""
    by = values[rows] if ascending else -values[rows]
    return rows[np.argsort(by, kind="stable")]


def _firsts(board: Board, names: Sequence[str]) -> tuple[list[int], list[str]]:
    """The row of each name, of several the first on the board; and the unknown names."""
    found = {name: rows_named(board, name) for name in names}
    known = dict.fromkeys(rows[0] for rows in found.values() if rows)
    return list(known), [name for name, rows in found.items() if not rows]


def _marked(
    board: Board, name: str, rows: NDArray[np.intp], pins: Sequence[int]
) -> tuple[int | None, int | None, list[str]]:
    """The row that a deep link names, its place among `rows`, and why it cannot be shown."""
    named = rows_named(board, name)
    if not named:
        return None, None, [f"“{name}” is not on this board. Search for a part of its name."]
    for row in named:
        if row in pins:
            return row, None, []
    places = np.flatnonzero(np.isin(rows, named))
    if not len(places):
        problem = f"“{name}” is on this board, but these filters leave it out. Drop one of them."
        return None, None, [problem]
    return int(rows[places[0]]), int(places[0]), []


def date_problem(wanted: Wanted) -> list[str]:
    if not wanted.at or wanted.moment:
        return []
    return [f"“{wanted.at}” is no date. Write it as 2025-01-31. This is the newest board."]


def _pin_problems(pins: Sequence[int], unknown: Sequence[str]) -> list[str]:
    problems = []
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        problems.append(f"Pinned, but not on this board: “{unknown[0]}”{more}.")
    if len(pins) > MOST_PINS:
        problems.append(f"{len(pins)} models are pinned; the first {MOST_PINS} are shown on top.")
    return problems


def _without(wanted: Wanted, name: str) -> str:
    return wanted.but(**{name: "", "page": 1, "at_model": ""}).url()


def _ways_out(filtered: Filtered, wanted: Wanted, total: int) -> list[tuple[str, str, int]]:
    ways = []
    for name in filtered.masks:
        models = int(filtered.left(total, without=name).sum())
        if models:
            ways.append((filters.filter_label(name, wanted), _without(wanted, name), models))
    return ways
