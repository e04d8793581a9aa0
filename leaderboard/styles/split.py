"""Where the variance of one model's answers comes from: the question, the style, or the rest.

Computed when somebody asks, from that model's scores by question: one query for all benchmarks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaderboard.models import ScoreVector
from leaderboard.samples import vectors
from leaderboard.snapshot import Board
from leaderboard.stats import VarianceShares, variance_shares


@dataclass(frozen=True)
class Split:
    """One benchmark's; `why` says why there is none."""

    benchmark: str
    title: str
    styles: int
    """How many styles the model has answered it in."""
    n: int
    """Questions."""
    shares: VarianceShares | None
    why: str = ""

    @property
    def bars(self) -> list[tuple[str, str, str]]:
        """The shares beside each other: name, start and length, in percent of the whole."""
        bars, start = [], 0.0
        for name, share in vars(self.shares).items() if self.shares else ():
            bars.append((name, f"{100 * start:.2f}", f"{100 * share:.2f}"))
            start += share
        return bars


@dataclass(frozen=True)
class Answers:
    """The scores of one cell by question."""

    docs_digest: str
    scores: NDArray[np.float32]


def split(board: Board, row: int, benchmarks: Sequence[tuple[int, ...]]) -> list[Split]:
    """The model's variance in each benchmark, given by its columns on the board of every style."""
    places = [place for of_one in benchmarks for place in of_one]
    answers = _answers(board, row, places)
    return [_split(board, row, of_one, answers) for of_one in benchmarks]


def _split(board: Board, row: int, places: Sequence[int], answers: dict[int, Answers]) -> Split:
    column = board.columns[places[0]]
    scored = [place for place in places if board.score(row, place)]
    found = [answers[place] for place in scored if place in answers]
    shares, why = None, ""
    if len(scored) < 2:
        why = "Measured in fewer than two styles."
    elif len(found) < len(scored):
        why = "A score here is no mean over questions."
    elif len({vector.docs_digest for vector in found}) > 1:
        why = "Its styles did not ask the same questions."
    else:
        table = np.stack([vector.scores for vector in found])
        if table.min() == table.max():
            why = "All answers score alike, so there is nothing to split."
        else:
            shares = variance_shares(table)
    n = len(found[0].scores) if found else 0
    return Split(column.benchmark, column.title, len(scored), n, shares, why)


def _answers(board: Board, row: int, places: Sequence[int]) -> dict[int, Answers]:
    """By column the model's scores by question, over several draws of examples their mean."""
    runs = {place: board.runs_of(row, place) for place in places}
    stored = ScoreVector.objects.filter(
        result__run_id__in=[run for of_cell in runs.values() for run in of_cell],
        result__subset="",
        questions__isnull=False,
    ).values_list(
        "result__run_id",
        "result__task_name",
        "result__metric",
        "result__filter",
        "questions__docs_digest",
        "questions__n",
        "values",
    )
    vector = {tuple(key): (digest, n, bytes(values)) for *key, digest, n, values in stored}
    found = {}
    for place, of_cell in runs.items():
        column = board.columns[place]
        keys = [(run, column.task, column.metric, column.filter) for run in of_cell]
        drawn = [vector[key] for key in keys if key in vector]
        if of_cell and len(drawn) == len(of_cell) and len({digest for digest, *_ in drawn}) == 1:
            scores = [vectors.unpack_values(values, n) for _, n, values in drawn]
            found[place] = Answers(drawn[0][0], np.mean(scores, axis=0))
    return found
