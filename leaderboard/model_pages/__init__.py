"""A model's page: its commits, places, scores and runs."""

from leaderboard.model_pages.places import Place, place

__all__ = ["Place", "place"]
