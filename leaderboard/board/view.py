"""What the board shows to one reader: a snapshot, filtered, sorted and paged as the address asks.

Everything is arithmetic on the snapshot's arrays; the database is not asked. Filters never change
a rank, and neither does any order.

A choice of columns or of scale that is not the suite's has an average of its own: the plain mean of
the shown columns that count. It orders the rows and has an interval, but no rank ranges and no
bands: those were computed, for all models at once, for the suite's average only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from leaderboard.board import filters
from leaderboard.board.filters import Facets, Filtered, facets_of, rows_named
from leaderboard.board.query import ALL_COLUMNS, CHANCE, RAW, BoardQuery, date_problem
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Flags, Floats, Scores
from leaderboard.stats import bands
from leaderboard.web import Recent, page_number

PAGE = 50
MAX_PINS = 20
DEFAULT_COLUMNS = 10
MAX_MEANS = 16
"""Averages of readers' own choices that are kept of each board."""
AVERAGE, MODEL, SIZE, ADDED = "average", "model", "size", "added"
_ASCENDING_FIRST = (MODEL, SIZE)

Rows = NDArray[np.intp]
_means: WeakKeyDictionary[Board, Recent[Scores]] = WeakKeyDictionary()


class Band(NamedTuple):
    """Models that the first of them was not proven better than; all are left by the filters."""

    leader: int
    """Row."""
    last: int
    """Row of the last in order."""
    others: int
    """Models besides the leader."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a view with its average; `cols` and `score` are as short addresses say it."""

    columns: list[int]
    folded: int
    """How many columns the suite has besides, where the reader chose none."""
    averaged: list[int]
    """The columns whose mean the average is."""
    scale: str
    """RAW or CHANCE."""
    scores: Scores
    """All of the board's, on that scale."""
    average: Scores
    """Shape (rows,); NaN where a shown column is missing."""
    own_choice: bool
    why_unranked: str
    """For an own choice: what its average is of, and why it has no ranks."""
    cols: str
    score: str
    problems: list[str]


@dataclass(frozen=True, kw_only=True)
class View(Columns):
    """Rows are places in the board's arrays, columns places in its columns."""

    board: Board
    query: BoardQuery
    """As asked, with what cannot be (a page beyond the last) put right."""
    facets: Facets
    keys: list[str]
    """How addresses and files call each of the board's columns."""
    sort_key: str
    ascending: bool
    rows: Rows
    """All that the filters leave, in order, without the pinned ones."""
    copies: dict[int, list[int]]
    """By row the rows after it that are the same weights, asked alike: they fold into it."""
    bands: list[Band]
    """Of all rows, in order; none where they stand in another order or have no ranks."""
    band_starts: NDArray[np.int32]
    """Of each band the place of its leader among the ranked."""
    pins: list[int]
    ticked: list[int]
    found: int
    """How many models the filters leave, pinned ones and copies among them."""
    total: int
    found_ranks: NDArray[np.int32] | None
    """Ranks of those found, in order; None where no filter leaves a model out."""
    page: int
    pages: int
    first: int
    """Number of the page's first row from 1, copies not counted; 0 where there is none."""
    last: int
    lines: int
    """Rows of all pages."""
    page_rows: list[int]
    marked: int | None
    hits: list[tuple[str, int]]
    chips: list[tuple[str, str]]
    """Active filters, each with the address that drops it."""
    near: list[tuple[str, str]]
    """Where the search finds nothing on the whole board: near ones, each with its address."""
    ways_out: list[tuple[str, str, int]]
    """Where nothing is left: each filter, the address without it, and how many models that has,
    the most first."""


