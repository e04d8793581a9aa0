"""A benchmark's page and a suite's: what is asked, and how good the questions are."""

from leaderboard.tasks import items, sisters

__all__ = ["items", "sisters"]
