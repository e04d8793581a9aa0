"""What else than transformers computes models here, and whether it gives the same answers."""

from leaderboard.backends import agree

__all__ = ["agree"]
