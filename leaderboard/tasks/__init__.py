"""A benchmark's page and a suite's: what is asked, and how good the questions are."""

from leaderboard.tasks import column, items

__all__ = ["column", "items"]
