"""Which change of style the page tells of, and what it says of the models that were searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leaderboard.snapshot.data import Board, Flags
from leaderboard.snapshot.style_facts import in_styles
from leaderboard.styles import order as style_order
from leaderboard.styles import slope
from leaderboard.styles.order import Change
from leaderboard.styles.view import AVERAGE, LEADERS, View, in_both

Averages = tuple[Board | None, Board | None]
"""The boards of the two compared styles."""


@dataclass(frozen=True)
class Ordering:
    """A change of style as the page tells it."""

    title: str
    """Of the benchmark; empty for the suite's average."""
    change: Change
    moves: bool
    """Whether any model changes its place."""
    apart: tuple[int, int] | None
    """How many benchmarks either average is of, where they are not the same."""
    chart: slope.SlopeChart
    movers: list[slope.Mover]
    crossing: slope.Crossing | None
    chosen: int
    """Models that the search leaves."""
    higher: int
    """Of all models those that rise beyond chance ..."""
    lower: int
    """... fall beyond chance ..."""
    unshown: int
    """... and those of which neither is shown."""

    @property
    def shown(self) -> int:
        """Models that change their place beyond chance."""
        return self.higher + self.lower


def ordering(shown: View, averages: Averages) -> Ordering | None:
    """The change in the order asked for; of the first benchmark that has one for lack of averages.

    None where fewer than two models were measured in both styles.
    """
    asked = shown.address["benchmark"]
    first, second = averages
    if asked == AVERAGE and first and second and (change := style_order.of_averages(first, second)):
        counted = [_counted(board) for board in (first, second)]
        apart = None if counted[0] == counted[1] else (len(counted[0]), len(counted[1]))
        return _ordering(shown, "", change, apart)
    for name in in_both(shown.board, (shown.first, shown.second)):
        if asked in (AVERAGE, name):
            places = {shown.board.columns[p].style: p for p in dict(in_styles(shown.board))[name]}
            pair = places[shown.first], places[shown.second]
            if change := style_order.of_benchmark(shown.board, pair):
                return _ordering(shown, shown.titles[name], change, None)
    return None


def _ordering(shown: View, title: str, change: Change, apart: tuple[int, int] | None) -> Ordering:
    chosen, clear = _found(shown, change), change.beyond_chance
    return Ordering(
        title=title,
        change=change,
        moves=bool(change.moved.any()),
        apart=apart,
        chart=slope.slope_chart(change, chosen, of_leaders=shown.address["draw"] == LEADERS),
        movers=slope.movers(change, chosen),
        crossing=slope.crossing(change, chosen),
        chosen=int(chosen.sum()),
        higher=int((clear & (change.moved > 0)).sum()),
        lower=int((clear & (change.moved < 0)).sum()),
        unshown=int((~clear).sum()),
    )


def _counted(board: Board) -> set[str]:
    return {column.benchmark for column in board.columns if column.counts}


def _found(shown: View, change: Change) -> Flags:
    """Which of the compared models the search finds."""
    if shown.found.all():
        return np.ones(len(change.models), np.bool_)
    rows = [shown.board.row_of.get(variant) for variant in change.models.values("variant")]
    return np.array([row is not None and bool(shown.found[row]) for row in rows], np.bool_)
