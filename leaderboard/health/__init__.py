"""How the site fares, for machines: whether it answers, can do its work, and how it stands."""

from leaderboard.health import stand
from leaderboard.health.checks import healthz, readyz
from leaderboard.health.metrics import metrics
from leaderboard.health.requests import UNCOUNTED, time_requests

__all__ = ["UNCOUNTED", "healthz", "metrics", "readyz", "stand", "time_requests"]
