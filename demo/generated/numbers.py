"""Value, error and interval of many models' answers at once, as the engine makes them of one.

The arithmetic is that of `evalcore.score.numbers.uncertainty` over rows of an array; a test holds
every row against the engine's own functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from demo.generated.benchmarks import Benchmark
from evalcore.score.numbers.uncertainty import FEW, ROUNDING
from evalcore.stats.interval import normal_quantile

Floats = NDArray[np.float64]
Z = normal_quantile(0.95)


@dataclass(frozen=True)
class Numbers:
    """Of each model, shape (models,)."""

    value: Floats
    stderr: Floats
    low: Floats
    high: Floats

    def rows(self, chosen: NDArray[np.int64]) -> Numbers:
        return Numbers(*(values[chosen] for values in vars(self).values()))


def measure(right: NDArray[np.bool_], benchmark: Benchmark) -> Numbers:
    """The numbers of answers of shape (models, questions)."""
    if not benchmark.parts:
        return _of_task(right, benchmark.cluster)
    counts, sizes = _counts(right, benchmark.part), np.bincount(benchmark.part)
    if benchmark.by_parts:
        return _mean_of_parts(counts, sizes)
    return _pooled(counts, sizes)


def _of_task(right: NDArray[np.bool_], cluster: NDArray[np.int32] | None) -> Numbers:
    n, correct = right.shape[1], right.sum(axis=1)
    if cluster is None:
        return _independent(correct, n)
    value = correct / n
    sizes = np.bincount(cluster)
    sums = _counts(right, cluster) - value[:, None] * sizes
    groups = len(sizes)
    stderr = np.sqrt((sums**2).sum(axis=1)) / n * np.sqrt(groups / (groups - 1))
    stderr = np.where(stderr > ROUNDING, stderr, 0.0)
    half = _t_quantile(groups - 1) * stderr
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.minimum(value * (1 - value) / stderr**2, n)
    low, high = _wilson(value, np.where(stderr > 0, worth, groups))
    return _choose(value, stderr, half, low, high, correct, n)


def _independent(correct: NDArray[np.int64], n: int | NDArray[np.int64]) -> Numbers:
    """Of shape (...,): questions that do not depend on each other."""
    value = correct / n
    stderr = np.sqrt(value * (1 - value) / (np.asarray(n) - 1))
    low, high = _wilson(value, np.broadcast_to(n, value.shape))
    return _choose(value, stderr, Z * stderr, low, high, correct, n)


def _pooled(counts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Numbers:
    """The mean over fixed parts, counts of shape (models, parts)."""
    n, correct = int(sizes.sum()), counts.sum(axis=1)
    value, share = correct / n, counts / sizes
    within = (sizes * share * (1 - share)).sum(axis=1)
    stderr = np.sqrt(within / (n - len(sizes)) / n)
    low, high = _wilson(value, np.full(value.shape, n))
    return _choose(value, stderr, Z * stderr, low, high, correct, n)


def _mean_of_parts(counts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Numbers:
    """Every part counts alike; each side of the interval is from the parts' own (method.md)."""
    parts = _independent(counts, sizes)
    k = len(sizes)
    value = parts.value.mean(axis=1)
    below = np.sqrt(((parts.value - parts.low) ** 2).sum(axis=1)) / k
    above = np.sqrt(((parts.high - parts.value) ** 2).sum(axis=1)) / k
    stderr = np.sqrt((parts.stderr**2).sum(axis=1)) / k
    return Numbers(value, stderr, value - below, value + above)


def _choose(
    value: Floats,
    stderr: Floats,
    half: Floats,
    low: Floats,
    high: Floats,
    correct: NDArray[np.int64],
    n: int | NDArray[np.int64],
) -> Numbers:
    """Value ± half, but Wilson's bounds where few are right or few are wrong."""
    extreme = (np.minimum(correct, n - correct) < FEW) | (stderr == 0)
    low = np.where(extreme, low, value - half)
    high = np.where(extreme, high, value + half)
    return Numbers(value, stderr, np.minimum(low, value), np.maximum(high, value))


def _wilson(value: Floats, n: NDArray[np.float64] | NDArray[np.int64]) -> tuple[Floats, Floats]:
    centre = value + Z * Z / (2 * n)
    half = Z * np.sqrt(value * (1 - value) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    low = np.maximum(0.0, (centre - half) / scale)
    return np.minimum(low, value), np.maximum(np.minimum(1.0, (centre + half) / scale), value)


def _counts(right: NDArray[np.bool_], label: NDArray[np.int32]) -> NDArray[np.int64]:
    """Right answers by label, whose questions lie side by side: shape (models, labels)."""
    starts = np.flatnonzero(np.diff(label, prepend=-1))
    return np.add.reduceat(right, starts, axis=1, dtype=np.int64)


@cache
def _t_quantile(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))
