"""What the Hub says of a model, asked, cleaned and judged."""

from leaderboard.hub import (
    adapters,
    architectures,
    chat_template,
    cleaning,
    client,
    files,
    model_id,
    own_code,
    state,
)
from leaderboard.hub.client import Repository
from leaderboard.hub.origin import Origin, origin_of
from leaderboard.hub.trouble import HubSilent

__all__ = [
    "HubSilent",
    "Origin",
    "Repository",
    "adapters",
    "architectures",
    "chat_template",
    "cleaning",
    "client",
    "files",
    "model_id",
    "origin_of",
    "own_code",
    "state",
]
