"""The board: what a reader asked of it, as a table, a file and a picture."""

from leaderboard.board import frame, search
from leaderboard.board.cells import (
    CUT_SHORT,
    Cell,
    Drawn,
    Look,
    average_cells,
    cell_urls,
    column_cells,
    column_scale,
)
from leaderboard.board.filters import facets_of, rows_named
from leaderboard.board.view import chosen_board, date_problem, in_order, view_of
from leaderboard.board.wanted import Wanted, column_keys

__all__ = [
    "CUT_SHORT",
    "Cell",
    "Drawn",
    "Look",
    "Wanted",
    "average_cells",
    "cell_urls",
    "chosen_board",
    "column_cells",
    "column_keys",
    "column_scale",
    "date_problem",
    "facets_of",
    "frame",
    "in_order",
    "rows_named",
    "search",
    "view_of",
]
