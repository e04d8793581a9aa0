"""The tables. Read `run.py` first: its rows are the queue."""

from leaderboard.models.run import LIVE, Artifact, Result, Run, RunEvent, Worker
from leaderboard.models.submission import Submission, User
from leaderboard.models.task import Suite, SuiteEntry, TaskVersion
from leaderboard.models.variant import HubModel, Variant

__all__ = [
    "LIVE",
    "Artifact",
    "HubModel",
    "Result",
    "Run",
    "RunEvent",
    "Submission",
    "Suite",
    "SuiteEntry",
    "TaskVersion",
    "User",
    "Variant",
    "Worker",
]
