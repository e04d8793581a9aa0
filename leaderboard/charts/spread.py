"""How far the scores of one benchmark lie apart by how it is asked: its prompts and draws.

A model is asked a benchmark in several styles, and a suite may draw the examples of a prompt
several times. Here stand all of a model's scores on one benchmark, side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from leaderboard.board import Wanted, chosen_board
from leaderboard.catalogue import suite_asked_for
from leaderboard.models import Result
from leaderboard.snapshot import EVERY, Board, Column, Model, Score
from leaderboard.web import Address

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Asked:
    """A model's number in one style."""

    score: Score
    draws: tuple[float, ...]
    """Of each draw of examples; empty where there was one."""


@dataclass(frozen=True)
class Line:
    model: Model
    asked: tuple[Asked | None, ...]
    """By style, in the order of `Spread.columns`."""

    @property
    def apart(self) -> float | None:
        """Between its highest and its lowest score; None where it has one alone."""
        values = [one.score.value for one in self.asked if one]
        return max(values) - min(values) if len(values) > 1 else None


@dataclass(frozen=True, eq=False)
class Spread:
    """One benchmark of the board of every style."""

    board: Board
    benchmarks: tuple[tuple[str, str], ...]
    """Every one of the suite that can be shown: name and title."""
    benchmark: str
    title: str
    places: tuple[int, ...]
    """Of its styles among the board's columns: the suite's own first."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.board.columns[place] for place in self.places)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Of the models that are ranked with each other, shape (models, styles)."""
        of = np.ix_(self.board.comparable_rows, np.array(self.places))
        values: NDArray[np.float64] = self.board.scores.value[of]
        return values

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Of the board, those with a number: by the mean over what each has, the best first."""
        known = ~np.isnan(self.values).all(axis=1)
        rows, mean = self.board.comparable_rows[known], np.nanmean(self.values[known], axis=1)
        return rows[np.argsort(-mean, kind="stable")]

    @cached_property
    def apart(self) -> NDArray[np.float64]:
        """Of each model with a number in every style, from its lowest to its highest."""
        whole = self.values[~np.isnan(self.values).any(axis=1)]
        if whole.shape[1] < 2:
            return np.empty(0)
        apart: NDArray[np.float64] = whole.max(axis=1) - whole.min(axis=1)
        return apart

    def quarters(self, style: int) -> list[float]:
        """The least, the quartiles and the most of all models' scores in this style."""
        values = self.values[:, style]
        known = values[~np.isnan(values)]
        return [float(number) for number in np.quantile(known, QUARTERS)] if len(known) else []

    @property
    def draws(self) -> int:
        """The most draws of examples that any of its styles has."""
        return max(column.draws for column in self.columns)

    def lines(self, rows: Sequence[int]) -> list[Line]:
        """Of these rows of the board; one query, where examples were drawn several times."""
        found = self._of_draws(rows)
        return [
            Line(
                self.board.models[row],
                tuple(self._asked(row, place, found) for place in self.places),
            )
            for row in rows
        ]

    def _asked(self, row: int, place: int, found: dict[tuple[UUID, int], float]) -> Asked | None:
        score = self.board.score(row, place)
        if score is None:
            return None
        runs = self.board.runs_of(row, place) if self.board.columns[place].draws > 1 else ()
        values = tuple(found[run, place] for run in runs if (run, place) in found)
        return Asked(score, values if len(values) == len(runs) else ())

    def _of_draws(self, rows: Sequence[int]) -> dict[tuple[UUID, int], float]:
        """By run and column what each draw alone scored."""
        wanted = {
            run: place
            for place in self.places
            if self.board.columns[place].draws > 1
            for row in rows
            for run in self.board.runs_of(row, place)
        }
        if not wanted:
            return {}
        columns = self.columns
        numbers = Result.objects.filter(
            run__in=wanted,
            subset="",
            task_name__in={column.task for column in columns},
            metric__in={column.metric for column in columns},
            filter__in={column.filter for column in columns},
        ).values_list("run_id", "task_name", "metric", "filter", "value")
        return {
            (run, place): value
            for run, *which, value in numbers
            if which == _number_of(self.board.columns[place := wanted[run]])
        }


def _number_of(column: Column) -> list[str]:
    return [column.task, column.metric, column.filter]


def spread_of(address: Address) -> Spread | None:
    """The benchmark that the address names, or the first; None where no board was built yet."""
    suite = suite_asked_for(address["suite"])
    board = chosen_board(suite, Wanted(suite=address["suite"], style=EVERY)) if suite else None
    if board is None or not board.columns:
        return None
    titles: dict[str, str] = {}
    for column in board.columns:
        titles.setdefault(column.benchmark, column.title)
    benchmark = address.choice("benchmark", titles) if address["benchmark"] else ""
    benchmark = benchmark if benchmark in titles else next(iter(titles))
    places = [at for at, column in enumerate(board.columns) if column.benchmark == benchmark]
    places.sort(key=lambda at: not board.columns[at].own)
    metric = board.columns[places[0]].metric
    return Spread(
        board=board,
        benchmarks=tuple(titles.items()),
        benchmark=benchmark,
        title=titles[benchmark],
        # Numbers of two metrics have no common scale.
        places=tuple(at for at in places if board.columns[at].metric == metric),
    )
