"""Models on a suite, as its board has them: every column that it shows, and why a cell is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np

from evalcore.stats import Interval
from leaderboard.compare.lineup import Lineup, Number, Side, Task, named
from leaderboard.models import Result, SuiteEntry
from leaderboard.snapshot.data import EVERY, Board, Column, Standing
from leaderboard.snapshot.models import Model
from leaderboard.units import is_share

NO_CHANCES: Mapping[str, float] = {}


class _Stored(NamedTuple):
    pk: int
    higher_is_better: bool


_Key = tuple[UUID, str, str, str]
"""Run, task, metric and filter of a number."""


def lineup(board: Board, keys: Sequence[str], rows: Sequence[int]) -> Lineup:
    """These rows of a board with all its columns; `keys` are what addresses call the columns."""
    places = range(len(board.columns))
    runs = {(row, place): _runs(board, row, place) for row in rows for place in places}
    stored = _stored([run for of_cell in runs.values() for run in of_cell])
    counted = [column for column in board.columns if column.counts] if board.style != EVERY else []
    part_chances = _part_chances(board) if board.by_chance else {}
    tasks = []
    for place, column in enumerate(board.columns):
        numbers = tuple(_number(board, row, place, runs[row, place], stored) for row in rows)
        directions = [
            stored[key].higher_is_better
            for row in rows
            for run in runs[row, place]
            if (key := _key(run, column)) in stored
        ]
        by_chance = board.by_chance and is_share(column.metric)
        tasks.append(
            Task(
                key=keys[place],
                benchmark=column.benchmark,
                title=column.title,
                style=column.style,
                name=column.task,
                metric=column.metric,
                filter=column.filter,
                shots=column.shots,
                n=column.n,
                numbers=numbers,
                why=tuple(_why(board, row, place) for row in rows),
                higher_is_better=all(directions),
                weight=1 / len(counted) if column in counted else 0.0,
                chance=(column.chance or 0.0) if by_chance else 0.0,
                part_chances=part_chances.get((column.benchmark, column.style), NO_CHANCES),
            )
        )
    sides = named([_side(board.models[row]) for row in rows])
    return Lineup(sides=sides, tasks=tuple(tasks), averaged=bool(counted))


def _side(model: Model) -> Side:
    return Side(
        letter="",
        key=str(model.variant),
        repo_id=model.repo_id,
        commit=model.commit,
        dtype=model.dtype,
        quantisation=model.quantisation,
        flag_reason=model.flag_reason,
    )


def _runs(board: Board, row: int, place: int) -> tuple[UUID, ...]:
    """The runs behind a number, that of the first draw of examples first."""
    run = board.run_id(row, place)
    if run is None or board.standing_of(row, place) is not Standing.SCORED:
        return ()
    return (run, *board.other_draws.get((row, place), ()))


def _key(run: UUID, column: Column) -> _Key:
    return run, column.task, column.metric, column.filter


def _stored(runs: Sequence[UUID]) -> dict[_Key, _Stored]:
    rows = Result.objects.filter(run_id__in=runs, subset="").values_list(
        "run_id", "task_name", "metric", "filter", "pk", "higher_is_better"
    )
    return {
        (run, task, metric, filter_): _Stored(pk, direction)
        for run, task, metric, filter_, pk, direction in rows
    }


def _number(
    board: Board,
    row: int,
    place: int,
    runs: tuple[UUID, ...],
    stored: Mapping[_Key, _Stored],
) -> Number | None:
    score, column = board.score(row, place), board.columns[place]
    found = [stored.get(_key(run, column)) for run in runs]
    if score is None or not found:
        return None
    return Number(
        score=score,
        # A result that was removed since the board was built leaves the number without questions.
        results=tuple(one.pk for one in found if one) if None not in found else (),
        runs=runs,
        normalised=_averaged(board, row, place),
    )


def _averaged(board: Board, row: int, place: int) -> Interval | None:
    """The cell as it enters the suite's average."""
    scores = board.normalised if board.by_chance else board.scores
    low, value, high = (float(a[row, place]) for a in (scores.low, scores.value, scores.high))
    return None if np.isnan(value) else Interval(low, value, high)


def _why(board: Board, row: int, place: int) -> str:
    standing = board.standing_of(row, place)
    if standing is Standing.SCORED:
        return ""
    reason = board.why.get((row, place), "")
    return f"{standing}: {reason}" if reason else str(standing)


def _part_chances(board: Board) -> dict[tuple[str, str], Mapping[str, float]]:
    """By benchmark and style what guessing gives on each part, where parts differ in it."""
    rows = SuiteEntry.objects.filter(
        suite__name=board.suite, suite__version=board.version, draw=0
    ).values_list("benchmark", "style", "part_chances")
    return {(benchmark, style): chances for benchmark, style, chances in rows if chances}
