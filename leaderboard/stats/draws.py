"""How sure is a score that was measured with several draws of few-shot examples?

The questions are the same in every draw, so their sampling error does not shrink with more draws;
the examples' part does. Source: Biderman et al. 2024 (the lm-evaluation-harness paper), section 3,
which asks for both; Miller 2024 (arXiv 2411.00640), section 3.1, for adding the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from evalcore.stats.interval import Interval, containing


@dataclass(frozen=True)
class DrawnScore:
    """The mean over K draws, its 95 % interval, and how far single draws lie apart."""

    low: float
    value: float
    high: float
    k: int
    sd_of_draws: float
    """Standard deviation of the score over draws of examples."""


def over_draws(draws: Sequence[Interval], confidence: float = 0.95) -> DrawnScore:
    """Mean of the same questions' scores under K draws of examples.

    On each side the interval reaches `sqrt(q² + (t · s)² / K)`, q the mean distance of the draws'
    own bounds (sampling of questions), s the draws' standard deviation and t Student's quantile
    with K - 1 degrees of freedom. Raises ValueError for fewer than two draws.
    """
    from scipy.stats import t  # imported late: half a second that most callers need not spend

    k = len(draws)
    if k < 2:
        raise ValueError(f"draws: expected two or more, got {k}")
    values = np.array([draw.value for draw in draws])
    value, sd = float(values.mean()), float(values.std(ddof=1))
    spread = float(t.ppf((1 + confidence) / 2, k - 1)) * sd / sqrt(k)
    below = float(np.mean([draw.value - draw.low for draw in draws]))
    above = float(np.mean([draw.high - draw.value for draw in draws]))
    bounds = containing(value - np.hypot(below, spread), value, value + np.hypot(above, spread))
    return DrawnScore(float(bounds.low), value, float(bounds.high), k, sd)


def normalised(score: Interval, chance: float) -> Interval:
    """The score as its share of the way from a guesser's to 1: `(raw - chance) / (1 - chance)`.

    Below 0 for a score below chance, which only a display may cut off. Raises ValueError unless
    0 <= chance < 1.
    """
    if not 0 <= chance < 1:
        raise ValueError(f"chance: expected from 0 to below 1, got {chance}")
    low, value, high = (
        (one - chance) / (1 - chance) for one in (score.low, score.value, score.high)
    )
    return Interval(low, value, high)
