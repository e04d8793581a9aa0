"""Who is compared: models on a suite with all its columns, or runs of one benchmark.

Either comes with why a number is missing, or why two of them cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np

from evalcore.stats import Interval
from leaderboard.compare.lineup import Lineup, Number, Side, Task, named
from leaderboard.models import Result, Run, SuiteEntry
from leaderboard.models.task import Style, is_share
from leaderboard.models.variant import way_of
from leaderboard.snapshot import EVERY, Board, Column, Model, Score, Standing

NO_CHANCES: Mapping[str, float] = {}


class _Stored(NamedTuple):
    pk: int
    higher_is_better: bool


_Key = tuple[UUID, str, str, str]
"""Run, task, metric and filter of a number."""


def lineup(board: Board, keys: Sequence[str], rows: Sequence[int]) -> Lineup:
    """These rows of a board with all its columns; `keys` are what addresses call the columns."""
    places = range(len(board.columns))
    runs = {(row, place): board.runs_of(row, place) for row in rows for place in places}
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
        way=way_of(model),
        flag_reason=model.flag_reason,
    )


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
        results=tuple(result.pk for result in found if result) if None not in found else (),
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


def lineup_of_runs(runs: Sequence[Run], base: int) -> Lineup:
    """Finished runs of one benchmark, of which `base` is what the others are compared with.

    `runs` come with their task, their variant and its model.
    """
    first = runs[base]
    title, metric, filter_ = _shown_metric(first)
    rows = Result.objects.filter(
        run__in=runs, subset="", task_name__in={run.task.name for run in runs}, metric=metric
    ).order_by("pk")
    results = {(row.run_id, row.task_name): row for row in rows if row.filter == filter_}
    found = [results.get((run.pk, run.task.name)) for run in runs]
    of_base = found[base]
    task = Task(
        key=first.task.benchmark,
        benchmark=first.task.benchmark,
        title=title,
        style=first.task.style,
        name=first.task.name,
        metric=metric,
        filter=filter_,
        shots=first.shots,
        n=of_base.n if of_base else None,
        numbers=tuple(_number_of_result(result) if result else None for result in found),
        why=tuple(
            _why_apart(run, result, first, metric) for run, result in zip(runs, found, strict=True)
        ),
        higher_is_better=of_base.higher_is_better if of_base else True,
    )
    return Lineup(sides=named([_side_of_run(run) for run in runs]), tasks=(task,), averaged=False)


def _shown_metric(run: Run) -> tuple[str, str, str]:
    """Title, metric and filter under which the newest suite with this run's task shows it."""
    entries = SuiteEntry.objects.filter(task__benchmark=run.task.benchmark)
    entry = (
        entries.filter(SuiteEntry.asking(run.run_key)).order_by("-suite__created").first()
        or entries.filter(task=run.task).order_by("-suite__created").first()
    )
    if entry:
        return entry.title, entry.metric, entry.filter
    own = run.results.filter(subset="", task_name=run.task.name, metric=run.task.primary_metric)
    filter_ = own.order_by("pk").values_list("filter", flat=True).first()
    return run.task.benchmark, run.task.primary_metric, filter_ or "none"


def _side_of_run(run: Run) -> Side:
    variant = run.variant
    shots = "1 shot" if run.shots == 1 else f"{run.shots} shots"
    return Side(
        letter="",
        key=str(run.pk),
        repo_id=variant.hub_model.repo_id,
        commit=variant.commit,
        dtype=variant.dtype,
        quantisation=variant.quantisation,
        way=variant.way,
        flag_reason=variant.hub_model.flag_reason,
        asked=f"{Style(run.task.style).label}, {shots}",
    )


def _number_of_result(result: Result) -> Number:
    score = Score(result.value, result.low, result.high, result.n)
    return Number(score=score, results=(result.pk,), runs=(result.run_id,))


def _why_apart(run: Run, result: Result | None, base: Run, metric: str) -> str:
    """Why this run's number has no difference to the baseline's; empty where it has one."""
    if result is None:
        return f"no result for {metric}"
    if run.task.style != base.task.style:
        own, other = Style(run.task.style).label, Style(base.task.style).label
        return f"asked in another style: {own}, the baseline {other}"
    if run.docs_digest != base.docs_digest:
        return f"other questions than the baseline’s (n = {result.n:,})"
    return ""
