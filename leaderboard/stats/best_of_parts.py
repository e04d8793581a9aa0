"""Which style of each model is best, where a score is the mean over its parts' means?

Subjects and the like are fixed: other questions of theirs could have been asked, not other parts.
So a resample may change the mean of a part and never which parts there are, or what each counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.blocks import block
from evalcore.stats.combination import mean_interval
from evalcore.stats.interval import Interval, wilson
from leaderboard.stats.styles import BestStyles, best_of

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
        _best(values[start : start + step], parts, clusters, draws, seed)
        for start in range(0, len(values), step)
    ]
    sides = ("style", "value", "low", "high")
    return BestStyles(*(np.concatenate([getattr(one, side) for one in found]) for side in sides))


def _best(
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
