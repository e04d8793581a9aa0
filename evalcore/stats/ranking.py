"""Which ranks can a model have?

Source: Mogstad, Romano, Shaikh and Wilhelm 2024 (Review of Economic Studies 91, 476-518): step-down
max-T over all ordered pairs gives ranges that hold for all models at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.interval import cluster_indexes

BLOCK = 2**20
"""Pair differences held at once, about."""
SAME = 1e-12
"""Below this share of both variances, that of a difference is rounding: the models are one."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class RankRanges:
    """Best and worst rank of each model, 1 for the highest mean, simultaneously valid."""

    ranges: NDArray[np.int64]
    """Shape (models, 2)."""
    better: NDArray[np.bool_]
    """Shape (models, models): true at [j, k] where j was shown to be better than k."""


def rank_ranges(
    scores: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> RankRanges:
    """Ranges of the ranks of models by mean score; `scores` has shape (models, documents).

    Means are jointly normal with covariance `G / (G - 1) / n² · sum over clusters of e eᵀ`, e the
    sums of the models' deviations in a cluster (each document its own where there are none); the
    draws are of a t with G - 1 degrees of freedom, which matters where clusters are few. A pair is
    rejected where its difference exceeds the `confidence` quantile of the largest standardised
    difference among the pairs not yet rejected, until no more are. Raises ValueError for scores
    without two documents, NaN, labels that do not fit, or one cluster.
    """
    values = _checked(scores, confidence, draws)
    means = values.mean(axis=1)
    contributions = _contributions(values, clusters)
    units = contributions.shape[1]
    covariance = contributions @ contributions.T * (units / (units - 1))
    deviation = _deviation_of_differences(covariance)
    chance = _draws(covariance, units - 1, draws, seed)
    better = _step_down(means, deviation, chance, confidence)
    lower = 1 + better.sum(axis=0)
    upper = len(means) - better.sum(axis=1)
    return RankRanges(np.stack([lower, upper], axis=1).astype(np.int64), better)


def _contributions(values: Matrix, clusters: Sequence[Hashable] | None) -> Matrix:
    """What each document or cluster adds to the means' deviations, shape (models, units)."""
    n = values.shape[1]
    deviations: Matrix = (values - values.mean(axis=1, keepdims=True)) / n
    if clusters is None:
        return deviations
    of_document = cluster_indexes(clusters, n)
    sums = np.zeros((of_document.max() + 1, len(values)))
    np.add.at(sums, of_document, deviations.T)
    return np.asarray(sums.T)


def _deviation_of_differences(covariance: Matrix) -> Matrix:
    """Standard deviation of each difference of two means; 0 for models that answer alike."""
    variances = np.diag(covariance)
    both = variances[:, None] + variances
    squared = both - 2 * covariance
    return np.sqrt(np.where(squared > SAME * both, squared, 0.0))


def _draws(covariance: Matrix, freedom: int, draws: int, seed: int) -> Matrix:
    """Deviations of the means by chance alone, shape (draws, models)."""
    generator = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # rounding can leave a hair below 0
    normal = generator.standard_normal((draws, len(covariance))) @ root.T
    scale = np.sqrt(generator.chisquare(freedom, size=draws) / freedom)
    return np.asarray(normal / scale[:, None])


def _step_down(
    means: Matrix, deviation: Matrix, chance: Matrix, confidence: float
) -> NDArray[np.bool_]:
    difference = means[:, None] - means
    # Models that differ by the same amount on every document leave nothing to chance.
    better: NDArray[np.bool_] = (deviation == 0) & (difference > SAME)
    while True:
        open_pairs = (deviation > 0) & ~better
        if not open_pairs.any():
            return better
        quantile = _quantile_of_largest(chance, deviation, open_pairs, confidence)
        rejected = open_pairs & (difference > quantile * deviation)
        if not rejected.any():
            return better
        better |= rejected


def _quantile_of_largest(
    chance: Matrix, deviation: Matrix, pairs: NDArray[np.bool_], confidence: float
) -> float:
    """Quantile over the draws of the largest standardised difference among `pairs`."""
    first, second = np.nonzero(pairs)
    scale = 1 / deviation[pairs]
    block = max(1, BLOCK // len(first))
    largest = [
        ((part[:, first] - part[:, second]) * scale).max(axis=1)
        for part in (chance[start : start + block] for start in range(0, len(chance), block))
    ]
    return float(np.quantile(np.concatenate(largest), confidence, method="higher"))


def _checked(scores: ArrayLike, confidence: float, draws: int) -> Matrix:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or len(values) < 1 or values.shape[1] < 2:
        raise ValueError(
            f"scores: expected shape (models, documents) with two documents or more, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores: contain NaN or infinity")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected between 0 and 1, got {confidence}")
    if draws < 1000:
        raise ValueError(f"draws: expected 1000 or more, got {draws}")
    return values
