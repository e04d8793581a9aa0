"""The key court: people rule on keys that answers suspect, and on any other question's."""

from leaderboard.court.order import RULINGS, Question, Refused, rule, strike, withdraw

__all__ = ["RULINGS", "Question", "Refused", "rule", "strike", "withdraw"]
