"""How far apart are two models over fixed parts, or on an average of several tasks?

Tasks are independent of each other, so the variances of what each adds to the difference add up;
that sum is itself uncertain, by as many degrees of freedom as Satterthwaite (1946) gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike

from evalcore.stats.blocks import block
from evalcore.stats.difference import PairedDifference
from evalcore.stats.interval import normal_quantile
from evalcore.stats.resolution import POWER, power_quantile

ROUNDING = 1e-12
"""Below this share of a difference its standard error is rounding."""


@dataclass(frozen=True)
class Share:
    """What one independent source adds to a difference of two means."""

    difference: float
    variance: float
    freedom: float
    """Degrees of freedom of the variance; infinite where it is taken as known."""


def paired_share(
    differences: ArrayLike,
    *,
    weight: float = 1.0,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    by_part: bool = False,
) -> Share:
    """The share of one task: `weight` times the mean of the questions' differences, shape (n,).

    `clusters`, `strata` and `by_part` as `block` takes them. Raises ValueError as it does.
    """
    row = np.asarray(differences, dtype=np.float64)[np.newaxis]
    found = block(row, weight=weight, clusters=clusters, strata=strata, by_part=by_part)
    variance = float((found.deviations[0] ** 2).sum())
    return Share(float(found.means[0]), variance, found.freedom)


def total_difference(shares: Sequence[Share], confidence: float = 0.95) -> PairedDifference:
    """The sum of independent shares, `sum ± t · SE`.

    t has `(Σ v)² / Σ (v² / f)` degrees of freedom, v the shares' variances and f theirs. Without
    any variance the interval is the value, as in `paired_difference`. Raises ValueError for no
    shares and for numbers that cannot be.
    """
    from scipy.stats import t  # imported late: half a second that most callers need not spend

    if not shares:
        raise ValueError("shares: expected at least one")
    for share in shares:
        if not (isfinite(share.difference) and share.variance >= 0 and share.freedom > 0):
            raise ValueError(f"shares: {share} is no share of a difference")
    normal = normal_quantile(confidence)
    difference = sum(share.difference for share in shares)
    variance = sum(share.variance for share in shares)
    error = sqrt(variance)
    if error <= ROUNDING * abs(difference):
        certain = difference == 0
        return PairedDifference(
            difference,
            0.0,
            difference,
            difference,
            1.0 if certain else 0.0,
            0.0 if certain else inf,
        )
    doubt = sum(share.variance**2 / share.freedom for share in shares)
    freedom = variance**2 / doubt if doubt else inf
    half = float(t.ppf((1 + confidence) / 2, freedom)) * error
    distance = abs(difference) / error
    return PairedDifference(
        difference=difference,
        stderr=error,
        low=difference - half,
        high=difference + half,
        p_value=float(2 * t.sf(distance, freedom)),
        q=(distance / (normal + power_quantile(POWER))) ** 2,
    )
