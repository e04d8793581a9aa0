"""Which models of a board are the best for their size, for what they take, or when they came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.models.variant import family_of
from leaderboard.snapshot import table_file
from leaderboard.snapshot.costs import MEASURES
from leaderboard.snapshot.data import Board, Flags, Floats, Scores
from leaderboard.stats import front

SIZE, TIME = "size", "time"
TOKENS, SECONDS = MEASURES[:2]


@dataclass(frozen=True, eq=False, kw_only=True)
class Front:
    """The models that have a score and a place, from the left, at one place the best first; arrays
    of shape (n,)."""

    board: Board
    axis: str
    """SIZE, TIME, TOKENS or SECONDS."""
    rows: NDArray[np.intp]
    """Of the board."""
    across: Floats
    """Parameters, seconds since 1970, or what a question takes."""
    scores: Scores
    left_out: int
    """Models with a score, but no place or no rank with the others."""
    machines: Mapping[str, int]
    """Of seconds every kind of machine and how many models have a place from it, most first."""
    machine: str
    """The kind that all places are from; empty where that does not matter."""

    @classmethod
    def of(
        cls, board: Board, axis: str, column: int | None, chosen: Flags, machine: str = ""
    ) -> Self:
        """Of the `chosen` models, by their score in a column or by the suite's average.

        Seconds depend on the machine, so that models on one kind are compared: on `machine`, or
        else on the kind with the most models.
        """
        columns = [at for at, one in enumerate(board.columns) if one.counts]
        scores = board.average
        if column is not None:
            columns, scores = [column], board.scores.column(column)
        # What a newer commit took the place of was there before it.
        reasons = ("flag_reason", "apart", *(("superseded_by",) if axis != TIME else ()))
        lacking = zip(*(board.models.values(reason) for reason in reasons), strict=True)
        free = np.fromiter((not any(model) for model in lacking), np.bool_, len(board.models))
        measured, across = np.isfinite(scores.value) & chosen, _across(board, axis, columns)
        stands, machines = measured & free & (across > 0), {}
        if axis == SECONDS and board.costs is not None and columns:
            kind, known = board.costs.machine_of(axis, columns), board.costs.kinds
            drawn = kind[stands & (kind >= 0)].tolist()
            machines = dict(Counter(sorted(known[at] for at in drawn)).most_common())
            machine = machine if machine in machines else next(iter(machines), "")
            stands &= kind == (known.index(machine) if machine else None)
        rows = np.flatnonzero(stands)
        rows = rows[np.lexsort((-scores.value[rows], across[rows]))]
        return cls(
            board=board,
            axis=axis,
            rows=rows,
            across=across[rows],
            scores=scores.rows(rows),
            left_out=int(measured.sum()) - len(rows),
            machines=machines,
            machine=machine if machines else "",
        )

    @cached_property
    def best(self) -> Flags:
        """Those that no other dominates: none is as far to the left and better."""
        return front(self.across, self.scores.value)

    @cached_property
    def families(self) -> list[str]:
        models = self.board.models.take(self.rows)
        names = zip(models.values("base_model"), models.values("repo_id"), strict=True)
        return [family_of(base or name) for base, name in names]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As a table, in full precision."""
        cost = {self.axis: pa.array(self.across)} if self.axis in MEASURES else {}
        yield pa.RecordBatch.from_pydict(
            {
                **table_file.of_models(self.board.models.take(self.rows)),
                **cost,
                **table_file.bounds("value", "", self.scores),
                "on_front": pa.array(self.best),
                "family": pa.array(self.families, pa.string()),
            }
        )


def _across(board: Board, axis: str, columns: Sequence[int]) -> Floats:
    """Of each model its place, for a score from these columns; NaN or 0 where it is not known."""
    if axis == SIZE:
        return np.array(board.models.values("parameters"), np.float64)
    if axis == TIME:
        return np.array([day.timestamp() for day in board.models.values("added")], np.float64)
    if board.costs is None or not columns:
        return np.zeros(len(board.models))
    return board.costs.of_a_question(axis, columns, board.n)
