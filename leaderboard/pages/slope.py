"""A change of style for its template: the slope chart, the largest movers, a pair that turns round.

Two orders of the same models stand side by side. A line is strong only where the model's two rank
ranges do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from django.urls import reverse
from numpy.typing import NDArray

from leaderboard.board_data import Flags
from leaderboard.style_order import Change, Order

MOST = 15
MOVERS = 10
TOP, STEP = 58, 28
"""Pixels: where the first line stands, and the distance between two."""


@dataclass(frozen=True)
class Place:
    """A model's rank in one style, and the ranks that are not excluded."""

    rank: int
    span: str


@dataclass(frozen=True)
class Slope:
    """One model; `kind` is up, down or empty (may be chance)."""

    repo_id: str
    name: str
    url: str
    left: Place
    right: Place
    y_left: int
    y_right: int
    kind: str


@dataclass(frozen=True)
class SlopeChart:
    slopes: list[Slope]
    left_out: int
    """Models that were asked for and are not drawn."""

    @property
    def height(self) -> int:
        return TOP + STEP * len(self.slopes)


@dataclass(frozen=True)
class Mover:
    """A model that changes places; `places` is how many it rises in the second style, or falls."""

    repo_id: str
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


@dataclass(frozen=True)
class Crossing:
    """Two models of which each leads in one style, where both leads were shown."""

    ahead: Mover
    behind: Mover


def slope_chart(change: Change, chosen: Flags, *, of_movers: bool = False) -> SlopeChart:
    """Of the chosen models, shape (models,), those that lead in the first style.

    With `of_movers` those that move most places, the ones beyond chance first.
    """
    rows = _farthest(change, chosen) if of_movers else np.flatnonzero(chosen)
    by_left = rows[np.argsort(change.first.rank[rows], kind="stable")][:MOST]
    at_right = np.argsort(np.argsort(change.second.rank[by_left], kind="stable"))
    strong, moved = change.beyond_chance, change.moved
    slopes = [
        Slope(
            repo_id=change.models[row].repo_id,
            name=change.models[row].repo_id.rpartition("/")[2],
            url=_url(change, row),
            left=_place(change.first, row),
            right=_place(change.second, row),
            y_left=TOP + STEP * left,
            y_right=TOP + STEP * right,
            kind=("up" if moved[row] > 0 else "down") if strong[row] else "",
        )
        for left, (row, right) in enumerate(zip(by_left.tolist(), at_right.tolist(), strict=True))
    ]
    # Strong lines are drawn last, over the others.
    slopes.sort(key=lambda slope: slope.kind != "")
    return SlopeChart(slopes, left_out=int(chosen.sum()) - len(slopes))


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
        repo_id=change.models[row].repo_id,
        name=name,
        owner=owner,
        url=_url(change, row),
        left=_place(change.first, row),
        right=_place(change.second, row),
        places=int(change.moved[row]),
        beyond_chance=bool(change.beyond_chance[row]),
    )


def _url(change: Change, row: int) -> str:
    return reverse("model", args=[change.models[row].repo_id])


def _place(order: Order, row: int) -> Place:
    """One that was cut off says that it may go on."""
    low, high = f"{order.low[row]:,}", f"{order.high[row]:,}"
    span = f"{'≤' if order.cut_low[row] else ''}{low}–{'≥' if order.cut_high[row] else ''}{high}"
    return Place(int(order.rank[row]), span)
