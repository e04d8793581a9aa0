"""What the newest board of every style has already of a commit's numbers: they are in memory, where
their rows lie all over the tables.

What a run ended with never changes, and a column keeps its comparability key while a run with it
stands. So the number of a run that stood on the board, and is done still, is the number in the
tables. A benchmark is taken from the board whole or not at all: not where a run has ended since,
and not where the board compared two styles as independent scores, since their scores by question
may have come later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple
from uuid import UUID

from evalcore.stats import Interval
from leaderboard.models.run import lengths_of
from leaderboard.snapshot import STANDINGS, Board, Score, Standing, StyleGap


@dataclass(frozen=True)
class Asked:
    """How a column's number is found, and the runs that are done and may have it."""

    style: str
    task: str
    metric: str
    filter: str
    comparability_key: str
    done: Sequence[UUID]


@dataclass(frozen=True)
class Numbers:
    """All that one benchmark's runs ended with."""

    scores: Mapping[UUID, Score | None]
    """None for a run that has no number of its column's key."""
    _columns: Mapping[UUID, int]
    _row: int
    _gaps: Mapping[tuple[int, int], StyleGap]

    def difference(self, run: UUID, other: UUID) -> Interval:
        """The paired difference of two of its runs."""
        first, second = self._columns[run], self._columns[other]
        if gap := self._gaps.get((first, second)):
            return Interval(*_at(gap, self._row))
        low, value, high = _at(self._gaps[second, first], self._row)
        # Not by a minus: of no difference that would make -0.
        return Interval(0.0 - high, 0.0 - value, 0.0 - low)


def _at(gap: StyleGap, row: int) -> tuple[float, float, float]:
    value, low, high = (float(side[row]) for side in gap.difference.sides)
    return low, value, high


def numbers(
    board: Board | None, variant: int, asked: Mapping[str, Sequence[Asked]]
) -> dict[str, Numbers]:
    """By benchmark, of those of which the board has all that was done."""
    row = board.row_of.get(variant) if board else None
    if board is None or row is None:
        return {}
    cells = _cells(board, row)
    gaps = {(gap.first, gap.second): gap for gap in board.gaps}
    found = {}
    for benchmark, columns in asked.items():
        scores: dict[UUID, Score | None] = {}
        places: dict[UUID, int] = {}
        for column in columns:
            cell = cells.get((benchmark, *_told(column)))
            if cell and cell.settles(column):
                scores[cell.run] = cell.score
                if cell.score:
                    places[cell.run] = cell.place
            elif column.done:
                break
        else:
            pairs = combinations(sorted(places.values()), 2)
            if all(pair in gaps and gaps[pair].paired[row] for pair in pairs):
                found[benchmark] = Numbers(scores, places, row, gaps)
    return found


class _Cell(NamedTuple):
    place: int
    run: UUID
    score: Score | None
    comparability_key: str
    """Of its column, for models that are not asked in their chat templates."""

    def settles(self, column: Asked) -> bool:
        """Whether nothing else can stand there: what was not comparable with the column's key is
        not with the same one."""
        if list(column.done) != [self.run]:
            return False
        return bool(self.score) or self.comparability_key == column.comparability_key


def _told(column: Asked) -> tuple[str, str, str, str]:
    return column.style, column.task, column.metric, column.filter


def _cells(board: Board, row: int) -> dict[tuple[str, str, str, str, str], _Cell]:
    """By how its number is found each column of a single draw in which a run is done. A row's
    arrays are read at once, as a board has hundreds of columns."""
    sides = (side[row].tolist() for side in board.scores.sides)
    of_cells = (board.run[row].tolist(), board.standing[row].tolist(), board.n[row].tolist())
    every = zip(board.columns, *of_cells, board.lengths[row].tolist(), *sides, strict=True)
    return {
        (column.benchmark, column.style, column.task, column.metric, column.filter): _Cell(
            place,
            UUID(bytes=run),
            Score(value, low, high, n, lengths=lengths_of(lengths))
            if standing == _SCORED
            else None,
            column.comparability_key,
        )
        for place, (column, run, standing, n, lengths, value, low, high) in enumerate(every)
        if standing in (_SCORED, _NOT_COMPARABLE) and column.draws == 1
    }


_SCORED, _NOT_COMPARABLE = map(STANDINGS.index, (Standing.SCORED, Standing.NOT_COMPARABLE))
