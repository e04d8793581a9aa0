"""What each draw of examples alone scored; a board has their mean."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from leaderboard.models import Result
from leaderboard.snapshot.data import Board, Column


def scores_of_draws(
    board: Board, rows: Sequence[int], columns: Sequence[int]
) -> dict[tuple[int, int], list[float]]:
    """By row and column the score of each draw; without those of one draw, or that lack a result.

    One query, where examples were drawn several times.
    """
    several = [column for column in columns if board.columns[column].draws > 1]
    runs = {(row, column): board.runs_of(row, column) for row in rows for column in several}
    column_of = {run: board.columns[column] for (_, column), of in runs.items() for run in of}
    scores = _scores(column_of) if column_of else {}
    return {
        cell: [scores[run] for run in of]
        for cell, of in runs.items()
        if of and all(run in scores for run in of)
    }


def _scores(column_of: dict[UUID, Column]) -> dict[UUID, float]:
    results = Result.objects.filter(run__in=column_of, subset="")
    return {
        run: value
        for run, task, metric, filter_, value in results.values_list(
            "run_id", "task_name", "metric", "filter", "value"
        )
        if (task, metric, filter_)
        == (column_of[run].task, column_of[run].metric, column_of[run].filter)
    }
