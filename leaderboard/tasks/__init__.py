"""A benchmark's page and a suite's: what is asked, and how good the questions are."""

from leaderboard.tasks import column, items, sisters

__all__ = ["column", "items", "sisters"]
