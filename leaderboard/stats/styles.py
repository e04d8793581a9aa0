"""What does the way of asking do to scores and to the order of models?

Mizrahi et al. 2024 (arXiv 2401.00595) show that one prompt says little of a model; Gu et al. 2024
(OLMES, arXiv 2406.08446) take the better of two styles. Scores of different styles are different
measurements, so all of this is about their distribution and their differences.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.agreement import kendall_tau
from evalcore.stats.blocks import block
from evalcore.stats.combination import mean_interval
from evalcore.stats.interval import Interval, checked, cluster_indexes, wilson
from evalcore.stats.pairs import count_below

Values = NDArray[np.float64]


@dataclass(frozen=True)
class StyleSpreads:
    """The distribution of each model's score over the styles, every array of shape (models,)."""

    lowest: Values
    median: Values
    highest: Values

    @property
    def spread(self) -> Values:
        """How far a model's score moves with the style alone."""
        return self.highest - self.lowest


def style_spreads(scores: ArrayLike) -> StyleSpreads:
    """Of `scores`, shape (models, styles). Raises ValueError for none, one style, and NaN."""
    values = _table(scores, "models, styles", 1, 2)
    return StyleSpreads(values.min(axis=1), np.median(values, axis=1), values.max(axis=1))


@dataclass(frozen=True)
class VarianceShares:
    """Where the variance of one model's answers comes from; the three add up to 1."""

    question: float
    """Some questions are hard in any style."""
    style: float
    """Some styles are hard for all questions."""
    residual: float
    """A style is harder for some questions than for others, and noise."""


def variance_shares(scores: ArrayLike) -> VarianceShares:
    """Two-way analysis of variance of one model's `scores`, shape (styles, documents).

    Variance components of random questions and styles by the method of moments, with K styles and
    n questions: question `(MS_question - MS_residual) / K`, style `(MS_style - MS_residual) / n`,
    residual `MS_residual` (Fisher 1925; Searle, Casella and McCulloch 1992, chapter 4); what
    falls below 0 is 0. Plain shares of the sums of squares would call 1 / K of pure noise a matter
    of the question. Raises ValueError for fewer than two styles or documents, NaN, and scores that
    are all equal.
    """
    values = _table(scores, "styles, documents", 2, 2)
    if values.min() == values.max():
        raise ValueError("scores: all equal, there is no variance to split")
    styles, documents = values.shape
    of_question, of_style = values.mean(axis=0), values.mean(axis=1)
    left = values - of_question - of_style[:, None] + values.mean()
    residual = (left**2).sum() / ((styles - 1) * (documents - 1))
    question = max(0.0, float(of_question.var(ddof=1)) - residual / styles)
    style = max(0.0, float(of_style.var(ddof=1)) - residual / documents)
    total = question + style + residual
    return VarianceShares(question / total, style / total, float(residual / total))


def flipped_share(a: ArrayLike, b: ArrayLike) -> float:
    """Share of the pairs of models that two lists of scores, shape (models,), put in other order.

    Of the pairs that both lists order: a tie in either is no order, so it neither flips nor holds.
    Raises ValueError as `kendall_tau`.
    """
    tau = kendall_tau(a, b)
    first, second = checked(a, "a"), checked(b, "b")
    pairs = len(first) * (len(first) - 1) // 2
    tied = [_tied(first), _tied(second)]
    ordered = pairs - sum(tied) + _tied(np.stack([first, second], axis=1))
    # τ_b is (held - flipped) over this root, so the counts follow from it exactly.
    surplus = round(tau * sqrt(pairs - tied[0]) * sqrt(pairs - tied[1]))
    return (ordered - surplus) / 2 / ordered


