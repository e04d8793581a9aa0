"""A benchmark's page and a suite's: what is asked, and how good the questions are."""

from leaderboard.tasks import items, sisters
from leaderboard.tasks.column import run_with_samples

__all__ = ["items", "run_with_samples", "sisters"]
