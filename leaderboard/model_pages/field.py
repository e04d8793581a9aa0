"""Where a model stands in the field: on each benchmark its rank among all models of the board."""

from __future__ import annotations

from dataclasses import dataclass

from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Column, positions


@dataclass(frozen=True)
class Position:
    """A model's rank on one benchmark in one style, and the ranks that are not excluded."""

    column: Column
    rank: int
    low: int
    high: int
    of: int
    """Models with a score, this one among them."""

    def share(self, rank: int) -> float:
        """A rank as the share of the others that it leaves behind: 1 for the first of all."""
        return (self.of - rank) / (self.of - 1)

    @property
    def at(self) -> float:
        return self.share(self.rank)

    @property
    def bounds(self) -> tuple[float, float]:
        """The shares of the worst and of the best rank."""
        return self.share(self.high), self.share(self.low)

    @property
    def span(self) -> str:
        return f"{self.low:,}–{self.high:,}"


def positions_of(board: Board, row: int) -> list[Position]:
    """On each column in which it and another model of the field have a score, in board order.

    Columns whose numbers are no shares are left out: of a perplexity less is better. Empty for a
    model outside the field.
    """
    found = positions.of_board(board)
    sides = (side[row].tolist() for side in (found.rank, found.low, found.high))
    return [
        Position(column, *places)
        for column, *places in zip(board.columns, *sides, found.models.tolist(), strict=True)
        if places[0] and places[-1] > 1 and is_share(column.metric)
    ]
