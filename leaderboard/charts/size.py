"""Score against size: every model of a board by its parameters, which are best for their size, and
which belong to one family."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Scores

AVERAGE = "average"
_SIZE = re.compile(r"(?<![A-Za-z0-9.])\d+(?:[._]\d+)?[bmBM](?![A-Za-z0-9])")
"""As names write a model's size: 7B, 0.5b, 410m."""


@dataclass(frozen=True, eq=False)
class SizeChart:
    """The models that have both a score and a size, the smallest first; arrays of shape (n,)."""

    board: Board
    score: str
    """AVERAGE, or the key of a column."""
    rows: NDArray[np.intp]
    """Of the board."""
    parameters: NDArray[np.float64]
    scores: Scores
    on_front: NDArray[np.bool_]
    """No other model is as small and better, or smaller and as good."""
    families: tuple[tuple[int, ...], ...]
    """Places of models of one maker whose names differ by their size alone."""
    left_out: int
    """Models with a score that are flagged, superseded, not shown to be computed alike, or of
    unknown size."""

    @cached_property
    def names(self) -> list[str]:
        repo_ids = self.board.models.values("repo_id")
        return [repo_ids[row] for row in self.rows]

    @cached_property
    def front(self) -> list[int]:
        """Places, the smallest model first."""
        return np.flatnonzero(self.on_front).tolist()


def size_chart(board: Board, score: str, keys: Sequence[str]) -> SizeChart:
    """`score` is AVERAGE or one of `keys`, the names of the board's columns."""
    scores = board.average if score == AVERAGE else board.scores.column(keys.index(score))
    models = board.models
    size = np.array(models.values("parameters"), np.float64)
    stands = np.array(
        [
            not any(why)
            for why in zip(
                *(models.values(name) for name in ("flag_reason", "superseded_by", "apart")),
                strict=True,
            )
        ],
        np.bool_,
    ).reshape(len(models))
    measured = np.isfinite(scores.value)
    rows = np.flatnonzero(measured & stands & (size > 0))
    # Of equal size the best first; then names, so that the order never depends on the board's.
    rows = rows[np.lexsort((-scores.value[rows], size[rows]))]
    chosen = scores.rows(rows)
    repo_ids = models.values("repo_id")
    return SizeChart(
        board=board,
        score=score,
        rows=rows,
        parameters=size[rows],
        scores=chosen,
        on_front=front(size[rows], chosen.value),
        families=families([repo_ids[row] for row in rows], size[rows]),
        left_out=int(measured.sum()) - len(rows),
    )


def scores_of(board: Board, keys: Sequence[str]) -> list[str]:
    """What can be drawn: the average and every column of shares."""
    shares = [
        key for key, column in zip(keys, board.columns, strict=True) if is_share(column.metric)
    ]
    return [AVERAGE, *shares]


def front(size: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of models in order of size, of equal size the best first: those that none dominates.

    One dominates another that is no smaller and no better, unless both are equal in both.
    """
    found = np.zeros(len(size), np.bool_)
    best, at = -np.inf, np.nan
    for place, (one, score) in enumerate(zip(size, value, strict=True)):
        if score > best or (score == best and one == at):
            found[place], best, at = True, score, one
    return found


def families(names: Sequence[str], size: NDArray[np.float64]) -> tuple[tuple[int, ...], ...]:
    """Places of models whose names differ by their size alone, of two sizes at least."""
    by_stem: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        stem, sizes = _SIZE.subn("*", name)
        if sizes == 1:
            by_stem.setdefault(stem.lower(), []).append(place)
    return tuple(tuple(places) for places in by_stem.values() if len(set(size[places])) > 1)
