"""What a benchmark's styles do to each model's score, for the board of every style.

A difference is paired where both styles asked the same questions; where they did not, or a score is
no mean over questions, its error is that of two independent scores, and it says so. Background
work: with thousands of models minutes at first, afterwards only rows with new runs are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import difference_interval, paired_rows
from leaderboard.models import ScoreVector
from leaderboard.models.task import is_share
from leaderboard.samples import vectors
from leaderboard.snapshot.columns import ColumnCells
from leaderboard.snapshot.data import BestOf, Board, Crossing, Flags, Scores, StyleGap
from leaderboard.stats import BestStyles, best_by_part, best_of, held_together

DRAWS = 1000
MANY = 1_000
"""Models whose scores by question are held at once."""

FARTHEST = 50
"""Models at each end of what a change of style does: a pair is one of either end."""

Rows = NDArray[np.intp]
Weighting = ScoreVector.Weighting


@dataclass(frozen=True)
class Facts:
    """One benchmark's: the difference of every two of its styles, and the best of them all."""

    places: tuple[int, ...]
    """Its columns on the board."""
    gaps: tuple[StyleGap, ...]
    best: BestOf


def with_facts(board: Board, columns: Sequence[ColumnCells], earlier: Board | None = None) -> Board:
    """The board with its differences and its best of styles (the rule of OLMES).

    A model that lacks one of a benchmark's styles has no best: the largest of fewer would be
    another figure. Rows whose runs are those of `earlier` are taken over from it.
    """
    every = [_none(benchmark, places, len(board.models)) for benchmark, places in in_styles(board)]
    board = replace(
        board,
        gaps=tuple(gap for facts in every for gap in facts.gaps),
        best=tuple(facts.best for facts in every),
    )
    past = _past(board, earlier)
    for facts in every:
        known = _take_over(facts, past, len(board.models))
        scores = (~np.isnan(board.scores.value[:, facts.places])).sum(axis=1)
        new = np.flatnonzero(~known & (scores > 1))
        for start in range(0, len(new), MANY):
            _measure(board, columns, facts, new[start : start + MANY])
    return board


def in_styles(board: Board) -> list[tuple[str, tuple[int, ...]]]:
    """The benchmarks that are asked in several styles, each with its columns."""
    places: dict[str, list[int]] = {}
    for place, column in enumerate(board.columns):
        places.setdefault(column.benchmark, []).append(place)
    return [(name, tuple(found)) for name, found in places.items() if len(found) > 1]


def _none(benchmark: str, places: tuple[int, ...], rows: int) -> Facts:
    gaps = tuple(
        StyleGap(benchmark, first, second, Scores.none(rows), np.zeros(rows, np.bool_))
        for first, second in combinations(places, 2)
    )
    return Facts(places, gaps, BestOf(benchmark, Scores.none(rows), np.full(rows, -1, np.int32)))


@dataclass(frozen=True)
class Past:
    """An earlier board with the same columns, and what of it is still so."""

    board: Board
    here: Rows
    """Rows of the new board whose variants the earlier one has ..."""
    there: Rows
    """... and where it has them."""
    unchanged: Flags
    """Whether the cell stands as it did, with the same runs; shape (len(here), columns)."""


def _past(board: Board, earlier: Board | None) -> Past | None:
    if earlier is None or earlier.columns != board.columns or len(earlier.best) != len(board.best):
        return None
    variants = board.models.values("variant")
    here = np.array([row for row, variant in enumerate(variants) if variant in earlier.row_of], int)
    there = np.array([earlier.row_of[variants[row]] for row in here], int)
    unchanged = board.run[here] == earlier.run[there]
    unchanged &= board.standing[here] == earlier.standing[there]
    place = {row: number for number, row in enumerate(here.tolist())}
    for (row, column), runs in board.other_draws.items():
        if row in place:
            was = earlier.other_draws.get((int(there[place[row]]), column))
            unchanged[place[row], column] &= was == runs
    return Past(earlier, here, there, unchanged)


def _take_over(facts: Facts, past: Past | None, rows: int) -> Flags:
    """Copy what is still so; of which rows that is.

    What was not paired then is looked at again: scores by question may have come since.
    """
    known = np.zeros(rows, np.bool_)
    if past is None:
        return known
    gaps = [gap for gap in past.board.gaps if gap.benchmark == facts.best.benchmark]
    (best,) = (best for best in past.board.best if best.benchmark == facts.best.benchmark)
    missing = np.isnan(past.board.scores.value[:, facts.places]).any(axis=1)
    settled = missing | (best.column >= 0)
    for gap in gaps:
        settled &= gap.paired | np.isnan(gap.difference.value)
    same = past.unchanged[:, facts.places].all(axis=1) & settled[past.there]
    here, there = past.here[same], past.there[same]
    for gap, was in zip(facts.gaps, gaps, strict=True):
        gap.difference.put(here, *was.difference.rows(there).sides)
        gap.paired[here] = was.paired[there]
    facts.best.score.put(here, *best.score.rows(there).sides)
    facts.best.column[here] = best.column[there]
    known[here] = True
    return known


def _measure(board: Board, columns: Sequence[ColumnCells], facts: Facts, rows: Rows) -> None:
    """Compute the facts of these rows, of which each has two scores or more."""
    variants = board.models.take(rows).values("variant")
    by_style = {place: _by_question(columns[place], variants) for place in facts.places}
    for gap in facts.gaps:
        first, second = by_style[gap.first], by_style[gap.second]
        if first and second and _comparable(first, second):
            _pair(gap, rows, first, second)
        _compare_unpaired(board, gap, rows)
    found = [matrix for matrix in by_style.values() if matrix]
    if len(found) == len(by_style) and all(_comparable(found[0], other) for other in found):
        _name_best(facts, rows, found)


