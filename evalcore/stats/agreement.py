"""Do two lists order the same things alike?"""

from __future__ import annotations

from numpy.typing import ArrayLike

from evalcore.stats.interval import checked


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's τ_b of two lists of scores (shape (n,)): -1 reversed, 1 alike; ties are allowed.

    Source: Kendall 1945. Raises ValueError for fewer than two scores, lengths that differ, NaN, and
    a list of equal scores, which has no order.
    """
    from scipy.stats import kendalltau  # imported late: half a second

    first, second = checked(a, "a"), checked(b, "b")
    if len(first) != len(second):
        raise ValueError(f"b: {len(second)} scores for {len(first)} of a")
    for name, values in (("a", first), ("b", second)):
        if values.min() == values.max():
            raise ValueError(f"{name}: scores that are all equal have no order")
    return float(kendalltau(first, second, variant="b").statistic)
