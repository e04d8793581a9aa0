"""A benchmark in every style: all of a model's scores on it, with each draw of examples alone.

A model is asked a benchmark in several styles, and a suite may draw the examples of a prompt
several times; a board has the mean over draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leaderboard.models import Result
from leaderboard.snapshot.data import Board, Column, Flags, Floats, Score

AT_ONCE = 500
"""Models of a file that are read together."""


class StyleScore(NamedTuple):
    """A model's number in one style."""

    row: int
    style: int
    """Place in `Spread.columns`."""
    score: Score
    draws: list[float]
    """What each draw of examples scored; empty where there is one, or one lacks its result."""


@dataclass(frozen=True, eq=False)
class Spread:
    """One benchmark of the board of every style, over chosen models that are ranked with each
    other."""

    board: Board
    places: list[int]
    """Of its styles among the board's columns: the suite's own first."""
    chosen: Flags

    @classmethod
    def of(cls, board: Board, benchmark: str, chosen: Flags) -> Spread:
        """In the styles that share a metric with the suite's own: others have another scale."""
        places = [at for at, column in enumerate(board.columns) if column.benchmark == benchmark]
        places.sort(key=lambda at: not board.columns[at].own)
        metric = board.columns[places[0]].metric
        return cls(board, [at for at in places if board.columns[at].metric == metric], chosen)

    @cached_property
    def columns(self) -> list[Column]:
        return [self.board.columns[place] for place in self.places]

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Of the board, those with a number: by the mean over what each has, the best first."""
        rows = self.board.comparable_rows[self.chosen[self.board.comparable_rows]]
        values = self.board.scores.value[rows][:, self.places]
        known = ~np.isnan(values).all(axis=1)
        return rows[known][np.argsort(-np.nanmean(values[known], axis=1), kind="stable")]

    @property
    def values(self) -> Floats:
        """Of these rows, shape (models, styles); NaN for none."""
        return self.board.scores.value[self.rows][:, self.places]

    def scores(self, rows: Sequence[int]) -> list[StyleScore]:
        """Row by row and style by style; one query, where examples were drawn several times."""
        found = [
            (row, style, score, self.board.runs_of(row, place))
            for row in rows
            for style, place in enumerate(self.places)
            if (score := self.board.score(row, place))
        ]
        several = [(style, runs) for _, style, _, runs in found if self.columns[style].draws > 1]
        draws = self._draws({run: self.columns[style] for style, runs in several for run in runs})
        return [
            StyleScore(row, style, score, [draws[run] for run in runs] if draws.keys() >= {*runs}
                       and self.columns[style].draws > 1 else [])
            for row, style, score, runs in found
        ]  # fmt: skip

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As a table, in full precision: a row for each score."""
        for start in range(0, max(len(self.rows), 1), AT_ONCE):
            scores = self.scores(self.rows[start : start + AT_ONCE].tolist())
            models = [self.board.models[one.row] for one in scores]
            columns = [self.columns[one.style] for one in scores]
            bounds = {name: pa.array([getattr(one.score, name) for one in scores], pa.float64())
                      for name in ("value", "low", "high")}  # fmt: skip
            yield pa.RecordBatch.from_pydict(
                {
                    "model": [model.repo_id for model in models],
                    "commit": [model.commit for model in models],
                    "precision": [model.dtype for model in models],
                    "style": [column.style for column in columns],
                    "task": [column.task for column in columns],
                    **bounds,
                    # A list is no value of a CSV file.
                    "draws": [" ".join(map(repr, one.draws)) for one in scores],
                }
            )

    def _draws(self, column_of: dict[UUID, Column]) -> dict[UUID, float]:
        """What each of these runs scored."""
        if not column_of:
            return {}
        results = Result.objects.filter(run__in=column_of, subset="").values_list(
            "run_id", "task_name", "metric", "filter", "value"
        )
        return {
            run: value
            for run, *number, value in results
            if number == [column_of[run].task, column_of[run].metric, column_of[run].filter]
        }
