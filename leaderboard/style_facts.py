"""What a benchmark's styles do to each model's score, for the board of every style.

A difference is paired where both styles asked the same questions; where they did not, or a score is
no mean over questions, its error is that of two independent scores, and it says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import Interval, best_of, difference_interval, paired_rows
from leaderboard import vectors
from leaderboard.board_data import BestOf, Model, Scores, StyleGap
from leaderboard.cells import Cell, ColumnCells
from leaderboard.models import ScoreVector

DRAWS = 1000
MANY = 1_000
"""Models whose scores by question are held at once."""


def gaps(columns: Sequence[ColumnCells], models: Sequence[Model]) -> tuple[StyleGap, ...]:
    """Each benchmark's score in one style minus that in each later one."""
    return tuple(
        _gap(benchmark, first, second, columns, models)
        for benchmark, places in _by_benchmark(columns)
        for first, second in combinations(places, 2)
    )


def best(columns: Sequence[ColumnCells], models: Sequence[Model]) -> tuple[BestOf, ...]:
    """Each benchmark's largest score over the styles that asked the same questions (OLMES).

    A model that lacks one of the styles has none: the largest of fewer would be another figure.
    """
    return tuple(
        _best(benchmark, places, columns, models) for benchmark, places in _by_benchmark(columns)
    )


def _by_benchmark(columns: Sequence[ColumnCells]) -> Iterator[tuple[str, list[int]]]:
    places: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        places.setdefault(column.entry.benchmark, []).append(place)
    return ((benchmark, found) for benchmark, found in places.items() if len(found) > 1)


def _gap(
    benchmark: str,
    first: int,
    second: int,
    columns: Sequence[ColumnCells],
    models: Sequence[Model],
) -> StyleGap:
    difference = Scores.none(len(models), 1)
    paired = np.zeros(len(models), dtype=np.bool_)
    both = [
        (row, (a, b))
        for row, model in enumerate(models)
        if (a := columns[first].cells.get(model.variant)) and a.score
        if (b := columns[second].cells.get(model.variant)) and b.score
    ]
    for start in range(0, len(both), MANY):
        some = both[start : start + MANY]
        for (row, (a, b)), found in zip(some, _paired([pair for _, pair in some]), strict=True):
            paired[row] = found is not None
            if found is None and a.score and b.score:
                found = difference_interval(a.score.interval, b.score.interval)
            if found is not None:
                difference.put(row, 0, found)
    return StyleGap(benchmark, first, second, difference.column(0), paired)


def _paired(pairs: Sequence[tuple[Cell, Cell]]) -> list[Interval | None]:
    """The paired difference of each pair of scores; None where it has none."""
    found = [_by_question([pair[side] for pair in pairs]) for side in (0, 1)]
    one, other = found
    none: list[Interval | None] = [None] * len(pairs)
    if one is None or other is None or one.layout.docs_digest != other.layout.docs_digest:
        return none
    if one.weighting != other.weighting or one.weighting != ScoreVector.Weighting.DOCUMENTS:
        return none
    known = ~(np.isnan(one.scores).any(axis=1) | np.isnan(other.scores).any(axis=1))
    rows = np.flatnonzero(known)
    if not len(rows):
        return none
    layout = one.layout
    differences = paired_rows(
        one.scores[rows], other.scores[rows], clusters=layout.cluster, strata=layout.strata
    )
    for place, row in enumerate(rows):
        low, high = float(differences.low[place]), float(differences.high[place])
        if low < high:  # where all questions differ alike their spread says nothing of others
            none[row] = Interval(low, float(differences.difference[place]), high)
    return none


def _best(
    benchmark: str, places: list[int], columns: Sequence[ColumnCells], models: Sequence[Model]
) -> BestOf:
    score = Scores.none(len(models), 1)
    column = np.full(len(models), -1, np.int32)
    rows = [
        row
        for row, model in enumerate(models)
        if all((cell := columns[place].cells.get(model.variant)) and cell.score for place in places)
    ]
    for start in range(0, len(rows), MANY):
        some = rows[start : start + MANY]
        by_style = [
            _by_question([columns[place].cells[models[row].variant] for row in some])
            for place in places
        ]
        if not _same_questions(by_style):
            continue
        stacked = np.stack([found.scores for found in by_style if found], axis=1)
        cluster = by_style[0].layout.cluster if by_style[0] else None
        for row, scores in zip(some, stacked, strict=True):
            if not np.isnan(scores).any():
                winner, interval = best_of(scores, draws=DRAWS, clusters=_labels(cluster))
                column[row] = places[winner]
                score.put(row, 0, interval)
    return BestOf(benchmark, score.column(0), column)


def _same_questions(by_style: Sequence[vectors.Matrix | None]) -> bool:
    """Whether all styles have scores by question, of the same ones, that make a plain mean."""
    return all(
        found is not None
        and found.weighting == ScoreVector.Weighting.DOCUMENTS
        and by_style[0] is not None
        and found.layout.docs_digest == by_style[0].layout.docs_digest
        for found in by_style
    )


def _labels(cluster: NDArray[np.int32] | None) -> list[int] | None:
    return None if cluster is None else cluster.tolist()


def _by_question(cells: Sequence[Cell]) -> vectors.Matrix | None:
    """Scores by question of each cell, over several draws of examples their mean."""
    draws = [cell.results or (cell.result or 0,) for cell in cells]
    found: vectors.Matrix | None = None
    total = np.zeros(1, np.float32)
    for of_draw in zip(*draws, strict=True):
        found = vectors.matrix(of_draw)
        if found is None:
            return None
        total = total + found.scores / len(draws[0])
    return found and vectors.Matrix(found.layout, total, found.weighting)
