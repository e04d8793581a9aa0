"""Does a benchmark order the models as the rest of its suite does?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evalcore.stats import kendall_interval
from leaderboard.models import SuiteEntry
from leaderboard.snapshot import published
from leaderboard.snapshot.data import OWN, Board
from leaderboard.units import is_share

SEED = 0
FEWEST, MOST = 10, 1_000
"""Models: with fewer the interval says nothing, of more so many are drawn."""


@dataclass(frozen=True)
class Agreement:
    """Kendall's τ_b of a column with the mean of its suite's other columns, over models."""

    suite: str
    version: str
    style: str
    tau: float
    low: float
    high: float
    """95 %, had other models been measured (docs/method.md)."""
    models: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def agreements(comparability_key: str) -> list[Agreement]:
    """One for each suite that counts this column and has a board of enough models."""
    entries = SuiteEntry.objects.filter(comparability_key=comparability_key, draw=0)
    found = []
    for entry in entries.select_related("suite").order_by("-suite__created", "suite_id"):
        board = published.newest(entry.suite, OWN if entry.own else entry.style)
        if board and (agreement := _agreement(board, comparability_key)):
            found.append(agreement)
    return found


def _agreement(board: Board, key: str) -> Agreement | None:
    column = next((c for c, one in enumerate(board.columns) if one.comparability_key == key), None)
    others = [
        place
        for place, one in enumerate(board.columns)
        if one.counts and place != column and is_share(one.metric)
    ]
    if column is None or not others:
        return None
    scores = board.normalised.value if board.by_chance else board.scores.value
    rows = np.flatnonzero(board.ranks.rank > 0)
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST, replace=False))
    if len(rows) < FEWEST:
        return None
    sign = 1.0 if is_share(board.columns[column].metric) else -1.0
    try:
        found = kendall_interval(sign * scores[rows, column], scores[rows][:, others].mean(axis=1))
    except ValueError:  # models that are all equal, or all but one, have no order
        return None
    about = (board.suite, board.version, board.style)
    return Agreement(*about, found.value, found.low, found.high, len(rows))
