"""Which of many comparisons hold together?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.interval import checked


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p values that bound the chance of any false claim among them (Holm 1979).

    Shape (m,), in the order given: the running maximum, from the smallest up, of
    `(m - rank + 1) · p`, at most 1. Raises ValueError for none, NaN, or values outside 0 to 1.
    """
    p, order = _in_order(p_values)
    return _back(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), order)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p values that bound the expected share of false claims (Benjamini, Hochberg 1995).

    Shape (m,), in the order given: the running minimum, from the largest down, of `m / rank · p`.
    Raises ValueError as `holm`.
    """
    p, order = _in_order(p_values)
    scaled = p[order] * (len(p) / np.arange(1, len(p) + 1))
    return _back(np.minimum.accumulate(scaled[::-1])[::-1], order)


def _in_order(p_values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    p = checked(p_values, "p_values")
    if p.min() < 0 or p.max() > 1:
        raise ValueError(f"p_values: expected 0 to 1, got {p.min()} to {p.max()}")
    return p, np.argsort(p, kind="stable")


def _back(adjusted: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    result = np.empty_like(adjusted)
    result[order] = np.minimum(adjusted, 1.0)
    return result
