"""Which ranks can a model have?

Source: Mogstad, Romano, Shaikh and Wilhelm 2024 (Review of Economic Studies 91, 476-518): step-down
max-T over all ordered pairs gives ranges that hold for all models at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.blocks import Block, block
from evalcore.stats.interval import checked, cluster_indexes

FEW = 100
"""Degrees of freedom below which a block of an average is drawn for itself, as a t."""
SAME = 1e-12
"""Below this share of both variances, that of a difference is rounding: the models are one."""
AT_ONCE = 16
"""Models whose differences from all others are looked at together."""

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
    sums of the models' deviations in a cluster (each document its own where there are none). See
    `shown_better` for the procedure. Raises ValueError for scores without two documents, NaN,
    labels that do not fit, or one cluster.
    """
    values = np.asarray(scores, dtype=np.float64)
    labels = None if clusters is None else cluster_indexes(clusters, values.shape[-1])
    task = block(values, clusters=labels)
    better = shown_better(task.means, [task], confidence=confidence, draws=draws, seed=seed)
    lower = 1 + better.sum(axis=0)
    upper = len(better) - better.sum(axis=1)
    return RankRanges(np.stack([lower, upper], axis=1).astype(np.int64), better)


def rank_upper_bound(low: ArrayLike, high: ArrayLike) -> NDArray[np.int64]:
    """Arena's Rank (UB) of models with these bounds of their intervals, each of shape (models,).

    1 + the models whose lower bound lies above one's own upper bound. Separate intervals, so it
    holds for no pair in particular; here because readers know it. Raises ValueError for bounds that
    are not finite or differ in number.
    """
    lows, highs = checked(low, "low"), checked(high, "high")
    if len(lows) != len(highs):
        raise ValueError(f"high: {len(highs)} bounds for {len(lows)} of low")
    above = len(lows) - np.searchsorted(np.sort(lows), highs, side="right")
    return np.asarray(1 + above, dtype=np.int64)


