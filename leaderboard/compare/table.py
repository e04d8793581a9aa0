"""The table that a comparison is made from: who is compared, on which tasks, with which numbers.

Two ways lead to it: models on a suite's board, and runs of one benchmark. What follows from it is
in `differences.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np

from evalcore.stats import Interval
from leaderboard.board import column_keys
from leaderboard.models import Artifact, Result, Run, SuiteEntry
from leaderboard.models.task import Style, is_share
from leaderboard.models.variant import way_of
from leaderboard.samples import Vector, by_result
from leaderboard.snapshot import EVERY, Board, Column, Score, Standing

LETTERS = "ABCDEF"
MOST_MODELS = len(LETTERS)
"""Models on one page."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the models, or runs, that are compared."""

    key: str
    """As the address calls it: the number of a variant, or a run."""
    repo_id: str
    commit: str
    dtype: str
    quantisation: str
    way: str = ""
    """What sets it apart from a whole model that is asked in plain text."""
    flag_reason: str = ""
    asked: str = ""
    """Of a run: its task, style and shots."""
    score: Score | None = None
    """The suite's average; of a run its only score."""
    rank: int = 0
    """0 for none."""
    rank_range: str = ""
    letter: str = ""
    name: str = ""
    """The model's name, with what tells it from others of that name on the page."""

    @property
    def number(self) -> int:
        """From 1, as its colour has it."""
        return LETTERS.index(self.letter) + 1

    @property
    def remarks(self) -> list[str]:
        return [words for words in (self.way, self.asked) if words]

    @property
    def owner(self) -> str:
        return self.repo_id.rpartition("/")[0]

    @property
    def model(self) -> str:
        return self.repo_id.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Number:
    """What one side scored on one task."""

    score: Score
    results: tuple[int, ...]
    """Primary keys, one for each draw of examples."""
    runs: tuple[UUID, ...]
    normalised: Interval | None = None
    """As it enters the suite's average: from chance, where that is of such scores."""
    style: str = ""
    """Of a run, whose style and questions may be others than another run's; empty on a board,
    where a column has one of each."""
    docs_digest: str = ""

    @property
    def run(self) -> UUID:
        return self.runs[0]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One benchmark in one style, with every side's number."""

    key: str
    """As addresses call it."""
    benchmark: str
    title: str
    style: str
    name: str
    metric: str
    filter: str
    shots: int
    n: int | None
    numbers: tuple[Number | None, ...]
    """By side."""
    why: tuple[str, ...]
    """By side why it has no number; else empty."""
    higher_is_better: bool = True
    weight: float = 0.0
    """Its share of the average; 0 where it does not count."""
    chance: float = 0.0
    """What the average takes as zero; 0 where it takes scores as they are."""
    part_chances: Mapping[str, float] = field(default_factory=dict)
    """The same by leaf task, where they differ."""

    @property
    def sides(self) -> Iterator[tuple[Number | None, str]]:
        """By side its number, or why it has none."""
        return zip(self.numbers, self.why, strict=True)

    @property
    def drawn_to_scale(self) -> bool:
        """Whether its scores are percent, more being better, and so fit on a common scale."""
        return is_share(self.metric) and self.higher_is_better


@dataclass(frozen=True, kw_only=True)
class Lineup:
    """Everything that is compared on a page."""

    sides: tuple[Side, ...]
    tasks: tuple[Task, ...]
    averaged: bool
    """Whether there is an average over the tasks that count."""

    @property
    def numbers(self) -> list[Number]:
        return [number for task in self.tasks for number in task.numbers if number]

    @property
    def metric(self) -> str:
        """Of the sides' scores: a share for averages, of a single task its own."""
        return self.tasks[0].metric if len(self.tasks) == 1 else "acc"

    def task(self, key: str) -> Task | None:
        return next((task for task in self.tasks if task.key == key), None)


def vectors_of(tasks: Sequence[Task]) -> dict[int, Vector]:
    """By primary key the scores by question of each result behind these tasks' numbers."""
    return by_result(
        [pk for task in tasks for number in task.numbers if number for pk in number.results]
    )


def stored_files(runs: Iterable[UUID], kind: Artifact.Kind) -> dict[UUID, str]:
    """By run the digest of its file of this kind."""
    files = Artifact.objects.filter(run__in=list(runs), kind=kind)
    return dict(files.values_list("run_id", "sha256"))


# Models on a board

_ResultKey = tuple[UUID, str, str, str]
"""Run, task, metric and filter of a number."""


def lineup_of_models(board: Board, rows: Sequence[int]) -> Lineup:
    """These rows of a board with all its columns."""
    places = range(len(board.columns))
    runs = {(row, place): board.runs_of(row, place) for row in rows for place in places}
    stored = _stored_results([run for of_cell in runs.values() for run in of_cell])
    counted = [column for column in board.columns if column.counts] if board.style != EVERY else []
    part_chances = _part_chances(board) if board.by_chance else {}
    tasks = []
    for key, place, column in zip(column_keys(board), places, board.columns, strict=True):
        results = [
            tuple(stored.get(_result_key(run, column)) for run in runs[row, place]) for row in rows
        ]
        by_chance = board.by_chance and is_share(column.metric)
        tasks.append(
            Task(
                key=key,
                benchmark=column.benchmark,
                title=column.title,
                style=column.style,
                name=column.task,
                metric=column.metric,
                filter=column.filter,
                shots=column.shots,
                n=column.n,
                numbers=tuple(
                    _number(board, row, place, runs[row, place], of_row)
                    for row, of_row in zip(rows, results, strict=True)
                ),
                why=tuple(_why_missing(board, row, place) for row in rows),
                higher_is_better=all(
                    result.higher_is_better for of_row in results for result in of_row if result
                ),
                weight=1 / len(counted) if column in counted else 0.0,
                chance=(column.chance or 0.0) if by_chance else 0.0,
                part_chances=part_chances.get((column.benchmark, column.style), {}),
            )
        )
    sides = named([_side_of_row(board, row) for row in rows])
    return Lineup(sides=sides, tasks=tuple(tasks), averaged=bool(counted))


