"""What the Hub says of a model: asked, cleaned and judged."""

from leaderboard.hub import client, faults, model_id, state
from leaderboard.hub.model_id import ModelReference
from leaderboard.hub.origin import Origin, origin_of, refuses_system
from leaderboard.hub.problem import HubSilent, Problem, Refused, Step
from leaderboard.hub.repository import Repository, clean_count, clean_text, read_repository

__all__ = [
    "HubSilent",
    "ModelReference",
    "Origin",
    "Problem",
    "Refused",
    "Repository",
    "Step",
    "clean_count",
    "clean_text",
    "client",
    "faults",
    "model_id",
    "origin_of",
    "read_repository",
    "refuses_system",
    "state",
]