def _pair(gap: StyleGap, rows: Rows, first: vectors.Matrix, second: vectors.Matrix) -> None:
    """The paired difference of each row; none where all questions differ alike.

    Their spread would then say nothing of other questions.
    """
    both = _complete([first, second])
    if not both.any():
        return
    layout = first.layout
    try:
        found = paired_rows(
            first.scores[both],
            second.scores[both],
            clusters=layout.cluster,
            strata=layout.strata,
            by_part=first.weighting == Weighting.PARTS,
        )
    except ValueError:  # a single cluster: its questions say nothing of others
        return
    spread = found.low < found.high
    chosen = rows[both][spread]
    gap.difference.put(chosen, *(side[spread] for side in found))
    gap.paired[chosen] = True


def _compare_unpaired(board: Board, gap: StyleGap, rows: Rows) -> None:
    """The difference of two independent scores, for the rows that have both and no paired one."""
    for row in rows[~gap.paired[rows]]:
        first, second = board.score(row, gap.first), board.score(row, gap.second)
        if first and second:
            found = difference_interval(first.interval, second.interval)
            gap.difference.put(row, found.value, found.low, found.high)


def _name_best(facts: Facts, rows: Rows, by_style: Sequence[vectors.Matrix]) -> None:
    complete = _complete(by_style)
    if not complete.any():
        return
    scores = np.stack([matrix.scores[complete] for matrix in by_style], axis=1)
    best = _best(scores, by_style[0])
    if best is None:
        return
    facts.best.score.put(rows[complete], best.value, best.low, best.high)
    facts.best.column[rows[complete]] = np.array(facts.places, np.int32)[best.style]


def _best(scores: NDArray[np.float32], asked: vectors.Matrix) -> BestStyles | None:
    """The best of scores of shape (models, styles, questions); None where there is no interval."""
    layout = asked.layout
    if layout.cluster is not None and layout.cluster.min() == layout.cluster.max():
        return None
    if asked.weighting == Weighting.PARTS:
        try:
            return best_by_part(scores, layout.task, clusters=layout.cluster, draws=DRAWS)
        except ValueError:  # parts of one question each: they say nothing of others
            return None
    clusters = None if layout.cluster is None else layout.cluster.tolist()
    return best_of(scores, draws=DRAWS, clusters=clusters)


def _comparable(first: vectors.Matrix, second: vectors.Matrix) -> bool:
    """Whether both are means of the same kind over the same questions."""
    same = first.layout.docs_digest == second.layout.docs_digest
    return same and first.weighting == second.weighting


def _complete(matrices: Sequence[vectors.Matrix]) -> Flags:
    """The rows that have their scores by question in all of them."""
    known = [np.isfinite(matrix.scores).all(axis=1) for matrix in matrices]
    return np.asarray(np.logical_and.reduce(known), np.bool_)


def _by_question(column: ColumnCells, variants: Sequence[int]) -> vectors.Matrix | None:
    """A column's scores by question, over several draws of examples their mean.

    NaN for a model without a score; None where no model has any.
    """
    results = column.results_of(variants).T.tolist()
    found: vectors.Matrix | None = None
    total: NDArray[np.float32] = np.zeros((1, 1), np.float32)
    for of_draw in results:
        # No result has the number 0.
        found = vectors.matrix(of_draw)
        if found is None:
            return None
        total = total + found.scores / np.float32(len(results))
    return found and replace(found, scores=total)


def clearest(board: Board) -> Crossing | None:
    """The two models that change places most clearly with the style; None where no two do.

    The smaller of both leads is the largest there is. Intervals are widened until those of all
    models in all styles hold together (Bonferroni), for the case is picked from all of them: both
    leads are right in 95 of 100 such boards.
    """
    several = [places for _, places in in_styles(board)]
    columns = [
        place for places in several for place in places if is_share(board.columns[place].metric)
    ]
    rows = board.comparable_rows
    if not columns or not len(rows):
        return None
    scores = [side[rows][:, columns] for side in board.scores.sides]
    low, high = (side.reshape(-1, len(columns)) for side in held_together(*map(np.ravel, scores)))
    at = {place: number for number, place in enumerate(columns)}
    best: tuple[float, Crossing] | None = None
    for places in several:
        for first, second in permutations([place for place in places if place in at], 2):
            one, other = at[first], at[second]
            moved = scores[0][:, other] - scores[0][:, one]
            order = np.argsort(moved, kind="stable")
            order = order[~np.isnan(moved[order])]
            falls, rises = order[:FARTHEST], order[::-1][:FARTHEST]
            # Of each model that falls and each that rises how far apart the intervals lie.
            ahead = low[falls, one][:, None] - high[rises, one]
            behind = low[rises, other] - high[falls, other][:, None]
            apart = np.minimum(ahead, behind)
            place = int(np.argmax(apart)) if apart.size else 0
            if not apart.size or apart.flat[place] <= 0:
                continue
            fall, rise = (int(chosen) for chosen in np.unravel_index(place, apart.shape))
            variants = (board.models[int(rows[end])].variant for end in (falls[fall], rises[rise]))
            case = Crossing(first, second, *variants)
            if best is None or apart.flat[place] > best[0]:
                best = float(apart.flat[place]), case
    return best[1] if best else None
