"""Which columns of scores put models in a like order? Spearman's ρ of every two, with intervals.

Spearman 1904; the interval is that of Bonett and Wright 2000 (Psychometrika 65, pages 23 to 28).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.interval import normal_quantile

Values = NDArray[np.float64]
FEWEST = 10
"""Models with both scores: of fewer an order says too little."""


@dataclass(frozen=True)
class Correlations:
    """Of every two columns, each of shape (columns, columns) and symmetric; NaN where there are too
    few models or no order."""

    rho: Values
    low: Values
    high: Values
    n: NDArray[np.int64]
    """Models with a score in both."""


def rank_correlations(
    scores: ArrayLike, *, fewest: int = FEWEST, confidence: float = 0.95
) -> Correlations:
    """Spearman's ρ of every two columns of `scores`, shape (models, columns), NaN where missing.

    Of each pair over the models that have both, ties as their mean rank. The interval is on
    Fisher's scale with a standard error of `sqrt((1 + ρ² / 2) / (n - 3))`: had other models of the
    same kind been measured. Where two columns put all models in one order, or in opposite ones, it
    reaches from there to where ρ could still be with one swap of neighbours. Raises ValueError for
    anything but a table, and for fewer than four models a pair.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"scores: expected shape (models, columns), got {values.shape}")
    if fewest < 4:
        raise ValueError(f"fewest: an interval needs four models or more, got {fewest}")
    there = np.isfinite(values)
    n = there.T.astype(np.int64) @ there.astype(np.int64)
    rho = _over_both(values, there)
    rho[n < fewest] = np.nan
    half = normal_quantile(confidence) * np.sqrt((1 + rho**2 / 2) / np.maximum(n - 3, 1))
    # One swap of neighbours lowers Σd² from 0 to 2: no sharper order can be seen.
    nearest = 1 - 12 / np.maximum(n * (n**2 - 1.0), 1)
    at = np.arctanh(np.clip(rho, -nearest, nearest))
    low = np.minimum(np.tanh(at - half), rho)
    high = np.maximum(np.tanh(at + half), rho)
    return Correlations(rho, low, high, n)


def _over_both(values: Values, there: NDArray[np.bool_]) -> Values:
    """ρ of every two columns; NaN where the scores of one are all equal."""
    width = values.shape[1]
    rho = np.full((width, width), np.nan)
    # The places of scores in their order: ranks within a part of the models are counts of these.
    places = [np.unique(column, return_inverse=True)[1] for column in values.T]
    for one in range(width):
        for other in range(one + 1):
            both = there[:, one] & there[:, other]
            if both.sum() > 1:
                first, second = _ranks(places[one][both]), _ranks(places[other][both])
                rho[one, other] = rho[other, one] = _pearson(first, second)
    return rho


def _ranks(places: NDArray[np.intp]) -> Values:
    """Around their mean; of equal ones the mean of theirs."""
    counts = np.bincount(places)
    ranks = (np.cumsum(counts) - counts + (counts + 1) / 2)[places]
    around: Values = ranks - ranks.mean()
    return around


def _pearson(first: Values, second: Values) -> float:
    length = float(np.sqrt((first @ first) * (second @ second)))
    return float(np.clip(first @ second / length, -1, 1)) if length else np.nan


def order_of_likeness(rho: Values) -> list[int]:
    """Columns in an order in which those that agree stand together.

    Average linkage of the distances 1 - ρ, the leaves so that neighbours are as near as they can be
    (Bar-Joseph, Gifford and Jaakkola 2001). Where ρ is not known, as if there were no agreement.
    """
    if len(rho) < 3:
        return list(range(len(rho)))
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    apart = 1 - np.where(np.isfinite(rho), rho, 0.0)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform(apart, checks=False), "average", optimal_ordering=True)
    order: list[int] = leaves_list(tree).tolist()
    return order
