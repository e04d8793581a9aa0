"""Which benchmarks of a board put models in a like order: every two of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import isnan

import numpy as np

from leaderboard.board import Wanted, chosen_board
from leaderboard.catalogue import suite_asked_for
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Column
from leaderboard.stats import Correlations, order_of_likeness, rank_correlations

MOST = 1_000
"""Of more models so many are drawn."""
SEED = 0
KEPT = 8


@dataclass(frozen=True)
class Pair:
    """Two columns, the higher up on the picture first."""

    first: int
    second: int
    """Places in `Agreement.columns`."""
    rho: float
    low: float
    high: float
    """NaN where there are too few models, or no order."""
    n: int


@dataclass(frozen=True, eq=False)
class Agreement:
    board: Board
    columns: tuple[Column, ...]
    """In the order of the picture: those that agree stand together."""
    pairs: tuple[Pair, ...]
    """Every two, first by first; see `by_agreement`."""
    drawn: int
    """Models that were looked at."""
    of: int
    """Models that could have been."""

    @property
    def known(self) -> list[Pair]:
        return [pair for pair in self.pairs if not isnan(pair.rho)]

    @property
    def by_agreement(self) -> list[Pair]:
        """Those that agree most first; unknown ones last."""
        return sorted(self.pairs, key=lambda pair: (isnan(pair.rho), -pair.rho))


def agreement_of(suite_name: str) -> Agreement | None:
    """None where no board was built yet."""
    suite = suite_asked_for(suite_name)
    board = chosen_board(suite, Wanted(suite=suite_name)) if suite else None
    return agreement(board) if board else None


@lru_cache(maxsize=KEPT)
def agreement(board: Board) -> Agreement:
    """Once for each board: sixty columns take a tenth of a second."""
    rows = board.comparable_rows
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST, replace=False))
    # Of perplexities and their like less is better.
    sign = np.array([1.0 if is_share(column.metric) else -1.0 for column in board.columns])
    found = rank_correlations(board.scores.value[rows] * sign)
    order = order_of_likeness(found.rho)
    return Agreement(
        board=board,
        columns=tuple(board.columns[place] for place in order),
        pairs=tuple(_pairs(found, order)),
        drawn=len(rows),
        of=len(board.comparable_rows),
    )


def _pairs(found: Correlations, order: list[int]) -> Iterator[Pair]:
    for first, second in combinations(range(len(order)), 2):
        at = order[first], order[second]
        rho, low, high = (float(side[at]) for side in (found.rho, found.low, found.high))
        yield Pair(first, second, rho, low, high, int(found.n[at]))
