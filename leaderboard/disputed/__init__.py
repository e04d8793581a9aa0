"""Questions whose keys people dispute, and every score without them: a second figure that never
ranks."""

from leaderboard.disputed.figures import compute_due
from leaderboard.disputed.mark import mark
from leaderboard.disputed.ruled import LEAST, Counts, counts_of, settle
from leaderboard.disputed.second import (
    Second,
    Seconds,
    of_board,
    of_results,
    of_variants,
    over_draws,
    sets_of,
)

__all__ = [
    "LEAST",
    "Counts",
    "Second",
    "Seconds",
    "compute_due",
    "counts_of",
    "mark",
    "of_board",
    "of_results",
    "of_variants",
    "over_draws",
    "sets_of",
    "settle",
]
