"""Does one model do better than another on the same questions?

Paired: what makes a question hard for both cancels, so the difference is known far better than
either score. Sources: Miller 2024 (arXiv 2411.00640), section 4; McNemar 1947, exact form.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.blocks import block
from evalcore.stats.interval import checked_pair, normal_quantile, standard_error
from evalcore.stats.resolution import POWER, power_quantile

BLOCK = 2**21
"""Scores held at once as double precision, about."""


@dataclass(frozen=True)
class PairedDifference:
    """Mean of a - b over the questions they share, in the scores' unit."""

    difference: float
    stderr: float
    low: float
    high: float
    p_value: float
    """Of Student's t test of no difference, two-sided."""
    q: float
    """Resolution: `(|difference| / SE)² / (1.96 + 0.84)²`; from 1 on the pair is told apart."""


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> PairedDifference:
    """Difference of two models' mean scores (each of shape (n,), same questions in one order).

    `mean(a - b) ± t · SE`, t with n - 1 degrees of freedom, or G - 1 for G clusters. Where every
    question has the same difference there is no spread to judge it by: the interval is that value,
    with p 1 and q 0 for no difference, else p 0 and q infinite; `mcnemar` is to be preferred then.
    Raises ValueError as `standard_error` does, and for lengths that differ.
    """
    from scipy.stats import t  # imported late: half a second that most callers need not spend

    first, second = checked_pair(a, b)
    if len(first) < 2:
        raise ValueError("a: a standard error needs at least two scores")
    normal = normal_quantile(confidence)
    differences = first - second
    difference = float(differences.mean())
    error = standard_error(differences, clusters)
    freedom = (len(differences) if clusters is None else len(set(clusters))) - 1
    half = float(t.ppf((1 + confidence) / 2, freedom)) * error
    distance = abs(difference) / error if error else (inf if difference else 0.0)
    return PairedDifference(
        difference=difference,
        stderr=error,
        low=difference - half,
        high=difference + half,
        p_value=float(2 * t.sf(distance, freedom)),
        q=(distance / (normal + power_quantile(POWER))) ** 2,
    )


class PairedRows(NamedTuple):
    """Paired differences with their intervals, every array of shape (models,)."""

    difference: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def paired_rows(
    a: NDArray[Any],
    b: NDArray[Any],
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    *,
    by_part: bool = False,
    confidence: float = 0.95,
) -> PairedRows:
    """`paired_difference` of each row of `a` and `b`, both of shape (models, documents).

    `clusters` and `strata` are whole numbers, one a document, and `by_part` asks for the mean over
    the parts' means, as `block` takes them; over fixed parts t has as many degrees of freedom as
    questions (or clusters) less parts. A model whose every question has the same difference has an
    interval of no width. Raises ValueError as `block` does, and for shapes that differ.
    """
    from scipy.special import stdtrit

    if a.ndim != 2 or a.shape != b.shape or not a.size:
        raise ValueError(f"b: expected as many models and questions as a, {a.shape}; got {b.shape}")
    normal_quantile(confidence)  # refuses what lies not between 0 and 1
    difference, half = np.empty(len(a)), np.empty(len(a))
    rows = max(1, BLOCK // a.shape[1])
    for start in range(0, len(a), rows):
        part = slice(start, start + rows)
        apart = a[part].astype(np.float64) - b[part].astype(np.float64)
        found = block(apart, clusters=clusters, strata=strata, by_part=by_part)
        error = np.sqrt((found.deviations**2).sum(axis=1))
        difference[part] = found.means
        half[part] = float(stdtrit(found.freedom, (1 + confidence) / 2)) * error
    return PairedRows(difference, difference - half, difference + half)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p that two models are equally often right, from right-or-wrong scores.

    `only_a` questions were answered by the first alone, `only_b` by the second alone:
    `min(1, 2 · P(X <= min(only_a, only_b)))`, X binomial over them all with 1/2. Raises ValueError
    for a count below 0.
    """
    from scipy.stats import binom

    for name, count in (("only_a", only_a), ("only_b", only_b)):
        if count != int(count) or count < 0:
            raise ValueError(f"{name}: expected a count of questions, got {count}")
    return min(1.0, float(2 * binom.cdf(min(only_a, only_b), only_a + only_b, 0.5)))
