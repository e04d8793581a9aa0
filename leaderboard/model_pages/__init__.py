"""A model's page: its standing, its scores, its runs, and what its author takes along."""

from leaderboard.model_pages.standing import place

__all__ = ["place"]
