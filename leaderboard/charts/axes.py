"""Everything that a chart may have to the right, in the order in which the page offers it."""

from __future__ import annotations

from leaderboard.charts.axis import SIZE, TIME
from leaderboard.charts.cost import JOULES, SECONDS, TOKENS

AXES = {axis.key: axis for axis in (SIZE, TIME, TOKENS, SECONDS, JOULES)}
