"""The portrait of a model: where it stands in the field, and which models are like it.

It is made from the boards that the page has at hand anyway, so that it takes no further query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaderboard.model_pages import neighbours
from leaderboard.model_pages.field import Position, positions_of
from leaderboard.model_pages.neighbours import Neighbour, Similar
from leaderboard.model_pages.places import Boards, Place, place
from leaderboard.model_pages.size_chart import SizeChart, size_chart
from leaderboard.snapshot import positions
from leaderboard.web import Scale

FIELD = Scale.plain(0, 1, start=2, end=98)
"""From the last of the field to its first."""
MIN_BENCHMARKS = 3
"""Of two, one would be the highest and the other the lowest, whatever they are."""


@dataclass(frozen=True)
class Row:
    """A benchmark of the profile: its position in each style that has one."""

    title: str
    task: str
    positions: Sequence[Position]


@dataclass(frozen=True)
class Extremes:
    """The benchmarks on which a model leaves most and fewest of the others behind.

    By ranks and not by scores: a benchmark may be easy for all.
    """

    highest: Position
    lowest: Position
    of: int
    """Benchmarks that they were picked from."""

    @property
    def overlap(self) -> bool:
        """Whether the ranges share a position, so that the two may be equally strong."""
        return self.highest.bounds[0] <= self.lowest.bounds[1]


@dataclass(frozen=True)
class Portrait:
    """What the first screen of a model's page says."""

    rows: list[Row]
    styles: list[str]
    """Those that the profile has, in the board's order."""
    by_style: list[Place]
    """Its rank on the board of each style."""
    extremes: Extremes | None
    alone: bool
    """Whether it is the only model that the board may rank."""
    outside: bool
    """Whether the board may give it no rank at all, so that it has no place in the field."""
    not_told_apart: list[Neighbour]
    compare_url: str
    similar: Similar
    chart: SizeChart | None

    @property
    def most(self) -> int:
        """Models in the largest field."""
        return max((one.of for row in self.rows for one in row.positions), default=0)


def portrait(boards: Boards, variant: int, base: str) -> Portrait | None:
    """Of a commit on the chosen suite's own board; None where it is not on it."""
    own = place(boards.own, variant)
    if own is None:
        return None
    styled = [one for board in boards.styled if (one := place(board, variant))]
    found = {one.board.style: positions_of(one.board, one.row) for one in styled}
    rows = _rows(found.values())
    claims = neighbours.verdicts(own.board, own.row)
    near = neighbours.not_told_apart(own, claims)
    return Portrait(
        rows=rows,
        styles=[style for style in own.board.styles if found.get(style)],
        by_style=[one for one in styled if one.rank],
        extremes=_extremes(positions_of(own.board, own.row)),
        alone=int(positions.members(own.board).sum()) < 2,
        outside=not positions.members(own.board)[own.row],
        not_told_apart=near,
        compare_url=neighbours.compare_url(own, near),
        similar=neighbours.similar(own, base, claims),
        chart=size_chart(own.board, own.row, own.average),
    )


def _rows(by_style: Iterable[Sequence[Position]]) -> list[Row]:
    """By benchmark in the order of the boards, each with its styles in theirs."""
    found: dict[str, list[Position]] = {}
    for of_style in by_style:
        for position in of_style:
            found.setdefault(position.column.benchmark, []).append(position)
    return [
        Row(own[0].column.title, next((o for o in own if o.column.own), own[0]).column.task, own)
        for own in found.values()
    ]


def _extremes(own: Sequence[Position]) -> Extremes | None:
    """In the styles that count; None for too few benchmarks, or where all are level."""
    if len(own) < MIN_BENCHMARKS:
        return None
    highest, lowest = max(own, key=lambda one: one.at), min(own, key=lambda one: one.at)
    return Extremes(highest, lowest, len(own)) if highest.at > lowest.at else None