def shown_better(
    means: Matrix,
    blocks: Iterable[Block],
    *,
    own_variance: Matrix | None = None,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> NDArray[np.bool_]:
    """Shape (models, models): true at [j, k] where model j was shown to be better than k.

    `means` are the models' averages, whose errors are the sum of the independent `blocks` and of
    `own_variance`, which no two models share. A pair is claimed where its difference exceeds the
    `confidence` quantile, over the draws, of the largest standardised difference among the pairs
    not yet claimed, until no more are. Raises ValueError for a confidence not between 0 and 1 and
    for fewer than 1000 draws.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected between 0 and 1, got {confidence}")
    if draws < 1000:
        raise ValueError(f"draws: expected 1000 or more, got {draws}")
    variances = np.zeros(len(means)) if own_variance is None else own_variance
    covariance, chance = _by_chance(blocks, variances, draws, np.random.default_rng(seed))
    return _step_down(means, _deviation_of_differences(covariance), chance, confidence)


def _by_chance(
    blocks: Iterable[Block], own_variance: Matrix, draws: int, generator: np.random.Generator
) -> tuple[Matrix, Matrix]:
    """Covariance of the means and their deviations by chance alone, shape (draws, models).

    The variance of a block of few units is itself uncertain, so its draws are divided by
    `sqrt(χ²_f / f)`. Larger blocks are drawn as one, with the degrees of freedom of the sum of
    their variances (Satterthwaite 1946).
    """
    models = len(own_variance)
    few, many = np.zeros((models, models)), np.diag(own_variance)
    chance = np.zeros((draws, models))
    uncertainty = 0.0
    for task in blocks:
        deviations = np.asarray(task.deviations, dtype=np.float64)
        if deviations.shape[0] != models:
            raise ValueError(f"blocks: {deviations.shape[0]} models in one, {models} means")
        covariance = deviations @ deviations.T
        if task.freedom < FEW:
            few += covariance
            normal = generator.standard_normal((draws, deviations.shape[1])) @ deviations.T
            chance += normal * _unsure(task.freedom, draws, generator)
        else:
            many += covariance
            uncertainty += np.trace(covariance) ** 2 / task.freedom
    if many.any():
        values, vectors = np.linalg.eigh(many)
        root = vectors * np.sqrt(np.maximum(values, 0.0))  # rounding can leave a hair below 0
        normal = generator.standard_normal((draws, models)) @ root.T
        if uncertainty:
            normal *= _unsure(np.trace(many) ** 2 / uncertainty, draws, generator)
        chance += normal
    return few + many, chance


def _unsure(freedom: float, draws: int, generator: np.random.Generator) -> Matrix:
    """What makes a normal draw one of Student's t, shape (draws, 1)."""
    return 1 / np.sqrt(generator.chisquare(freedom, size=(draws, 1)) / freedom)


def _deviation_of_differences(covariance: Matrix) -> Matrix:
    """Standard deviation of each difference of two means; 0 for models that answer alike."""
    variances = np.diag(covariance)
    both = variances[:, None] + variances
    squared = both - 2 * covariance
    return np.sqrt(np.where(squared > SAME * both, squared, 0.0))


def _step_down(
    means: Matrix, deviation: Matrix, chance: Matrix, confidence: float
) -> NDArray[np.bool_]:
    difference = means[:, None] - means
    # Models that differ by the same amount on every document leave nothing to chance.
    better: NDArray[np.bool_] = (deviation == 0) & (difference > SAME)
    open_pairs = deviation > 0
    largest = _Largest(chance, deviation)
    beyond = len(chance) - ceil(confidence * (len(chance) - 1))
    while open_pairs.any():
        rejected = open_pairs & (difference > largest.exceeded_by(beyond) * deviation)
        if not rejected.any():
            break
        better |= rejected
        open_pairs &= ~rejected
        largest.close(rejected)
    return better


class _Largest:
    """The largest standardised difference of each draw among the pairs that are open, at least 0.

    A draw is looked at only where what is known to bound it is among the highest: at first what its
    models' distances from its ends allow, later what was found before pairs were closed, which can
    only lower it. Rounding keeps order, so that a bound is none too low by a hair.
    """

    def __init__(self, chance: Matrix, deviation: Matrix) -> None:
        # Single precision halves the time: errors of 1e-7 are far below those of any draw.
        self._chance = chance.astype(np.float32)
        self._scale = np.zeros(deviation.shape, dtype=np.float32)  # 0 closes a pair
        np.divide(1, deviation, out=self._scale, where=deviation > 0)
        lowest, highest = self._chance.min(axis=1), self._chance.max(axis=1)
        above = (self._chance - lowest[:, None]) * self._scale.max(axis=1)
        below = (highest[:, None] - self._chance) * self._scale.max(axis=0)
        self._bound = np.minimum(above.max(axis=1), below.max(axis=1))
        self._pair = np.zeros(len(chance), dtype=np.int64)  # that of model 0 with itself: closed

    def close(self, pairs: NDArray[np.bool_]) -> None:
        self._scale[pairs] = 0

    def exceeded_by(self, count: int) -> float:
        """The `count`-th highest over the draws."""
        largest_scale = self._scale.max(axis=1)
        while True:
            highest = np.argpartition(self._bound, -count)[-count:]
            outdated = self._scale.ravel()[self._pair[highest]] == 0
            outdated &= self._bound[highest] > 0
            if not outdated.any():
                return float(self._bound[highest].min())
            for draw in highest[outdated]:
                self._look_at(draw, largest_scale)

    def _look_at(self, draw: np.int64, largest_scale: NDArray[np.float32]) -> None:
        """From the models that may exceed most on, until the others cannot exceed what is found."""
        one = self._chance[draw]
        at_most = (one - one.min()) * largest_scale
        order = np.argsort(-at_most, kind="stable")
        largest, pair = np.float32(0), 0
        for start in range(0, len(order), AT_ONCE):
            models = order[start : start + AT_ONCE]
            if at_most[models[0]] <= largest:
                break
            found = (one[models, None] - one) * self._scale[models]
            place = int(found.argmax())
            if found.flat[place] > largest:
                row, column = divmod(place, len(one))
                largest, pair = found.flat[place], int(models[row]) * len(one) + column
        self._bound[draw], self._pair[draw] = largest, pair
