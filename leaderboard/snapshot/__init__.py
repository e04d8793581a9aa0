"""A board as it stood: built in the background, kept as a file, read from memory."""

from leaderboard.snapshot import positions, published, recalled, table_file
from leaderboard.snapshot.cells import of_draws
from leaderboard.snapshot.costs import MEASURES, Cost, Costs
from leaderboard.snapshot.data import (
    EVERY,
    OWN,
    PRECEDENCE,
    STANDINGS,
    BestOf,
    Board,
    Column,
    Crossing,
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
from leaderboard.snapshot.fronts import SECONDS, SIZE, TIME, TOKENS, Front
from leaderboard.snapshot.models import Model, Models
from leaderboard.snapshot.spread import Spread
from leaderboard.snapshot.style_facts import in_styles
from leaderboard.snapshot.table_file import Refused, TableFile

__all__ = [
    "EVERY",
    "MEASURES",
    "OWN",
    "PRECEDENCE",
    "SECONDS",
    "SIZE",
    "STANDINGS",
    "TIME",
    "TOKENS",
    "BestOf",
    "Board",
    "Column",
    "Cost",
    "Costs",
    "Crossing",
    "Flags",
    "Floats",
    "Front",
    "Ints",
    "Model",
    "Models",
    "Ranks",
    "Refused",
    "Score",
    "Scores",
    "Spread",
    "Standing",
    "StyleGap",
    "TableFile",
    "Unreadable",
    "in_styles",
    "of_draws",
    "positions",
    "published",
    "recalled",
    "run_urls",
    "table_file",
]
