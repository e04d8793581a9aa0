"""Score against size, time or cost: every model of a board, which are best for where they
stand, and, by size, which belong to one family."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaderboard.charts.axis import SIZE, Axis, Machines
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Scores

AVERAGE = "average"
_SIZE = re.compile(r"(?<![A-Za-z0-9.])\d+(?:[._]\d+)?[bmBM](?![A-Za-z0-9])")
"""As names write a model's size: 7B, 0.5b, 410m."""


@dataclass(frozen=True, eq=False)
class Chart:
    """The models that have both a score and a place on the axis, the first first; arrays of shape
    (n,)."""

    axis: Axis

    board: Board
    score: str
    """AVERAGE, or the key of a column."""
    rows: NDArray[np.intp]
    """Of the board."""
    across: NDArray[np.float64]
    """Parameters, seconds since 1970, or what a question takes."""
    scores: Scores
    on_front: NDArray[np.bool_]
    """No other model is as far to the left and better, or farther and as good."""
    families: tuple[tuple[int, ...], ...]
    """By size, places of models of one maker whose names differ by their size alone."""
    left_out: int
    """Models with a score that have no rank for another reason, or no place on the axis."""
    machine: str = ""
    """The kind of machine that all places are from; empty where they are from none."""
    machines: tuple[tuple[str, int], ...] = ()
    """Every kind and how many models have a place from it, most first."""

    @cached_property
    def names(self) -> list[str]:
        repo_ids = self.board.models.values("repo_id")
        return [repo_ids[row] for row in self.rows]

    @cached_property
    def front(self) -> list[int]:
        """Places, from the left."""
        return np.flatnonzero(self.on_front).tolist()


def chart(
    board: Board, score: str, keys: Sequence[str], axis: Axis = SIZE, machine: str = ""
) -> Chart:
    """`score` is AVERAGE or one of `keys`, the names of the board's columns; `machine` the kind to
    compare on, where there are several: by default that of the most models."""
    columns = _behind(board, score, keys)
    scores = board.average if score == AVERAGE else board.scores.column(columns[0])
    models = board.models
    stands = np.array(
        [
            not any(why)
            for why in zip(
                *(models.values(name) for name in axis.lacking),
                strict=True,
            )
        ],
        np.bool_,
    ).reshape(len(models))
    measured = np.isfinite(scores.value)
    across = axis.places(board, columns)
    machines: tuple[tuple[str, int], ...] = ()
    if axis.machines:
        found = axis.machines(board, columns)
        machines = _counted(found, measured & stands & np.isfinite(across))
        machine = machine if machine in dict(machines) else next((m for m, _ in machines), "")
        at = list(found.names).index(machine) if machine else None
        across = np.where(found.of == at, across, np.nan)
    rows = np.flatnonzero(measured & stands & np.isfinite(across))
    # Of those at one place the best first.
    rows = rows[np.lexsort((-scores.value[rows], across[rows]))]
    chosen = scores.rows(rows)
    repo_ids = models.values("repo_id")
    return Chart(
        axis=axis,
        board=board,
        score=score,
        rows=rows,
        across=across[rows],
        scores=chosen,
        on_front=front(across[rows], chosen.value),
        families=families([repo_ids[row] for row in rows], across[rows]) if axis.families else (),
        left_out=int(measured.sum()) - len(rows),
        machine=machine if machines else "",
        machines=machines,
    )


def _behind(board: Board, score: str, keys: Sequence[str]) -> list[int]:
    """The columns that a score is from."""
    if score != AVERAGE:
        return [keys.index(score)]
    return [place for place, column in enumerate(board.columns) if column.counts]


def _counted(found: Machines, drawn: NDArray[np.bool_]) -> tuple[tuple[str, int], ...]:
    counts = [int((drawn & (found.of == at)).sum()) for at in range(len(found.names))]
    kinds = [(name, n) for name, n in zip(found.names, counts, strict=True) if n]
    return tuple(sorted(kinds, key=lambda kind: (-kind[1], kind[0])))


def scores_of(board: Board, keys: Sequence[str]) -> list[str]:
    """What can be drawn: the average and every column of shares."""
    shares = [
        key for key, column in zip(keys, board.columns, strict=True) if is_share(column.metric)
    ]
    return [AVERAGE, *shares]


def front(across: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of models from left to right, at one place the best first: those that none dominates.

    One dominates another that is no better and not to its left, unless both are equal in both.
    """
    found = np.zeros(len(across), np.bool_)
    best, at = -np.inf, np.nan
    for place, (one, score) in enumerate(zip(across, value, strict=True)):
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
