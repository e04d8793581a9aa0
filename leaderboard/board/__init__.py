"""The board: what a reader asks of it, as a table, a file and a picture."""

from leaderboard.board import search
from leaderboard.board.filters import facets_of, filter_label, filtered, rows_named
from leaderboard.board.page import CheckedNumber, checked_number, sheet_context
from leaderboard.board.query import (
    CHOICES,
    FILTERS,
    GPUS,
    BoardQuery,
    Days,
    as_it_stood,
    chosen_board,
    date_problem,
    days_of,
    style_label,
)
from leaderboard.board.reversal import shared_as
from leaderboard.board.table import CUT_SHORT, by_row, cells_by_column
from leaderboard.board.view import column_keys, in_order, view_of

__all__ = [
    "CHOICES",
    "CUT_SHORT",
    "FILTERS",
    "GPUS",
    "BoardQuery",
    "CheckedNumber",
    "Days",
    "as_it_stood",
    "by_row",
    "cells_by_column",
    "checked_number",
    "chosen_board",
    "column_keys",
    "date_problem",
    "days_of",
    "facets_of",
    "filter_label",
    "filtered",
    "in_order",
    "rows_named",
    "search",
    "shared_as",
    "sheet_context",
    "style_label",
    "view_of",
]
