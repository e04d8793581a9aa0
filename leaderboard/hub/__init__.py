"""What the Hub says of a model: asked, cleaned and judged."""

from leaderboard.hub import faults, model_id, state
from leaderboard.hub.problem import HubSilent, Problem, Refused
from leaderboard.hub.repository import Repository

__all__ = ["HubSilent", "Problem", "Refused", "Repository", "faults", "model_id", "state"]
