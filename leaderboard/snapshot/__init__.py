"""A board as it stood: built in the background, kept as a file, read from memory."""

from leaderboard.snapshot import adjusted, positions, published, recalled, table_file
from leaderboard.snapshot.cells import mean_of_draws
from leaderboard.snapshot.data import (
    EVERY,
    MEASURES,
    OWN,
    PRECEDENCE,
    STANDINGS,
    BestOf,
    Board,
    Column,
    Flags,
    Floats,
    Ints,
    Ranks,
    Score,
    Scores,
    Standing,
    StyleGap,
    run_urls,
)
from leaderboard.snapshot.file import Unreadable
from leaderboard.snapshot.models import Model, Models
from leaderboard.snapshot.style_facts import in_styles
from leaderboard.snapshot.table_file import Refused, TableFile

__all__ = [
    "EVERY",
    "MEASURES",
    "OWN",
    "PRECEDENCE",
    "STANDINGS",
    "BestOf",
    "Board",
    "Column",
    "Flags",
    "Floats",
    "Ints",
    "Model",
    "Models",
    "Ranks",
    "Refused",
    "Score",
    "Scores",
    "Standing",
    "StyleGap",
    "TableFile",
    "Unreadable",
    "adjusted",
    "in_styles",
    "mean_of_draws",
    "positions",
    "published",
    "recalled",
    "run_urls",
    "table_file",
]
