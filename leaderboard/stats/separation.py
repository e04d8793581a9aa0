"""Does a benchmark tell models of about the same size apart? Its signal beside its noise.

After Heineman et al. 2025 (arXiv 2508.13144), whose signal is how far the scores of models of like
compute lie apart, and whose noise is how far the last checkpoints of one model do. Checkpoints are
not at hand here: the noise is that of the questions, which is a part of theirs. Both are standard
deviations, from the usual analysis of variance of models by questions (Hoyt 1941), so that their
ratio does not grow with the number of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats import Block, Interval

NEIGHBOURS = 10
"""Models of like size that are compared with each other."""
FEWEST = 10
"""Models: of fewer the interval says nothing."""
ROUNDING = 1e-13
"""Squares that are less than this share of all are rounding of single precision."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Separation:
    signal: float
    """Standard deviation of the models' true scores among models of like size."""
    noise: float
    """Standard error of a score against those of the same size, on the same questions."""
    ratio: Interval
    """Signal by noise, 95 %, had other models of the kind been measured."""


def separation(block: Block, sizes: ArrayLike, confidence: float = 0.95) -> Separation | None:
    """Signal and noise of one task; `sizes` are the models' parameters.

    Models are put in order of size and cut into groups of about NEIGHBOURS. Within these `B` is
    the variance of the scores and `W` that of the errors, both less the group's mean; the signal is
    `sqrt(B − W)`, or 0, the noise `sqrt(W)`. The interval is the jackknife over models of
    `log(B / W)`, with Student's t of models less groups degrees of freedom. None for fewer than
    FEWEST models, and where scores or errors are all alike.
    """
    from scipy.stats import t  # imported late: half a second that most callers need not spend

    size = np.asarray(sizes, np.float64)
    models = len(block.means)
    if size.shape != (models,):
        raise ValueError(f"sizes: expected one for each of {models} models, got {size.shape}")
    if models < FEWEST:
        return None
    groups = np.array_split(np.argsort(size, kind="stable"), max(1, models // NEIGHBOURS))
    scores, errors = (_squares(rows, groups) for rows in (block.means[:, None], block.deviations))
    freedom = models - len(groups)
    between, within = scores.total / freedom, errors.total / freedom
    if scores.alike or errors.alike:
        return None
    logs = np.log(scores.without / errors.without)
    error = sqrt((models - 1) / models * float(((logs - logs.mean()) ** 2).sum()))
    half = float(t.ppf((1 + confidence) / 2, freedom)) * error
    middle = log(between / within)
    low, value, high = (_ratio(exp(at)) for at in (middle - half, middle, middle + half))
    return Separation(sqrt(max(0.0, between - within)), sqrt(within), Interval(low, value, high))


def _ratio(between_by_within: float) -> float:
    return sqrt(max(0.0, between_by_within - 1))


@dataclass(frozen=True)
class _Squares:
    total: float
    """Squared distances from the means of the groups, summed."""
    without: Values
    """The same without each of the models."""
    alike: bool
    """Whether all rows of a group are the same, one of them left out or not, but for rounding."""


def _squares(rows: NDArray[np.floating], groups: list[NDArray[np.intp]]) -> _Squares:
    away = np.empty(len(rows))
    shares = np.empty(len(rows))
    for members in groups:
        of_group = np.asarray(rows[members], np.float64)
        away[members] = ((of_group - of_group.mean(axis=0)) ** 2).sum(axis=1)
        # Without one of k rows the sum of squares falls by k / (k − 1) times that row's own.
        shares[members] = len(members) / (len(members) - 1)
    total = float(away.sum())
    without = total - shares * away
    size = float(np.einsum("ij,ij->", rows, rows))
    return _Squares(total, without, bool(without.min() <= ROUNDING * size))
