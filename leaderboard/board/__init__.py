"""The board: what a reader asks of it, as a table, a file and a picture."""

from leaderboard.board import search
from leaderboard.board.filters import facets_of, rows_named
from leaderboard.board.query import (
    BoardQuery,
    Days,
    as_it_stood,
    chosen_board,
    date_problem,
    days_of,
)
from leaderboard.board.table import CUT_SHORT
from leaderboard.board.view import column_keys, in_order, view_of

__all__ = [
    "CUT_SHORT",
    "BoardQuery",
    "Days",
    "as_it_stood",
    "chosen_board",
    "column_keys",
    "date_problem",
    "days_of",
    "facets_of",
    "in_order",
    "rows_named",
    "search",
    "view_of",
]
