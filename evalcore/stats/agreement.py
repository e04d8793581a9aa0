"""Do two lists order the same things alike?"""

from __future__ import annotations

from math import atanh, tanh

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.interval import Interval, around, checked_pair, containing, normal_quantile
from evalcore.stats.pairs import count_below

Values = NDArray[np.float64]


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's τ_b of two lists of scores (shape (n,)): -1 reversed, 1 alike; ties are allowed.

    Source: Kendall 1945. Raises ValueError for fewer than two scores, lengths that differ, NaN, and
    a list of equal scores, which has no order.
    """
    from scipy.stats import kendalltau  # imported late: half a second

    first, second = _two_orders(a, b)
    return float(kendalltau(first, second, variant="b").statistic)


def kendall_interval(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Interval:
    """Kendall's τ_b with its interval, had other things of the same kind been compared.

    The jackknife of a statistic of pairs (Arvesen 1969): its error is that of τ over all lists that
    lack one thing. On Fisher's scale, so that both bounds lie within -1 and 1, with Student's t of
    n - 1 degrees of freedom. Where τ is 1 or -1 no pair disagrees, or none agrees: an interval of
    no width. Raises ValueError as `kendall_tau`, for fewer than three scores, and for lists that
    are all equal but for one.
    """
    from scipy.stats import t

    first, second = _two_orders(a, b)
    n = len(first)
    if n < 3:
        raise ValueError(f"a: an interval needs three scores or more, got {n}")
    normal_quantile(confidence)  # refuses what lies not between 0 and 1
    codes = [np.unique(values, return_inverse=True)[1] for values in (first, second)]
    equal = [_equal_to(code) for code in codes]
    ordered = [n - others for others in equal]
    in_both = n - equal[0] - equal[1] + _equal_to(codes[0] * n + codes[1])
    held = count_below(first, second, first, second) + count_below(-first, -second, -first, -second)
    surplus = (2 * held - in_both).astype(np.float64)
    total = surplus.sum() / 2
    untied = [others.sum() / 2 for others in ordered]
    tau = float(total / np.sqrt(untied[0] * untied[1]))
    if abs(tau) > 1 - 1e-12:
        return around(round(tau), 0.0)
    left = [pairs - others for pairs, others in zip(untied, ordered, strict=True)]
    for name, pairs in zip("ab", left, strict=True):
        if pairs.min() == 0:
            raise ValueError(f"{name}: all scores but one are equal")
    without = (total - surplus) / np.sqrt(left[0] * left[1])
    error = float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * error / (1 - tau**2)
    return containing(tanh(atanh(tau) - half), tau, tanh(atanh(tau) + half))


def _two_orders(a: ArrayLike, b: ArrayLike) -> tuple[Values, Values]:
    first, second = checked_pair(a, b)
    for name, values in (("a", first), ("b", second)):
        if values.min() == values.max():
            raise ValueError(f"{name}: scores that are all equal have no order")
    return first, second


def _equal_to(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each thing how many have its code, itself among them."""
    _, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return counts[places]
