"""Which ranks can a model have on one benchmark, by separate intervals that hold together?

No pair is compared question by question: a model is better than another where its whole interval
lies above. The intervals of all models are widened until they hold at once (Bonferroni), so that
what is said of any of them is right in 95 of 100 such measurements (docs/method.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evalcore.stats.interval import normal_quantile

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Ranks = NDArray[np.int32]
LEVEL = 0.05


def held_together(value: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds of 95 % intervals, shape (models,) or (models, columns), that hold for a column.

    NaN stands for a model without a score, for which nothing is allowed.
    """
    return _widened(value, low, high, _widening((~np.isnan(value)).sum(axis=0)))


def ranges_of(
    value: Floats, low: Floats, high: Floats, field: Flags
) -> tuple[Ranks, Ranks, Ranks, Ranks]:
    """Rank, best and worst rank of each model in each column, by intervals held together, and of
    how many.

    Shapes (models, columns) three times, and (columns,); `field`, shape (models,), are those that
    count. NaN stands for a model without a score, which is no competitor. 0 for a model that does
    not count in a column.
    """
    counts = ~np.isnan(value) & field[:, None]
    models: Counts = counts.sum(axis=0)
    lows, highs = _widened(value, low, high, _widening(models))
    rank, best, worst = (np.zeros(value.shape, np.int32) for _ in range(3))
    for at, of in enumerate(models):
        own = counts[:, at]
        for places, bound, others in (
            (rank, value, value),
            (best, highs, lows),  # above is whose whole interval lies above
        ):
            above = of - np.searchsorted(np.sort(others[own, at]), bound[own, at], side="right")
            places[own, at] = 1 + above
        worst[own, at] = of - np.searchsorted(np.sort(highs[own, at]), lows[own, at], side="left")
    return rank, best, worst, models.astype(np.int32)


def _widened(value: Floats, low: Floats, high: Floats, wider: Floats) -> tuple[Floats, Floats]:
    return value - wider * (value - low), value + wider * (high - value)


def _widening(models: Counts) -> Floats:
    """How much wider the intervals of so many models are, all of which are to hold."""
    usual = normal_quantile(1 - LEVEL)
    of_models = {int(n): normal_quantile(1 - LEVEL / n) / usual for n in np.unique(models) if n}
    wider: Floats = np.vectorize(lambda n: of_models.get(int(n), 1.0), otypes=[np.float64])(models)
    return wider