def view_of(board: Board, query: BoardQuery) -> View:
    """The board as the reader asked for it; what cannot be done is among its `problems`."""
    facets, keys, total = facets_of(board), column_keys(board), len(board.models)
    chosen = _columns(board, query, keys)
    filtered = filters.filtered(facets, query)
    left = filtered.left(total)
    pins, unknown = _firsts(board, query.many("pin"))
    ticked, _ = _firsts(board, query.many("m"))
    problems = [*date_problem(query), *filtered.problems, *chosen.problems]
    problems += _pin_problems(pins, unknown)
    pins = pins[:MAX_PINS]

    sort_key, ascending = _sorting(board, keys, query.sort)
    unpinned = left.copy()
    unpinned[pins] = False
    values = _sort_values(facets, keys, chosen.scores, chosen.average, sort_key)
    rows = in_order(np.flatnonzero(unpinned), values, ascending=ascending)
    lines, copies = _fold(facets, rows)

    pages = max(1, -(-len(lines) // PAGE))
    page = page_number(query.page, last=pages)
    sort = query.sort if query.sort.removeprefix("-") == sort_key else AVERAGE
    canonical = query.but(sort=sort, page=page, cols=chosen.cols, score=chosen.score)
    marked = None
    if query.at_model:
        marked, place, problem = _marked(board, query.at_model, lines, copies, pins)
        problems += problem
        if place is not None:
            page, canonical = place // PAGE + 1, canonical.but(page=1)
    start = (page - 1) * PAGE
    page_rows = lines[start : start + PAGE].tolist()
    found = int(left.sum())
    of_average = bands_among(board, rows) if sort == AVERAGE and not chosen.own_choice else []
    return View(
        board=board,
        query=canonical,
        facets=facets,
        keys=keys,
        **{**vars(chosen), "problems": problems},
        sort_key=sort_key,
        ascending=ascending,
        rows=rows,
        copies=copies,
        bands=of_average,
        band_starts=board.place_among_ranked[[band.leader for band in of_average]].astype(np.int32)
        if of_average
        else np.zeros(0, np.int32),
        pins=pins,
        ticked=ticked,
        found=found,
        total=total,
        found_ranks=_ranks_of(board, left) if filtered.masks else None,
        page=page,
        pages=pages,
        first=start + 1 if page_rows else 0,
        last=start + len(page_rows),
        lines=len(lines),
        page_rows=page_rows,
        marked=marked,
        hits=filtered.hits,
        chips=[
            (filters.filter_label(name, canonical), _without(canonical, name))
            for name in filtered.masks
        ],
        near=[(text, canonical.url(q=text, page=1)) for text in filtered.near],
        ways_out=[] if found else _ways_out(filtered, canonical, total),
    )


# Columns and the average


def column_keys(board: Board) -> list[str]:
    """How addresses and files call each column: by benchmark, with its style only where needed."""
    benchmarks = Counter(column.benchmark for column in board.columns)
    return [
        column.benchmark
        if benchmarks[column.benchmark] == 1
        else f"{column.benchmark}.{column.style}"
        for column in board.columns
    ]


def _columns(board: Board, query: BoardQuery, keys: Sequence[str]) -> Columns:
    """What the reader chose of columns and scale, or the suite's own."""
    every = list(range(len(keys)))
    columns, cols, problems = _chosen(query, keys)
    of_suite = CHANCE if board.by_chance else RAW
    scale = query.score or of_suite
    scores = board.normalised if scale == CHANCE else board.scores
    counted = [place for place in every if board.columns[place].counts]
    averaged = [place for place in columns if place in counted]
    is_default = columns in (every[:DEFAULT_COLUMNS], every)
    own_columns = not is_default and averaged != counted
    if not own_columns:
        averaged = counted
    own_choice = own_columns or scale != of_suite
    average = board.average
    if own_choice:
        needed = columns if own_columns else every
        key = scale, tuple(averaged), tuple(needed)
        known = _means.setdefault(board, Recent(MAX_MEANS))
        average = known.of(key, lambda: _mean(scores, averaged, needed))
    return Columns(
        columns=columns,
        folded=0 if cols else len(every) - len(columns),
        averaged=averaged,
        scale=scale,
        scores=scores,
        average=average,
        own_choice=own_choice,
        why_unranked=_why(len(averaged), len(counted), own_columns, scale) if own_choice else "",
        cols=cols,
        score=scale if scale != of_suite else "",
        problems=problems,
    )


def _mean(scores: Scores, averaged: Sequence[int], needed: Sequence[int]) -> Scores:
    """By row the mean over columns; NaN where one of the `needed` is missing."""
    if not averaged:
        return Scores.none(len(scores.value))
    complete: Flags = np.isnan(scores.value[:, needed]).sum(axis=1) == 0
    return scores.mean(averaged).where(complete)


def _chosen(query: BoardQuery, keys: Sequence[str]) -> tuple[list[int], str, list[str]]:
    """The shown columns in the board's order, how the address names them, and what is unknown."""
    names = query.many("cols")
    every = list(range(len(keys)))
    chosen = every if ALL_COLUMNS in names else [place for place in every if keys[place] in names]
    unknown = [key for key in names if key not in (*keys, ALL_COLUMNS)]
    problems = [f"Not on this board: {_few(unknown)}. Choose among its columns."] if unknown else []
    # A form sends the boxes that it shows ticked: the suite's own ten are no choice.
    if not chosen or chosen == every[:DEFAULT_COLUMNS]:
        return every[:DEFAULT_COLUMNS], ",".join(unknown), problems
    named = [ALL_COLUMNS] if chosen == every else [keys[place] for place in chosen]
    return chosen, ",".join([*named, *unknown]), problems


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"“{name}”" for name in names[:3]) + more


def _why(averaged: int, counted: int, own_columns: bool, scale: str) -> str:
    if not averaged:
        return "None of the columns that you chose counts, so there is no average of them."
    average = (
        f"This average is of {averaged} of the suite’s {counted} columns that count"
        if own_columns
        else "This average is of the suite’s columns that count"
    )
    of_scale = ", from chance" if scale == CHANCE else ""
    return (
        f"{average}{of_scale}, as you chose. It has no ranks and no bands: "
        "rank ranges are computed for the suite’s own average only."
    )


# Order


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


def in_order(rows: Rows, values: Floats | NDArray[np.int64], *, ascending: bool) -> Rows:
    """The rows by their values; equal ones in the board's order, those without a value last."""
    by = values[rows] if ascending else -values[rows]
    return rows[np.argsort(by, kind="stable")]


def _fold(facets: Facets, rows: Rows) -> tuple[Rows, dict[int, list[int]]]:
    """The rows without those whose weights an earlier row has; by that row the ones left out."""
    numbers = facets.copies[rows]
    known = np.flatnonzero(numbers >= 0)
    unique, firsts, which = np.unique(numbers[known], return_index=True, return_inverse=True)
    if len(unique) == len(known):
        return rows, {}
    lead = known[firsts[which]]
    again = known != lead
    copies: dict[int, list[int]] = {}
    for place, of in zip(known[again].tolist(), lead[again].tolist(), strict=True):
        copies.setdefault(int(rows[of]), []).append(int(rows[place]))
    kept = np.ones(len(rows), np.bool_)
    kept[known[again]] = False
    return rows[kept], copies


# Ranks among those that filters leave


def bands_among(board: Board, rows: Rows) -> list[Band]:
    """Of rows in the board's order: a band ends before the first model that was shown to be worse
    than its first, or that nobody compared with it."""
    ranked = rows[board.ranks.rank[rows] > 0]
    starts = bands(board.ranks.claims, board.place_among_ranked[ranked].astype(np.intp))
    ends = [*starts, len(ranked)][1:]
    return [
        Band(int(ranked[start]), int(ranked[end - 1]), end - start - 1)
        for start, end in zip(starts, ends, strict=True)
    ]


def span_among(board: Board, rows: Rows, row: int) -> tuple[int, int, int]:
    """Rank of a ranked row among those of `rows`, in order, and the ranks that are not excluded."""
    ranked = rows[board.ranks.rank[rows] > 0]
    places = board.place_among_ranked[ranked].astype(np.intp)
    at, reach = int(board.place_among_ranked[row]), board.ranks.reach
    below = places[places > at] - at
    worse = int((below > reach).sum())
    claims = board.ranks.claims
    worse += int(claims[at, below[below <= reach] - 1].sum())
    above = at - places[places < at]
    near = above[above <= reach]
    better = int((above > reach).sum()) + int(claims[at - near, near - 1].sum())
    average = board.average.value
    rank = 1 + int((average[ranked] > average[row]).sum())
    return rank, 1 + better, len(ranked) - worse


def _ranks_of(board: Board, left: Flags) -> NDArray[np.int32]:
    """In order, of those that have one."""
    ranks = board.ranks.rank[left]
    found: NDArray[np.int32] = np.sort(ranks[ranks > 0])
    return found


# Single models, and ways on


def _firsts(board: Board, names: Sequence[str]) -> tuple[list[int], list[str]]:
    """The row of each name, of several the first on the board; and the unknown names."""
    found = {name: rows_named(board, name) for name in names}
    known = dict.fromkeys(rows[0] for rows in found.values() if rows)
    return list(known), [name for name, rows in found.items() if not rows]


def _marked(
    board: Board, name: str, lines: Rows, copies: dict[int, list[int]], pins: Sequence[int]
) -> tuple[int | None, int | None, list[str]]:
    """The row that a deep link names, its place among the lines, and why it cannot be shown."""
    named = rows_named(board, name)
    if not named:
        return None, None, [f"“{name}” is not on this board. Search for a part of its name."]
    for row in named:
        if row in pins:
            return row, None, []
    shown = [*named, *(row for row, folded in copies.items() if not set(named).isdisjoint(folded))]
    places = np.flatnonzero(np.isin(lines, shown))
    if not len(places):
        problem = f"“{name}” is on this board, but these filters leave it out. Drop one of them."
        return None, None, [problem]
    return int(lines[places[0]]), int(places[0]), []


def _pin_problems(pins: Sequence[int], unknown: Sequence[str]) -> list[str]:
    problems = []
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        problems.append(f"Pinned, but not on this board: “{unknown[0]}”{more}.")
    if len(pins) > MAX_PINS:
        problems.append(f"{len(pins)} models are pinned; the first {MAX_PINS} are shown on top.")
    return problems


def _without(query: BoardQuery, name: str) -> str:
    return query.but(**{name: "", "page": 1, "at_model": ""}).url()


def _ways_out(filtered: Filtered, query: BoardQuery, total: int) -> list[tuple[str, str, int]]:
    ways = [
        (
            filters.filter_label(name, query),
            _without(query, name),
            int(filtered.left(total, without=name).sum()),
        )
        for name in filtered.masks
    ]
    return sorted((way for way in ways if way[2]), key=lambda way: -way[2])
