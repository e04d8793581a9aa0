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
    values = checked(scores)
    n = len(values)
    if n < 2:
        raise ValueError("scores: a standard error needs at least two")
    deviations = values - values.mean()
    if clusters is None:
        return float(sqrt((deviations**2).sum() / (n - 1) / n))
    sums = np.bincount(cluster_indexes(clusters, n), weights=deviations)
    return float(sqrt((sums**2).sum()) / n * sqrt(len(sums) / (len(sums) - 1)))


def interval(
    scores: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Mean of `scores` (shape (n,)) within `mean ± q · SE`.

    `q` is the normal quantile for independent questions and Student's t with G - 1 degrees of
    freedom for G clusters. Raises ValueError as `standard_error` does.
    """
    values = checked(scores)
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
    # Rounding can put a bound a hair outside of 0 to 1.
    low, high = max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
    return containing(low, p, high)


def around(value: float, half_width: float) -> Interval:
    """The interval `value ± half_width`."""
    return containing(value - half_width, value, value + half_width)


def normal_quantile(confidence: float) -> float:
    """Two-sided quantile of the standard normal: 1.96 for 0.95."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected between 0 and 1, got {confidence}")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def containing(low: float, value: float, high: float) -> Interval:
    """The interval, widened to hold the value.

    Rounding can put a bound a hair on the wrong side of it (0 of 3: low = 4.9e-17).
    """
    return Interval(min(low, value), value, max(high, value))


def checked(scores: ArrayLike, name: str = "scores") -> NDArray[np.float64]:
    """As an array of shape (n,); raises ValueError with the argument's name for anything else."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name}: expected a non-empty list of numbers, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: contain NaN or infinity")
    return values


def checked_pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both `checked`, and of one length."""
    first, second = checked(a, "a"), checked(b, "b")
    if len(first) != len(second):
        raise ValueError(f"b: {len(second)} scores for {len(first)} of a")
    return first, second


def cluster_indexes(clusters: Sequence[Hashable], n: int) -> NDArray[np.int64]:
    """The labels of n documents as numbers from 0; ValueError if they do not fit or are all one."""
    if len(clusters) != n:
        raise ValueError(f"clusters: {len(clusters)} labels for {n} scores")
    places: dict[Hashable, int] = {}
    indexes = np.array([places.setdefault(label, len(places)) for label in clusters])
    if len(places) < 2:
        raise ValueError("clusters: a standard error needs at least two")
    return indexes
