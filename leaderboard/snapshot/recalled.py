"""Boards without the results that were recalled after they were built.

Every board that is read passes here: the newest one until the next is built, and those of past
days for as long as a recall stands. A recalled cell has no number, its row no average and no rank,
and the ranks, ranges and ties of the others are of those that remain, by the claims made then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from django.utils import timezone

from evalcore.digest import digest_of
from leaderboard.models import Recall, Run
from leaderboard.queue import recalling
from leaderboard.snapshot.cells import PLACE
from leaderboard.snapshot.data import BestOf, Board, Flags, Ranks, Scores, Standing, StyleGap
from leaderboard.snapshot.ranking import ranks_left
from leaderboard.web import Recent

CLOCKS = timedelta(minutes=5)
"""No two machines' clocks are farther apart: so long after it even a board that was built with a
recall is looked through once more, which costs little and changes nothing."""
_boards: Recent[Board] = Recent(24)
"""By the digest of the file and the recalls that it does not know of."""


def standing() -> list[Recall]:
    """Every recall that stands: with one query, whatever boards are then read."""
    return list(Recall.objects.filter(undone=None).order_by("pk"))


def settle(recall: Recall) -> None:
    """Note that it is committed; boards whose building begins later know of it."""
    Recall.objects.filter(pk=recall.pk, settled=None).update(settled=timezone.now() + CLOCKS)


def forget() -> None:
    """For tests, whose database goes back in time."""
    _boards.clear()


def shown(sha256: str, board: Board, recalls: Sequence[Recall]) -> Board:
    """The board in the file with this digest, without what these recalls took since."""
    later = [r for r in recalls if r.settled is None or r.settled >= board.built]
    if not later:
        return board
    key = (sha256, *(recall.pk for recall in later))
    return _boards.of(key, lambda: without(board, _reasons(later)))


def _reasons(recalls: Sequence[Recall]) -> dict[bytes, str]:
    """By run, as 16 bytes, why it was recalled, or is about to be by a recall that still takes what
    it names."""
    why = {recall.pk: recall.reason for recall in recalls}
    rows = Run.objects.filter(recall__in=why).values_list("pk", "recall")
    reasons = {pk.bytes: why[recall] for pk, recall in rows if recall is not None}
    for recall in recalls:
        if recall.settled is None:
            left = recalling.concerned(recall.kind, recall.named).filter(recall=None)
            for pk in left.values_list("pk", flat=True):
                reasons.setdefault(pk.bytes, recall.reason)
    return reasons


def without(board: Board, reasons: dict[bytes, str]) -> Board:
    """The board without the numbers of these runs; itself where it has none of them."""
    why = _recalled(board, reasons)
    if not why:
        return board
    gone = np.zeros(board.standing.shape, np.bool_)
    gone[tuple(np.array(list(why)).T)] = True
    average = board.average.where(~np.any(gone, axis=1))
    # As `build` orders them; who keeps an average keeps the place among those that do.
    names = np.array([name.lower() for name in board.models.values("repo_id")], dtype=str)
    order = np.lexsort(
        (names, np.arange(len(names)) * ~np.isnan(average.value), np.isnan(average.value))
    )
    place_of = np.argsort(order)
    cut = _Cut(gone, order)
    others = {cell: reason for cell, reason in board.why.items() if cell not in why}
    return replace(
        board,
        data_version=digest_of(
            [board.data_version, sorted((*cell, text) for cell, text in why.items())]
        ),
        models=board.models.take(order),
        scores=cut.scores(board.scores),
        normalised=cut.scores(board.normalised),
        n=cut.array(board.n, 0),
        standing=cut.array(board.standing, PLACE[Standing.RECALLED]),
        sd_of_draws=cut.array(board.sd_of_draws, 0.0),
        run=board.run[order],
        lengths=cut.array(board.lengths, 0),
        costs=board.costs and board.costs.left(gone, order),
        average=average.rows(order),
        ranks=_ranks(board, average, order),
        why={(int(place_of[row]), column): text for (row, column), text in (others | why).items()},
        other_draws={
            (int(place_of[row]), column): runs
            for (row, column), runs in board.other_draws.items()
            if (row, column) not in why
        },
        gaps=tuple(cut.gap(gap) for gap in board.gaps),
        best=tuple(cut.best(best, board) for best in board.best),
    )


def _recalled(board: Board, reasons: dict[bytes, str]) -> dict[tuple[int, int], str]:
    """By cell with a number why it was recalled: any run behind it, of whatever draw."""
    scored = board.standing == PLACE[Standing.SCORED]
    places = np.argwhere(scored)
    runs = board.run[scored].tolist()
    found = {
        (int(row), int(column)): reasons[bytes(run)]
        for (row, column), run in zip(places.tolist(), runs, strict=True)
        if bytes(run) in reasons
    }
    for cell, draws in board.other_draws.items():
        told = [reasons[run.bytes] for run in draws if run.bytes in reasons]
        if told and cell not in found and scored[cell]:
            found[cell] = told[0]
    return found


class _Cut:
    """Arrays of a board without its recalled cells, in the new order of rows."""

    def __init__(self, gone: Flags, order: Any) -> None:
        self._gone, self._order = gone, order

    def array(self, values: Any, nothing: float) -> Any:
        kept = np.array(values)
        kept[self._gone] = nothing
        return kept[self._order]

    def scores(self, scores: Scores) -> Scores:
        return Scores(*(self.array(side, np.nan) for side in scores.sides))

    def gap(self, gap: StyleGap) -> StyleGap:
        left = ~np.any(self._gone[:, [gap.first, gap.second]], axis=1)
        paired = (gap.paired & left)[self._order]
        return replace(gap, difference=gap.difference.where(left).rows(self._order), paired=paired)

    def best(self, best: BestOf, board: Board) -> BestOf:
        """The largest of what remains is not known to be the largest: it says none."""
        own = [place for place, c in enumerate(board.columns) if c.benchmark == best.benchmark]
        left = ~np.any(self._gone[:, own], axis=1)
        column = np.where(left, best.column, -1).astype(np.int32)[self._order]
        return replace(best, score=best.score.where(left).rows(self._order), column=column)


def _ranks(board: Board, average: Scores, order: Any) -> Ranks:
    """Of those that were ranked and still have an average."""
    before = np.flatnonzero(board.ranks.rank > 0)
    left = np.flatnonzero(~np.isnan(average.value[before]))
    rows = before[left]
    found = ranks_left(board.ranks, left, average.value[rows])
    new = np.empty(len(order), np.intp)
    new[order] = np.arange(len(order))
    return Ranks.none(len(order)).having(new[rows], found)
