"""Accounts: signing up, signing in, and what belongs to one person."""

from leaderboard.accounts import endings

__all__ = ["endings"]
