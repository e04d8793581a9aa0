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
LEVEL = 0.05


def held_together(value: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds of 95 % intervals, shape (models,) or (models, columns), that hold for a column.

    NaN stands for a model without a score, for which nothing is allowed.
    """
    models = (~np.isnan(value)).sum(axis=0)
    usual = normal_quantile(1 - LEVEL)
    of_models = {int(n): normal_quantile(1 - LEVEL / n) / usual for n in np.unique(models) if n}
    wider = np.vectorize(lambda n: of_models.get(int(n), 1.0), otypes=[np.float64])(models)
    return value - wider * (value - low), value + wider * (high - value)


def range_of(row: int, low: Floats, high: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Best and worst rank of one model in each column of bounds, shape (models, columns).

    NaN is nobody's bound: such a model is no competitor. Of a column in which the model itself is
    NaN the ranks say nothing.
    """
    models = (~np.isnan(low)).sum(axis=0)
    above = (low > high[row]).sum(axis=0)
    below = (high < low[row]).sum(axis=0)
    return 1 + above, models - below
