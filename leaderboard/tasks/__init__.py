"""A benchmark's page and a suite's: what is asked, and how good the questions are."""

from leaderboard.tasks import column, items
from leaderboard.tasks.column import analysed_column
from leaderboard.tasks.items import Table
from leaderboard.tasks.pairs import Pair, Pairs

__all__ = ["Pair", "Pairs", "Table", "analysed_column", "column", "items"]
