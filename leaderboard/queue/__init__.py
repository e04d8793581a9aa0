"""Runs that wait, run and fail: claims, turns, pace, and the pages of queue and pool."""

from leaderboard.queue import (
    claims,
    clock,
    estimate,
    fairness,
    orders,
    pace,
    recalling,
    records,
    reproduce,
    reruns,
    room,
    votes,
    wanted,
)
from leaderboard.queue.estimate import ALIVE, Plan, live_workers
from leaderboard.queue.failures import Cause, by_cause, standing
from leaderboard.queue.listing import by_benchmark, listed, of_model, title_of
from leaderboard.queue.turns import reason

__all__ = [
    "ALIVE",
    "Cause",
    "Plan",
    "by_benchmark",
    "by_cause",
    "claims",
    "clock",
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
    "room",
    "standing",
    "title_of",
    "votes",
    "wanted",
]
