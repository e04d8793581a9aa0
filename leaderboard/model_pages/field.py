"""Where a model stands in the field: on each benchmark its rank among all models of the board.

The field of a benchmark are the models with a score on it that the board may rank: not flagged,
not computed by what was not shown to agree, and no commit in whose place a newer one is ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

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
    value, low, high = board.scores.sides
    above = ((value > value[row]) & field[:, None]).sum(axis=0)
    best, worst, models = range_of(row, value, low, high, field)
    return [
        Position(board.columns[at], *map(int, (1 + above[at], best[at], worst[at], models[at])))
        for at in places
        if models[at] > 1
    ]


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
