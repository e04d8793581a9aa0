"""Models whose numbers somebody says should not be trusted: raised, answered, decided, listed."""

from leaderboard.flags.forms import Words
from leaderboard.flags.order import Refused, answer, decide, raise_flag, side_of

__all__ = ["Refused", "Words", "answer", "decide", "raise_flag", "side_of"]
