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
LEVEL = 0.05
BLOCK = 256
"""Models whose bounds are looked at together."""


def held_together(value: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds of 95 % intervals, shape (models,) or (models, columns), that hold for a column.

    NaN stands for a model without a score, for which nothing is allowed.
    """
    return _widened(value, low, high, _widening((~np.isnan(value)).sum(axis=0)))


def range_of(
    row: int, value: Floats, low: Floats, high: Floats, field: Flags
) -> tuple[Counts, Counts, Counts]:
    """Best and worst rank of a model in each column, and of how many, by intervals held together.

    Shapes (models, columns), and (models,) for `field`, those that count, the model itself among
    them. NaN stands for a model without a score, which is no competitor; of a column in which the
    model itself is NaN the ranks say nothing. Of 10,000 models on 60 columns an array of bounds has
    5 MB: block by block they stay in the processor's own memory.
    """
    models: Counts = (~np.isnan(value) & field[:, None]).sum(axis=0)
    wider = _widening(models)

    def bounds(rows: slice) -> tuple[Floats, Floats]:
        return _widened(value[rows], low[rows], high[rows], wider)

    own_low, own_high = bounds(slice(row, row + 1))
    above, below = np.zeros_like(models), np.zeros_like(models)
    for start in range(0, len(value), BLOCK):
        block = slice(start, start + BLOCK)
        lows, highs = bounds(block)
        counts = field[block, None]
        above += ((lows > own_high) & counts).sum(axis=0)
        below += ((highs < own_low) & counts).sum(axis=0)
    return 1 + above, models - below, models


def _widened(value: Floats, low: Floats, high: Floats, wider: Floats) -> tuple[Floats, Floats]:
    return value - wider * (value - low), value + wider * (high - value)


def _widening(models: Counts) -> Floats:
    """How much wider the intervals of so many models are, all of which are to hold."""
    usual = normal_quantile(1 - LEVEL)
    of_models = {int(n): normal_quantile(1 - LEVEL / n) / usual for n in np.unique(models) if n}
    wider: Floats = np.vectorize(lambda n: of_models.get(int(n), 1.0), otypes=[np.float64])(models)
    return wider
