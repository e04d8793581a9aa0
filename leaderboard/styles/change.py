"""Which change of style the page tells of, and what it says of the models that were searched."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from django.urls import reverse
from numpy.typing import NDArray

from leaderboard.snapshot import Board, Flags, in_styles
from leaderboard.styles import order as style_order
from leaderboard.styles.order import Change, Order
from leaderboard.styles.view import AVERAGE, LEADERS, View, in_both

MOST = 15
MOVERS = 10
TOP, STEP, LINE = 58, 28, 18
"""Pixels: where the axis begins, its length for each model, and the least distance of two names."""
FEWEST = 5
"""An axis is as long as for so many models at least."""


@dataclass(frozen=True)
class Place:
    """A model's rank in one style, and the ranks that are not excluded."""

    rank: int
    span: str


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A model in both orders; `places` is how many it rises in the second style, or falls."""

    name: str
    owner: str
    url: str
    left: Place
    right: Place
    places: int
    beyond_chance: bool

    @property
    def distance(self) -> int:
        return abs(self.places)

    @property
    def kind(self) -> str:
        """Up, down or empty (may be chance)."""
        return ("up" if self.places > 0 else "down") if self.beyond_chance else ""


@dataclass(frozen=True, kw_only=True)
class Slope(Mover):
    """One that is drawn."""

    y_left: int
    y_right: int
    """Where its ranks stand on the axis ..."""
    name_left: int
    name_right: int
    """... and where its name is written: beside them, or as near as other names allow."""


@dataclass(frozen=True)
class SlopeChart:
    """Two orders of the same models side by side, on one axis of ranks.

    A line is strong only where the model's two rank ranges do not overlap.
    """

    slopes: list[Slope]
    ticks: list[tuple[int, int]]
    """Ranks that the axis names, each with its place."""
    left_out: int
    """Models that were asked for and are not drawn."""

    @property
    def height(self) -> int:
        return TOP + _length(len(self.slopes)) + STEP


@dataclass(frozen=True)
class Crossing:
    """Two models of which each leads in one style, where both leads were shown."""

    ahead: Mover
    behind: Mover


def slope_chart(change: Change, chosen: Flags, *, of_leaders: bool = False) -> SlopeChart:
    """Of the chosen models, shape (models,), those that move most places beyond chance.

    Where none does, those that move farthest; with `of_leaders` those that lead in the first style.
    """
    if of_leaders:
        rows = np.flatnonzero(chosen)
    else:
        clear = chosen & change.beyond_chance
        rows = _farthest(change, clear if clear.any() else chosen)
    by_left = rows[np.argsort(change.first.rank[rows], kind="stable")][:MOST]
    axis = _Axis.of(change, by_left)
    y_left, y_right = (axis.y(order.rank[by_left]) for order in (change.first, change.second))
    names = zip(_apart(y_left, axis.end), _apart(y_right, axis.end), strict=True)
    slopes = [
        Slope(
            **vars(_mover(change, row)),
            y_left=left,
            y_right=right,
            name_left=name_left,
            name_right=name_right,
        )
        for row, left, right, (name_left, name_right) in zip(
            by_left.tolist(), y_left, y_right, names, strict=True
        )
    ]
    # Strong lines are drawn last, over the others.
    slopes.sort(key=lambda slope: slope.kind != "")
    return SlopeChart(slopes, axis.ticks(), left_out=int(chosen.sum()) - len(slopes))


def _length(models: int) -> int:
    return STEP * max(models, FEWEST)


@dataclass(frozen=True)
class _Axis:
    """From the best to the worst rank that is drawn, the same on both sides."""

    best: int
    worst: int
    end: int
    """Pixels."""

    @classmethod
    def of(cls, change: Change, rows: NDArray[np.intp]) -> _Axis:
        ranks = np.concatenate([change.first.rank[rows], change.second.rank[rows]])
        best, worst = (int(ranks.min()), int(ranks.max())) if len(ranks) else (1, 1)
        return cls(best, max(worst, best + 1), TOP + _length(len(rows)))

    def y(self, ranks: NDArray[np.int32]) -> list[int]:
        share = (ranks - self.best) / (self.worst - self.best)
        found: list[int] = np.rint(TOP + (self.end - TOP) * share).astype(int).tolist()
        return found

    def ticks(self) -> list[tuple[int, int]]:
        """Round ranks within the axis, six at most."""
        span = self.worst - self.best
        steps = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
        step = next(step for step in steps if span / step <= 5)
        ranks = np.arange(-(-self.best // step) * step, self.worst + 1, step, dtype=np.int32)
        return list(zip(ranks.tolist(), self.y(ranks), strict=True))


def _apart(places: list[int], end: int) -> list[int]:
    """The nearest places, in the same order, at which names do not stand upon each other."""
    order = sorted(range(len(places)), key=lambda row: places[row])
    found = list(places)
    for before, row in pairwise(order):
        found[row] = max(found[row], found[before] + LINE)
    last = end + LINE
    for row in reversed(order):
        found[row] = last = min(found[row], last - LINE)
    return found


def movers(change: Change, chosen: Flags) -> list[Mover]:
    """Of the chosen models those that move most places, the ones beyond chance first."""
    farthest = _farthest(change, chosen & (change.moved != 0))[:MOVERS]
    return [_mover(change, row) for row in farthest.tolist()]


def crossing(change: Change, chosen: Flags) -> Crossing | None:
    """Of the chosen models that move farthest two that were shown in opposite orders."""
    falls = _farthest(change, chosen & (change.moved < 0))
    rises = _farthest(change, chosen & (change.moved > 0))
    ahead, behind = np.repeat(falls, len(rises)), np.tile(rises, len(falls))
    both = change.first.better(ahead, behind) & change.second.better(behind, ahead)
    for place in np.flatnonzero(both)[:1].tolist():
        return Crossing(_mover(change, int(ahead[place])), _mover(change, int(behind[place])))
    return None


def _farthest(change: Change, chosen: Flags) -> NDArray[np.intp]:
    """Those that move most places, the ones beyond chance first."""
    rows = np.flatnonzero(chosen)
    order = np.lexsort((-np.abs(change.moved[rows]), ~change.beyond_chance[rows]))
    return rows[order][:MOST]


def _mover(change: Change, row: int) -> Mover:
    owner, _, name = change.models[row].repo_id.rpartition("/")
    return Mover(
        name=name,
        owner=owner,
        url=reverse("model", args=[change.models[row].repo_id]),
        left=_place(change.first, row),
        right=_place(change.second, row),
        places=int(change.moved[row]),
        beyond_chance=bool(change.beyond_chance[row]),
    )


def _place(order: Order, row: int) -> Place:
    """One that was cut off says that it may go on."""
    low, high = f"{order.low[row]:,}", f"{order.high[row]:,}"
    span = f"{'≤' if order.cut_low[row] else ''}{low}–{'≥' if order.cut_high[row] else ''}{high}"
    return Place(int(order.rank[row]), span)


Averages = tuple[Board | None, Board | None]
"""The boards of the two compared styles."""


def ordering(shown: View, averages: Averages) -> dict[str, Any] | None:
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


def _ordering(
    shown: View, title: str, change: Change, apart: tuple[int, int] | None
) -> dict[str, Any]:
    """`title` is the benchmark's, empty for averages; `apart`: of how many benchmarks either is."""
    chosen, clear = _found(shown, change), change.beyond_chance
    return {
        "title": title,
        "change": change,
        "moves": change.moved.any(),
        "apart": apart,
        "chart": slope_chart(change, chosen, of_leaders=shown.address["draw"] == LEADERS),
        "movers": movers(change, chosen),
        "crossing": crossing(change, chosen),
        "chosen": int(chosen.sum()),
        # Of all models those that rise and fall beyond chance, and those of which neither is shown.
        "higher": int((clear & (change.moved > 0)).sum()),
        "lower": int((clear & (change.moved < 0)).sum()),
        "shown": int((clear & (change.moved != 0)).sum()),
        "unshown": int((~clear).sum()),
    }


def _counted(board: Board) -> set[str]:
    return {column.benchmark for column in board.columns if column.counts}


def _found(shown: View, change: Change) -> Flags:
    """Which of the compared models the search finds."""
    if shown.found.all():
        return np.ones(len(change.models), np.bool_)
    rows = [shown.board.row_of.get(variant) for variant in change.models.values("variant")]
    return np.array([row is not None and bool(shown.found[row]) for row in rows], np.bool_)
