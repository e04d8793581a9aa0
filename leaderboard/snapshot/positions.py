"""Where each model stands in the field: on each benchmark its rank among all models of the board.

The field of a benchmark are the models with a score on it that the board may rank: not flagged,
not computed by what was not shown to agree, and no commit in whose place a newer one is ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

from leaderboard.snapshot.data import Board, Flags, Ints
from leaderboard.stats import ranges_of

LACKING = ("flag_reason", "apart", "superseded_by")
"""Each of these, where it is not empty, keeps a model from every rank."""


@dataclass(frozen=True, eq=False)
class Positions:
    """Ranks with the ranges that are not excluded, shape (rows, columns); 0 for none."""

    rank: Ints
    low: Ints
    high: Ints
    models: Ints
    """Models with a score, shape (columns,)."""


_members: WeakKeyDictionary[Board, Flags] = WeakKeyDictionary()
_positions: WeakKeyDictionary[Board, Positions] = WeakKeyDictionary()
"""Both are kept as long as the board itself is; one whose scores were changed is another board."""


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


def of_board(board: Board) -> Positions:
    """Of 10,000 models on 60 columns found in a fifth of a second, unless they are known."""
    if board not in _positions:
        _positions[board] = Positions(*ranges_of(*board.scores.sides, members(board)))
    return _positions[board]


def know(board: Board, found: Positions) -> None:
    """Take these for the board's, as they were found for it before."""
    _positions[board] = found
