"""The tables. Read `run.py` first: its rows are the queue."""

from leaderboard.models.agreement import Agreement
from leaderboard.models.cost import RunCost
from leaderboard.models.departure import Departure
from leaderboard.models.edition import Edition
from leaderboard.models.flag import Flag, FlagAnswer
from leaderboard.models.notice import EndNotice, Notices
from leaderboard.models.order import PoolOrder
from leaderboard.models.quota import Quota
from leaderboard.models.recall import Recall
from leaderboard.models.rerun import Rerun
from leaderboard.models.role import (
    Role,
    give,
    may_moderate,
    may_operate,
    may_submit,
    may_tell_workers,
    may_withdraw,
    role_of,
)
from leaderboard.models.ruling import DisputedSet, Ruling, SecondFigure
from leaderboard.models.run import LIVE, MEASURED, Artifact, Result, Run, RunEvent, Worker
from leaderboard.models.snapshot import BoardFault, BoardSnapshot
from leaderboard.models.submission import Submission, User, Vote
from leaderboard.models.task import Suite, SuiteEntry, TaskVersion
from leaderboard.models.token import ApiToken
from leaderboard.models.variant import HubModel, Variant
from leaderboard.models.vector import (
    ItemAnalysis,
    QuestionSet,
    ScoreVector,
)

__all__ = [
    "LIVE",
    "MEASURED",
    "Agreement",
    "ApiToken",
    "Artifact",
    "BoardFault",
    "BoardSnapshot",
    "Departure",
    "DisputedSet",
    "Edition",
    "EndNotice",
    "Flag",
    "FlagAnswer",
    "HubModel",
    "ItemAnalysis",
    "Notices",
    "PoolOrder",
    "QuestionSet",
    "Quota",
    "Recall",
    "Rerun",
    "Result",
    "Role",
    "Ruling",
    "Run",
    "RunCost",
    "RunEvent",
    "ScoreVector",
    "SecondFigure",
    "Submission",
    "Suite",
    "SuiteEntry",
    "TaskVersion",
    "User",
    "Variant",
    "Vote",
    "Worker",
    "give",
    "may_moderate",
    "may_operate",
    "may_submit",
    "may_tell_workers",
    "may_withdraw",
    "role_of",
]
