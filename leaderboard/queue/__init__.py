"""Runs that wait, run and fail: claims, turns, pace, and the pages of queue and pool."""

from leaderboard.queue import (
    claims,
    estimate,
    fairness,
    orders,
    pace,
    recalling,
    records,
    reproduce,
    reruns,
    votes,
    wanted,
)
from leaderboard.queue.estimate import ALIVE, Plan, live_workers, reason
from leaderboard.queue.listing import (
    Cause,
    by_benchmark,
    by_cause,
    listed,
    of_model,
    standing,
    title_of,
)

__all__ = [
    "ALIVE",
    "Cause",
    "Plan",
    "by_benchmark",
    "by_cause",
    "claims",
    "estimate",
    "fairness",
    "listed",
    "live_workers",
    "of_model",
    "orders",
    "pace",
    "reason",
    "recalling",
    "records",
    "reproduce",
    "reruns",
    "standing",
    "title_of",
    "votes",
    "wanted",
]
