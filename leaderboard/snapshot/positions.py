"""Where each model stands in the field: on each benchmark its rank among all models of the board.

The field of a benchmark are the models with a score on it that the board may rank: not flagged,
not computed by what was not shown to agree, and no commit in whose place a newer one is ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from leaderboard.models.task import is_share
from leaderboard.snapshot.data import Board, Ints
from leaderboard.stats import ranges_of

HEAT_BOUNDS = (0.04, 0.07, 0.11, 0.16)
"""Fractions behind the best of a column at which a cell's shade becomes one step lighter."""
NOT_TOLD_APART = 5
"""The darkest shade: of scores that were not told apart from the best."""

Shades = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Positions:
    """Ranks with the ranges that are not excluded, shape (rows, columns); 0 for none."""

    rank: Ints
    low: Ints
    high: Ints
    models: Ints
    """Models with a score, shape (columns,)."""


_positions: WeakKeyDictionary[Board, Positions] = WeakKeyDictionary()
_heat: WeakKeyDictionary[Board, Shades] = WeakKeyDictionary()
"""Each is kept as long as the board itself is; one whose scores were changed is another board."""


def of_board(board: Board) -> Positions:
    """Of 10,000 models on 60 columns found in a fifth of a second, unless they are known."""
    if board not in _positions:
        _positions[board] = Positions(*ranges_of(*board.scores.sides, board.comparable))
    return _positions[board]


def know(board: Board, found: Positions) -> None:
    """Take these for the board's, as they were found for it before."""
    _positions[board] = found


def heat_of(board: Board) -> Shades:
    """How near each score is to the best of its column, shape (rows, columns).

    NOT_TOLD_APART, then 4 to 1 by the distance in points, then 0; 0 as well where there is no score
    and in columns whose numbers are no shares. The best is that of the whole column.
    """
    if board not in _heat:
        _heat[board] = _shades(board)
    return _heat[board]


def _shades(board: Board) -> Shades:
    value, field = board.scores.value, board.comparable
    best = np.fmax.reduce(value[field], axis=0, initial=np.nan)
    with np.errstate(invalid="ignore"):
        shades: Shades = (4 - np.digitize(best - value, HEAT_BOUNDS)).astype(np.int8)
    shades[of_board(board).low == 1] = NOT_TOLD_APART
    shades[np.isnan(value) | np.isnan(best)] = 0
    shades[:, [not is_share(column.metric) for column in board.columns]] = 0
    return shades