def clear_flips(first: ArrayLike, second: ArrayLike) -> int:
    """How many pairs of models two styles put in opposite order, with intervals that lie apart.

    `first` and `second` are the bounds of the models' intervals in either style, shape (models, 2);
    a pair counts where its intervals overlap in neither. Raises ValueError for anything but two
    tables of as many intervals.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim != 2 or one.shape[1] != 2:
        raise ValueError(f"first: expected shape (models, 2), got {one.shape}")
    if other.shape != one.shape:
        raise ValueError(f"second: expected shape {one.shape}, got {other.shape}")
    # Another's upper bound below one's own lower one in `first`, and the reverse in `second`.
    return int(count_below(one[:, 1], -other[:, 0], one[:, 0], -other[:, 1]).sum())


@dataclass(frozen=True)
class BestStyles:
    """The style in which each model is best, and its score as the best: arrays (models,)."""

    style: NDArray[np.int64]
    """Place of the style; of equal ones the first."""
    value: Values
    low: Values
    high: Values


def best_of(
    scores: ArrayLike,
    *,
    draws: int = 2000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> BestStyles:
    """Which style of each model is best; `scores` has shape (models, styles, documents).

    The interval is of the maximum: on each resample of the documents, or clusters, the best style
    there counts (2.5th and 97.5th percentile). All models share the resamples. Where the best style
    has every question right, or all have every one wrong, resamples say nothing: the interval is
    Wilson's, with one question for each cluster. Raises ValueError for one document, NaN, labels
    that do not fit, one cluster, and fewer than two draws.
    """
    values = np.asarray(scores)
    if values.ndim != 3 or min(values.shape) < 1 or values.shape[2] < 2:
        raise ValueError(
            "scores: expected shape (models, styles, documents) with two documents or more, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores: contain NaN or infinity")
    if draws < 2:
        raise ValueError(f"draws: expected two or more, got {draws}")
    n = values.shape[2]
    units = np.arange(n) if clusters is None else cluster_indexes(clusters, n)
    means = values.mean(axis=2, dtype=np.float64)
    style = means.argmax(axis=1)
    value = means.max(axis=1)
    low, high = _bounds_of_largest(values, units, draws, seed)
    count = int(units.max()) + 1
    of_best = values[np.arange(len(values)), style]
    for row in np.flatnonzero((of_best == of_best[:, :1]).all(axis=1) & np.isin(value, (0, 1))):
        bounds = wilson(value[row] * count, count)
        low[row], high[row] = bounds.low, bounds.high
    return BestStyles(style, value, np.minimum(low, value), np.maximum(high, value))


def _bounds_of_largest(
    values: NDArray[Any], units: NDArray[np.int64], draws: int, seed: int
) -> tuple[Values, Values]:
    """2.5th and 97.5th percentile, by model, of the largest mean on each resample of the units.

    How often each unit is drawn times its sums: one product of matrices for all models.
    """
    sizes = np.bincount(units).astype(np.float32)
    sums = values if len(sizes) == len(units) else _sums(values, units, len(sizes))
    drawn = _times_drawn(len(sizes), draws, seed)
    largest = np.full((len(values), draws), -np.inf, dtype=np.float32)
    for style in range(values.shape[1]):
        np.maximum(largest, sums[:, style].astype(np.float32) @ drawn.T, out=largest)
    low, high = np.quantile(largest / (drawn @ sizes), (0.025, 0.975), axis=1)
    return low.astype(np.float64), high.astype(np.float64)


def _times_drawn(units: int, draws: int, seed: int) -> NDArray[np.float32]:
    """How often each resample, of as many units as there are, has each unit; (draws, units)."""
    generator = np.random.default_rng(seed)
    times = np.empty((draws, units), dtype=np.float32)
    for row in times:
        row[:] = np.bincount(generator.integers(0, units, size=units), minlength=units)
    return times


def _sums(values: NDArray[Any], units: NDArray[np.int64], count: int) -> NDArray[Any]:
    """Sums over the documents of each unit, shape (models, styles, units)."""
    order = np.argsort(units, kind="stable")
    starts = np.searchsorted(units[order], np.arange(count))
    return np.add.reduceat(values[..., order], starts, axis=2, dtype=np.float64)


def _tied(values: Values) -> int:
    """How many pairs of entries are equal."""
    counts = np.unique(values, axis=0, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def _table(scores: ArrayLike, axes: str, rows: int, columns: int) -> Values:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] < rows or values.shape[1] < columns:
        raise ValueError(
            f"scores: expected shape ({axes}), at least {rows} by {columns}, got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores: contain NaN or infinity")
    return values


HELD = 2**22
"""Scores held at once as double precision, about."""


def best_by_part(
    scores: NDArray[Any],
    parts: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> BestStyles:
    """`best_of` for `scores` of shape (models, styles, documents) that are means over parts' means.

    `parts` and `clusters` are whole numbers, one a document. A resample draws units (documents, or
    clusters) and adds what each moves the mean, as `block` scales it: the variance is that of the
    score itself, and parts of few questions do not look too certain (Rao and Wu 1988). Where the
    best style has all questions right, or all have all wrong, the interval is the mean of the
    parts' Wilson intervals. Raises ValueError as `block` does, and for fewer than two draws.
    """
    values = np.asarray(scores)
    if values.ndim != 3 or not values.size:
        raise ValueError(f"scores: expected shape (models, styles, documents), got {values.shape}")
    step = max(1, HELD // (values.shape[1] * values.shape[2]))
    found = [
        _best_by_unit(values[start : start + step], parts, clusters, draws, seed)
        for start in range(0, len(values), step)
    ]
    sides = ("style", "value", "low", "high")
    return BestStyles(*(np.concatenate([getattr(part, side) for part in found]) for side in sides))


def _best_by_unit(
    values: NDArray[Any], parts: ArrayLike, clusters: ArrayLike | None, draws: int, seed: int
) -> BestStyles:
    models, styles, n = values.shape
    moved = block(values.reshape(-1, n), strata=parts, clusters=clusters, by_part=True)
    units = moved.deviations.shape[1]
    # Numbers whose plain mean is the score, and whose spread is its error.
    by_unit = moved.means[:, None] + units * moved.deviations
    best = best_of(by_unit.reshape(models, styles, units), draws=draws, seed=seed)
    means = moved.means.reshape(models, styles)
    style, value = means.argmax(axis=1), means.max(axis=1)
    best = replace(
        best,
        style=style,
        value=value,
        low=np.minimum(best.low, value),
        high=np.maximum(best.high, value),
    )
    for row in np.flatnonzero(np.isin(value, (0, 1))):
        scored = values[row, style[row]]
        if (scored == scored[0]).all() and (bounds := _all_alike(value[row], parts, clusters)):
            best.low[row], best.high[row] = bounds.low, bounds.high
    return best


def _all_alike(value: float, parts: ArrayLike, clusters: ArrayLike | None) -> Interval | None:
    """The interval of a model with all questions right, or all wrong.

    None where clusters reach into several parts, which are then not independent.
    """
    labels = np.asarray(parts)
    if clusters is None:
        counts = np.unique(labels, return_counts=True)[1]
    else:
        pairs = np.unique(np.stack([labels, np.asarray(clusters)]), axis=1)
        if pairs.shape[1] > len(np.unique(pairs[1])):
            return None
        counts = np.unique(pairs[0], return_counts=True)[1]
    return mean_interval([wilson(value * int(count), int(count)) for count in counts])
