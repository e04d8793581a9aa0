"""The slope chart: two orders of the same models side by side, drawn by the server."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboard.models import HubModel
from leaderboard.style_table import Crossing, StyleRow, StyleTable

MOST = 15
TOP, STEP = 58, 28
"""Pixels: where the first line stands, and the distance between two."""


@dataclass(frozen=True)
class Slope:
    """One model: rank and place in either order; `kind` is up, down or empty (may be chance)."""

    model: HubModel
    left: int
    right: int
    y_left: int
    y_right: int
    kind: str
    row: StyleRow


@dataclass(frozen=True)
class SlopeChart:
    slopes: list[Slope]
    left_out: int

    @property
    def height(self) -> int:
        return TOP + STEP * len(self.slopes)


def slope_chart(table: StyleTable, crossings: list[Crossing]) -> SlopeChart:
    """The models that lead in the first style; strong lines belong to a clear crossing."""
    rows = table.in_both
    by_left = _order(rows, 0)[:MOST]
    by_right = [row for row in _order(rows, 1) if row in by_left]
    strong = {
        id(row)
        for crossing in crossings
        if crossing.clear
        for row in (crossing.ahead, crossing.behind)
    }
    slopes = []
    for place, row in enumerate(by_left):
        left, right = _rank(row, by_left, 0), _rank(row, by_left, 1)
        kind = (
            ("up" if right < left else "down" if right > left else "") if id(row) in strong else ""
        )
        other = by_right.index(row)
        slopes.append(
            Slope(
                model=row.variant.hub_model,
                left=left,
                right=right,
                y_left=TOP + STEP * place,
                y_right=TOP + STEP * other,
                kind=kind,
                row=row,
            )
        )
    # Strong lines are drawn last, over the others.
    slopes.sort(key=lambda slope: slope.kind != "")
    return SlopeChart(slopes, left_out=len(rows) - len(by_left))


def _order(rows: list[StyleRow], place: int) -> list[StyleRow]:
    return sorted(rows, key=lambda row: -_value(row, place))


def _rank(row: StyleRow, rows: list[StyleRow], place: int) -> int:
    return 1 + sum(_value(other, place) > _value(row, place) for other in rows)


def _value(row: StyleRow, place: int) -> float:
    score = row.score(place)
    return score.value if score else float("-inf")
