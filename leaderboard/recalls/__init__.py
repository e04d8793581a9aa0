"""Results that were found to be wrong: taken from every board, marked, measured again, listed."""

from leaderboard.recalls.order import (
    LONGEST_REASON,
    Concerned,
    Refused,
    again,
    build_boards,
    look,
    recall,
    undo,
)

__all__ = [
    "LONGEST_REASON",
    "Concerned",
    "Refused",
    "again",
    "build_boards",
    "look",
    "recall",
    "undo",
]
