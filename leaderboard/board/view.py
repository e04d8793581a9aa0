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
from functools import cached_property
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
class Order:
    """The models that the filters leave, in order; rows are places in the board's arrays."""

    sort_key: str
    ascending: bool
    rows: Rows
    """All that the filters leave, in order, without the pinned ones."""
    unfolded: Rows
    """The same without the copies: what fills the pages."""
    copies: dict[int, list[int]]
    """By row the rows after it that are the same weights, asked alike: they fold into it."""

    @property
    def lines(self) -> int:
        """Rows of all pages."""
        return len(self.unfolded)

    @property
    def pages(self) -> int:
        return max(1, -(-self.lines // PAGE))


@dataclass(frozen=True, kw_only=True)
class View(Columns, Order):
    """What one reader sees; columns are places in the board's columns."""

    board: Board
    query: BoardQuery
    """As asked, with what cannot be (a page beyond the last) put right."""
    facets: Facets
    keys: list[str]
    """How addresses and files call each of the board's columns."""
    bands: list[Band]
    """Of all rows, in order; none where they stand in another order or have no ranks."""
    pins: list[int]
    ticked: list[int]
    found: int
    """How many models the filters leave, pinned ones and copies among them."""
    found_ranks: NDArray[np.int32] | None
    """Ranks of those found, in order; None where no filter leaves a model out."""
    page: int
    marked: int | None
    hits: list[tuple[str, int]]
    chips: list[tuple[str, str]]
    """Active filters, each with the address that drops it."""
    near: list[tuple[str, str]]
    """Where the search finds nothing on the whole board: near ones, each with its address."""
    ways_out: list[tuple[str, str, int]]
    """Where nothing is left: each filter, the address without it, and how many models that has,
    the most first."""

    @property
    def total(self) -> int:
        return len(self.board.models)

    @cached_property
    def page_rows(self) -> list[int]:
        rows: list[int] = self.unfolded[(self.page - 1) * PAGE : self.page * PAGE].tolist()
        return rows

    @property
    def first(self) -> int:
        """Number of the page's first row from 1, copies not counted; 0 where there is none."""
        return (self.page - 1) * PAGE + 1 if self.page_rows else 0

    @property
    def last(self) -> int:
        return (self.page - 1) * PAGE + len(self.page_rows)

    @cached_property
    def band_starts(self) -> NDArray[np.int32]:
        """Of each band the place of its leader among the ranked."""
        leaders = np.array([band.leader for band in self.bands], np.intp)
        return self.board.place_among_ranked[leaders]


def view_of(board: Board, query: BoardQuery) -> View:
    """The board as the reader asked for it; what cannot be done is among its `problems`."""
    facets, keys = facets_of(board), column_keys(board)
    columns = _columns(board, query, keys)
    filtered = filters.filtered(facets, query)
    left = filtered.left(len(board.models))
    pins, pin_problems = _pinned(board, query.many("pin"))
    ticked, _ = _firsts(board, query.many("m"))
    order = _order(board, query.sort, columns, np.setdiff1d(np.flatnonzero(left), pins))

    page = page_number(query.page, last=order.pages)
    marked, place, mark_problems = _marked(board, query.at_model, order, pins)
    usual_order = order.sort_key == AVERAGE and not order.ascending
    canonical = query.but(
        sort=query.sort if query.sort.removeprefix("-") == order.sort_key else AVERAGE,
        page=page if place is None else 1,
        cols=columns.cols,
        score=columns.score,
    )
    problems = [*date_problem(query), *filtered.problems, *columns.problems]
    found = int(left.sum())
    return View(
        **{**vars(columns), "problems": [*problems, *pin_problems, *mark_problems]},
        **vars(order),
        board=board,
        query=canonical,
        facets=facets,
        keys=keys,
        bands=bands_among(board, order.rows) if usual_order and not columns.own_choice else [],
        pins=pins,
        ticked=ticked,
        found=found,
        found_ranks=_ranks_of(board, left) if filtered.masks else None,
        page=page if place is None else place // PAGE + 1,
        marked=marked,
        hits=filtered.hits,
        chips=[
            (filters.filter_label(name, canonical), _without(canonical, name))
            for name in filtered.masks
        ],
        near=[(text, canonical.url(q=text, page=1)) for text in filtered.near],
        ways_out=[] if found else _ways_out(filtered, canonical, len(board.models)),
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


def _order(board: Board, sort: str, columns: Columns, rows: Rows) -> Order:
    """These rows as the reader sorts them; by the average where nobody knows what is asked for."""
    facets, keys, key = facets_of(board), column_keys(board), sort.removeprefix("-")
    by_row: dict[str, Floats | NDArray[np.int64]] = {
        AVERAGE: columns.average.value,
        MODEL: facets.by_name,
        SIZE: facets.sizes,
        ADDED: facets.added,
    }
    if key in keys:
        by_row.setdefault(key, columns.scores.value[:, keys.index(key)])
    if key not in by_row:
        sort = key = AVERAGE
    less_is_better = key in keys and not is_share(board.columns[keys.index(key)].metric)
    ascending = (key in _ASCENDING_FIRST or less_is_better) != sort.startswith("-")
    ordered = in_order(rows, by_row[key], ascending=ascending)
    unfolded, copies = _fold(facets, ordered)
    return Order(sort_key=key, ascending=ascending, rows=ordered, unfolded=unfolded, copies=copies)


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
    board: Board, name: str, order: Order, pins: Sequence[int]
) -> tuple[int | None, int | None, list[str]]:
    """The row that a deep link names, its place on the pages, and why it cannot be shown."""
    if not name:
        return None, None, []
    named = rows_named(board, name)
    if not named:
        return None, None, [f"“{name}” is not on this board. Search for a part of its name."]
    for row in named:
        if row in pins:
            return row, None, []
    leads = (row for row, folded in order.copies.items() if not set(named).isdisjoint(folded))
    places = np.flatnonzero(np.isin(order.unfolded, [*named, *leads]))
    if not len(places):
        problem = f"“{name}” is on this board, but these filters leave it out. Drop one of them."
        return None, None, [problem]
    return int(order.unfolded[places[0]]), int(places[0]), []


def _pinned(board: Board, names: Sequence[str]) -> tuple[list[int], list[str]]:
    """The rows on top, and what is wrong with what the reader pinned."""
    pins, unknown = _firsts(board, names)
    problems = []
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        problems.append(f"Pinned, but not on this board: “{unknown[0]}”{more}.")
    if len(pins) > MAX_PINS:
        problems.append(f"{len(pins)} models are pinned; the first {MAX_PINS} are shown on top.")
    return pins[:MAX_PINS], problems


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
