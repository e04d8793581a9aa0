"""Pages of words: method, changelog, about."""

from leaderboard.texts.page import METHOD

__all__ = ["METHOD"]
