"""The tables. Read `run.py` first: its rows are the queue."""

from leaderboard.models.agreement import Agreement
from leaderboard.models.cost import RunCost
from leaderboard.models.disputed import DisputedSet, SecondFigure
from leaderboard.models.edition import Edition
from leaderboard.models.notice import EndNotice, Notices
from leaderboard.models.order import PoolOrder
from leaderboard.models.quota import Quota
from leaderboard.models.recall import Recall
from leaderboard.models.report import Report, ReportAnswer, Ruling
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
    "DisputedSet",
    "Edition",
    "EndNotice",
    "HubModel",
    "ItemAnalysis",
    "Notices",
    "PoolOrder",
    "QuestionSet",
    "Quota",
    "Recall",
    "Report",
    "ReportAnswer",
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
