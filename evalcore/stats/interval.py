"""How sure is one score?

Sources: Miller 2024 (arXiv 2411.00640), eq. 1 and 4, for the standard errors; Wilson 1927 and
Newcombe 1998, method 3, for proportions near 0 or 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Interval:
    """Bounds of a confidence interval and the value inside it, all in the score's own unit."""

    low: float
    value: float
    high: float


def standard_error(scores: ArrayLike, clusters: Sequence[Hashable] | None = None) -> float:
    """Standard error of the mean of `scores` (shape (n,)).

    Independent questions: `sqrt(sum((s - mean)²) / (n - 1) / n)`. With `clusters` (one label per
    question), questions of a cluster may depend on each other:
    `sqrt(sum over clusters of (sum of (s - mean))²) / n · sqrt(G / (G - 1))`.

    Raises ValueError for fewer than two scores, NaN, labels that do not fit, or one cluster only.
    """
    values = _checked(scores)
    n = len(values)
    if n < 2:
        raise ValueError("scores: a standard error needs at least two")
    deviations = values - values.mean()
    if clusters is None:
        return float(sqrt((deviations**2).sum() / (n - 1) / n))
    if len(clusters) != n:
        raise ValueError(f"clusters: {len(clusters)} labels for {n} scores")
    index = {label: place for place, label in enumerate(dict.fromkeys(clusters))}
    if len(index) < 2:
        raise ValueError("clusters: a standard error needs at least two")
    sums = np.bincount([index[label] for label in clusters], weights=deviations)
    return float(sqrt((sums**2).sum()) / n * sqrt(len(index) / (len(index) - 1)))


def interval(
    scores: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Mean of `scores` (shape (n,)) within `mean ± q · SE`.

    `q` is the normal quantile for independent questions and Student's t with G - 1 degrees of
    freedom for G clusters. Raises ValueError as `standard_error` does.
    """
    values = _checked(scores)
    error = standard_error(values, clusters)
    if clusters is None:
        quantile = normal_quantile(confidence)
    else:
        from scipy.stats import t  # imported late: half a second that most callers need not spend

        quantile = float(t.ppf((1 + confidence) / 2, len(set(clusters)) - 1))
    return around(float(values.mean()), quantile * error)


def wilson(correct: float, n: float, confidence: float = 0.95) -> Interval:
    """Score interval for a proportion (Wilson 1927; Newcombe 1998, method 3).

    Not Wald: that has zero width at 0 % and 100 %. `n` may be an effective number of questions.
    Raises ValueError unless 0 <= correct <= n.
    """
    if not n > 0:
        raise ValueError(f"n: expected more than 0, got {n}")
    if not 0 <= correct <= n:
        raise ValueError(f"correct: expected 0 to {n}, got {correct}")
    p, z = correct / n, normal_quantile(confidence)
    centre = p + z * z / (2 * n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return _containing((centre - half) / scale, p, (centre + half) / scale)


def around(value: float, half_width: float) -> Interval:
    """The interval `value ± half_width`."""
    return _containing(value - half_width, value, value + half_width)


def normal_quantile(confidence: float) -> float:
    """Two-sided quantile of the standard normal: 1.96 for 0.95."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected between 0 and 1, got {confidence}")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _containing(low: float, value: float, high: float) -> Interval:
    # Rounding can put a bound a hair on the wrong side of the value (0 of 3: low = 4.9e-17).
    return Interval(min(low, value), value, max(high, value))


def _checked(scores: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores: expected a non-empty list of numbers, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores: contain NaN or infinity")
    return values
