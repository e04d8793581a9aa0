"""How the site fares, for machines: whether it answers, and whether it can do its work."""

from leaderboard.health.checks import healthz, readyz

__all__ = ["healthz", "readyz"]