def _side_of_row(board: Board, row: int) -> Side:
    model, rank = board.models[row], int(board.ranks.rank[row])
    return Side(
        key=str(model.variant),
        repo_id=model.repo_id,
        commit=model.commit,
        dtype=model.dtype,
        quantisation=model.quantisation,
        way=way_of(model),
        flag_reason=model.flag_reason,
        score=board.average_of(row),
        rank=rank,
        rank_range=board.ranks.span(row) if rank else "",
    )


def _result_key(run: UUID, column: Column) -> _ResultKey:
    return run, column.task, column.metric, column.filter


def _stored_results(runs: Sequence[UUID]) -> dict[_ResultKey, Result]:
    rows = Result.objects.filter(run_id__in=runs, subset="").only(
        "run_id", "task_name", "metric", "filter", "higher_is_better"
    )
    return {(row.run_id, row.task_name, row.metric, row.filter): row for row in rows}


def _number(
    board: Board,
    row: int,
    place: int,
    runs: tuple[UUID, ...],
    results: tuple[Result | None, ...],
) -> Number | None:
    score = board.score(row, place)
    if score is None or not results:
        return None
    known = [result.pk for result in results if result]
    scores = board.normalised if board.by_chance else board.scores
    low, value, high = (float(a[row, place]) for a in (scores.low, scores.value, scores.high))
    return Number(
        score=score,
        # A result that was removed since the board was built leaves the number without questions.
        results=tuple(known) if len(known) == len(results) else (),
        runs=runs,
        normalised=None if np.isnan(value) else Interval(low, value, high),
    )


def _why_missing(board: Board, row: int, place: int) -> str:
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


# Runs of one benchmark


def lineup_of_runs(runs: Sequence[Run]) -> Lineup:
    """Finished runs of one benchmark; they come with their task, their variant and its model."""
    first = runs[0]
    title, metric, filter_ = _shown_metric(first)
    rows = Result.objects.filter(
        run__in=runs,
        subset="",
        task_name__in={run.task.name for run in runs},
        metric=metric,
        filter=filter_,
    ).order_by("pk")
    by_run = {(row.run_id, row.task_name): row for row in rows}
    results = [by_run.get((run.pk, run.task.name)) for run in runs]
    numbers = [_number_of_run(run, row) for run, row in zip(runs, results, strict=True)]
    task = Task(
        key=first.task.benchmark,
        benchmark=first.task.benchmark,
        title=title,
        style=first.task.style,
        name=first.task.name,
        metric=metric,
        filter=filter_,
        shots=first.shots,
        n=results[0].n if results[0] else None,
        numbers=tuple(numbers),
        why=tuple("" if number else f"no result for {metric}" for number in numbers),
        higher_is_better=results[0].higher_is_better if results[0] else True,
    )
    sides = [_side_of_run(run, number) for run, number in zip(runs, numbers, strict=True)]
    return Lineup(sides=named(sides), tasks=(task,), averaged=False)


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


def _side_of_run(run: Run, number: Number | None) -> Side:
    variant = run.variant
    shots = "1 shot" if run.shots == 1 else f"{run.shots} shots"
    return Side(
        key=str(run.pk),
        repo_id=variant.hub_model.repo_id,
        commit=variant.commit,
        dtype=variant.dtype,
        quantisation=variant.quantisation,
        way=variant.way,
        flag_reason=variant.hub_model.flag_reason,
        asked=f"{Style(run.task.style).label}, {shots}",
        score=number.score if number else None,
    )


def _number_of_run(run: Run, result: Result | None) -> Number | None:
    if result is None:
        return None
    return Number(
        score=Score(result.value, result.low, result.high, result.n),
        results=(result.pk,),
        runs=(run.pk,),
        style=run.task.style,
        docs_digest=run.docs_digest,
    )


# Names


def named(sides: Sequence[Side]) -> tuple[Side, ...]:
    """The sides with their letters, each with the shortest names that no other has."""
    lettered = [replace(side, letter=letter) for side, letter in zip(sides, LETTERS, strict=False)]
    names = [side.model for side in lettered]
    times = Counter(names)
    owners = {name: {side.owner for side in lettered if side.model == name} for name in times}
    names = [side.repo_id if len(owners[side.model]) > 1 else side.model for side in lettered]
    for qualifier in _QUALIFIERS:
        times = Counter(names)
        words = [qualifier(side) for side in lettered]
        # A word that all sides of one name share tells none from another.
        telling = {
            name
            for name in times
            if len({word for word, of in zip(words, names, strict=True) if of == name}) > 1
        }
        names = [
            f"{name}, {word}" if name in telling and word else name
            for name, word in zip(names, words, strict=True)
        ]
    return tuple(replace(side, name=name) for side, name in zip(lettered, names, strict=True))


_QUALIFIERS: tuple[Callable[[Side], str], ...] = (
    lambda side: side.quantisation or side.dtype,
    lambda side: side.way,
    lambda side: side.commit[:7],
    lambda side: side.asked,
    lambda side: side.letter,
)
