"""What does the way of asking do to scores and to the order of models?

Mizrahi et al. 2024 (arXiv 2401.00595) show that one prompt says little of a model; Gu et al. 2024
(OLMES, arXiv 2406.08446) take the better of two styles. Scores of different styles are different
measurements, so all of this is about their distribution and their differences.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.agreement import kendall_tau
from evalcore.stats.bootstrap import Resampled, multinomial_bootstrap
from evalcore.stats.interval import Interval, checked, cluster_indexes, wilson
from evalcore.stats.sums import SumStatistic

FEW_STYLES = 10
"""Up to so many, documents are counted by which styles have them right."""

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


def best_of(
    scores: ArrayLike,
    *,
    draws: int = 2000,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[int, Interval]:
    """Which style of one model is best, and its score as the best; `scores` (styles, documents).

    The interval is of the maximum: on each resample of the documents, or clusters, the best style
    there counts (2.5th and 97.5th percentile). Of equal styles the first. Where the best style has
    every question right, or all have every one wrong, resamples say nothing: the interval is
    Wilson's, with one question for each cluster. Raises ValueError for one document, NaN, labels
    that do not fit, one cluster, and fewer than two draws.
    """
    values = _table(scores, "styles, documents", 1, 2)
    if draws < 2:
        raise ValueError(f"draws: expected two or more, got {draws}")
    winner = int(values.mean(axis=1).argmax())
    value, of_winner = float(values[winner].mean()), values[winner]
    if value in (0.0, 1.0) and of_winner.min() == of_winner.max():
        units = len(of_winner)
        if clusters is not None:
            units = int(cluster_indexes(clusters, units).max()) + 1
        return winner, wilson(value * units, units)
    if clusters is None and len(values) <= FEW_STYLES and np.isin(values, (0, 1)).all():
        replicates = _largest_by_pattern(values, draws, seed)
    else:
        largest = SumStatistic(values.T, lambda sums, n: (sums / n[:, None]).max(axis=1))
        replicates = multinomial_bootstrap(largest, draws=draws, seed=seed, clusters=clusters)
    return winner, Resampled(replicates).interval(value)


def _largest_by_pattern(values: Values, draws: int, seed: int) -> Values:
    """The largest mean on each resample, of right-or-wrong scores.

    What `multinomial_bootstrap` gives, ten times as fast: which styles have a document right is a
    number of few bits, so that documents need no sorting.
    """
    n = values.shape[1]
    places = 2 ** np.arange(len(values))[::-1]
    counts = np.bincount(places @ values.astype(np.int64))
    patterns = np.flatnonzero(counts)
    drawn = np.random.default_rng(seed).multinomial(n, counts[patterns] / n, size=draws)
    right = (patterns[:, None] & places > 0).astype(np.float64)
    return np.asarray((drawn @ right / n).max(axis=1))


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
