"""Where a model stands in the field: on each benchmark its rank among all models of the board.

The field of a benchmark are the models with a score on it that the board may rank: not flagged,
not computed by what was not shown to agree, and no commit in whose place a newer one is ranked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Column, Flags
from leaderboard.stats import range_of

LACKING = ("flag_reason", "apart", "superseded_by")
"""Each of these, where it is not empty, keeps a model from every rank."""


@dataclass(frozen=True)
class Position:
    """A model's rank on one benchmark in one style, and the ranks that are not excluded."""

    column: Column
    rank: int
    low: int
    high: int
    of: int
    """Models with a score, this one among them."""

    def share(self, rank: int) -> float:
        """A rank as the share of the others that it leaves behind: 1 for the first of all."""
        return (self.of - rank) / (self.of - 1)

    @property
    def at(self) -> float:
        return self.share(self.rank)

    @property
    def bounds(self) -> tuple[float, float]:
        """The shares of the worst and of the best rank."""
        return self.share(self.high), self.share(self.low)

    @property
    def span(self) -> str:
        return f"{self.low:,}–{self.high:,}"


def positions(board: Board, row: int) -> list[Position]:
    """On each column in which it and another model of the field have a score, in board order.

    Columns whose numbers are no shares are left out: of a perplexity less is better. Empty for a
    model outside the field.
    """
    field = members(board)
    scored = ~np.isnan(board.scores.value[row])
    places = [
        at for at, column in enumerate(board.columns) if scored[at] and is_share(column.metric)
    ]
    if not field[row] or not places:
        return []
    value, low, high = (_part(side, field, places) for side in board.scores.sides)
    own = int(field[:row].sum())
    rank = 1 + (value > value[own]).sum(axis=0)
    best, worst = range_of(own, value, low, high)
    models = (~np.isnan(value)).sum(axis=0)
    return [
        Position(board.columns[place], *map(int, (rank[at], best[at], worst[at], models[at])))
        for at, place in enumerate(places)
        if models[at] > 1
    ]


def _part(side: NDArray[np.float64], field: Flags, places: Sequence[int]) -> NDArray[np.float64]:
    """These rows and columns; where they are all, as is usual, without a copy of 10,000 rows."""
    rows = side if field.all() else side[field]
    return rows if len(places) == side.shape[1] else rows[:, places]


_members: WeakKeyDictionary[Board, Flags] = WeakKeyDictionary()
"""Kept as long as the board itself is."""


def members(board: Board) -> Flags:
    """Which rows the board may rank, shape (rows,)."""
    if board not in _members:
        _members[board] = _may_be_ranked(board)
    return _members[board]


def _may_be_ranked(board: Board) -> Flags:
    member = np.ones(len(board.models), np.bool_)
    for name in LACKING:
        member &= np.asarray(pc.equal(board.models.array(name), ""), np.bool_)
    return member
