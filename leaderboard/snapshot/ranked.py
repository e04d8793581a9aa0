"""The ranks of a board, and of an earlier one's what is still so.

A board that is built after one run has ended ranks nearly the models of before. What follows from
models of which nothing changed is taken over, to the last bit what would be found anew: draws are
the same for every window of models (`leaderboard.stats.board_ranges`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaderboard.snapshot.columns import ColumnCells
from leaderboard.snapshot.data import Board, Flags, Ranks
from leaderboard.snapshot.ranking import RULE, keys_of, parts_of, rank
from leaderboard.stats import Earlier

Rows = NDArray[np.int64]


def ranked(board: Board, columns: Sequence[ColumnCells], earlier: Board | None) -> Board:
    """With its ranks."""
    rows = _may_rank(board)
    variants = board.models.take(rows).values("variant")
    parts = parts_of(columns, variants, by_chance=board.by_chance)
    by_question = tuple(part.by_question for part in parts) if len(rows) > 1 else ()
    past = _past(board, rows, by_question, earlier)
    if past and past.all:
        ranks = past.board.ranks.rows(past.rows)
    else:
        known = past.claims if past else None
        ranks = rank(parts, board.average.value[rows], _keys(board, rows), known)
    return replace(
        board,
        ranks=Ranks.none(len(board.models)).having(rows, ranks),
        by_question=by_question,
        rank_rule=RULE,
    )


def _may_rank(board: Board) -> Rows:
    """The rows that have a rank."""
    models = board.models[: board.averaged]
    reasons = (models.values(name) for name in ("flag_reason", "superseded_by", "apart"))
    free = [not any(of_model) for of_model in zip(*reasons, strict=True)]
    return np.flatnonzero(np.array(free, np.bool_))


@dataclass(frozen=True)
class _Past:
    """An earlier board whose ranks were made of the same columns in the same way."""

    board: Board
    rows: Rows
    """Its ranked ones."""
    place: NDArray[np.intp]
    """Shape (ranked now,): among them the place of each, counted from 0; -1 for one that was not
    there, or with other runs or scores."""

    @property
    def claims(self) -> Earlier:
        return Earlier(self.board.ranks.claims, _keys(self.board, self.rows), self.place)

    @property
    def all(self) -> bool:
        """Whether all are what and where they were."""
        here = np.arange(len(self.place))
        return len(self.rows) == len(self.place) and bool((self.place == here).all())


def _past(
    board: Board, rows: Rows, by_question: tuple[bool, ...], earlier: Board | None
) -> _Past | None:
    """None where all is to be found anew; files of before `by_question` was noted lack it."""
    if (
        earlier is None
        or not by_question
        or earlier.rank_rule != RULE
        or earlier.by_question != by_question
        or earlier.columns != board.columns
        or earlier.normalisation != board.normalisation
    ):
        return None
    before = np.flatnonzero(earlier.ranks.rank > 0)
    place_of = {v: n for n, v in enumerate(earlier.models.take(before).values("variant"))}
    variants = board.models.take(rows).values("variant")
    place = np.array([place_of.get(variant, -1) for variant in variants], np.intp)
    there = np.flatnonzero(place >= 0)
    same = _unchanged(board, rows[there], earlier, before[place[there]])
    place[there[~same]] = -1
    return _Past(earlier, before, place)


def _keys(board: Board, rows: Rows) -> NDArray[np.uint64]:
    return keys_of(board.models.take(rows))


def _unchanged(board: Board, rows: Rows, earlier: Board, before: Rows) -> Flags:
    """Of each of these rows whether it has the runs and numbers of the same variant before."""
    counted = [place for place, column in enumerate(board.columns) if column.counts]
    same: Flags = board.average.value[rows] == earlier.average.value[before]
    same &= (board.run[rows][:, counted] == earlier.run[before][:, counted]).all(axis=1)
    for new, old in (
        *zip(board.scores.sides, earlier.scores.sides, strict=True),
        (board.sd_of_draws, earlier.sd_of_draws),
    ):
        same &= (new[rows][:, counted] == old[before][:, counted]).all(axis=1)
    for column in counted:
        if board.columns[column].draws > 1:
            runs = [
                board.other_draws.get((row, column)) == earlier.other_draws.get((of_then, column))
                for row, of_then in zip(rows.tolist(), before.tolist(), strict=True)
            ]
            same &= np.array(runs, np.bool_)
    return same
