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
    """ρ of every two columns; those that all models have are ranked once for all their pairs."""
    width = values.shape[1]
    rho = np.full((width, width), np.nan)
    whole = np.flatnonzero(there.all(axis=0))
    if len(values) and len(whole):
        rho[np.ix_(whole, whole)] = _of_ranks(values[:, whole])
    for one in range(width):
        for other in range(one + 1):
            both = there[:, one] & there[:, other]
            if both.all() or both.sum() < 2:
                continue
            rho[one, other] = rho[other, one] = _of_ranks(values[both][:, [one, other]])[0, -1]
    return rho


def _of_ranks(values: Values) -> Values:
    """Pearson's correlation of ranks; NaN for a column whose scores are all equal."""
    from scipy.stats import rankdata  # imported late: half a second

    ranks = rankdata(values, axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((ranks**2).sum(axis=0))
    with np.errstate(invalid="ignore"):
        found: Values = (ranks.T @ ranks) / np.outer(length, length)
    return np.clip(found, -1, 1)


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
