"""Where will the score of a run end, of which a random part is answered?

The final score is that of this model on these questions, not of all questions that could have been
asked: it is certain when all are answered, and the interval has no width then. It holds at all
looks together, however often somebody looks between them: each of K looks has its share of the
error, 1 - confidence over K (Bonferroni).

One sample of questions that are right or wrong: the numbers of right ones, of all, under which at
least so many, and at most so many, are no rarer than the look's share on each side (exact by the
hypergeometric distribution; Wright 1991, Exact Confidence Bounds when Sampling from Small Finite
Universes, ch. 2). Several samples, or scores in between: Hoeffding's bound for sampling without
replacement (Serfling 1974, Ann. Statist. 2(1), 39-48; Bardenet and Maillard 2015, Bernoulli 21(3),
1361-1385, theorem 2.4). A mean of n of N scores from 0 to 1 is sub-Gaussian with variance proxy
(1 - (n - 1) / N) / 4n, and a weighted sum of independent ones with the weighted sum of the proxies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from evalcore.watch import Stratum


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A run's score so far, and between what the final one lies; all from 0 to 1."""

    answered: int
    documents: int
    value: float
    low: float
    high: float


def standing(
    strata: Sequence[Stratum],
    *,
    looks: int,
    earlier: Standing | None = None,
    confidence: float = 0.95,
) -> Standing:
    """Where the score stands at one of so many `looks`; `earlier` is the one before.

    The strata are drawn independently of one another, and their weights sum to 1. Raises as
    `check_strata`.
    """
    check_strata(strata)
    error = (1 - confidence) / looks
    value = sum(one.weight * one.right / one.answered for one in strata)
    low, high = _certain(strata)
    bounds = (
        _exact(strata[0], error)
        if len(strata) == 1 and strata[0].zero_or_one
        else _hoeffding(strata, value, error)
    )
    low, high = max(low, bounds[0]), min(high, bounds[1])
    if earlier and max(low, earlier.low) <= min(high, earlier.high):
        # Both hold, but where one of them misses; which of the two that is nobody knows.
        low, high = max(low, earlier.low), min(high, earlier.high)
    return Standing(
        answered=sum(one.answered for one in strata),
        documents=sum(one.documents for one in strata),
        value=value,
        low=low,
        high=high,
    )


def _certain(strata: Sequence[Stratum]) -> tuple[float, float]:
    """With all that are left wrong, and with all of them right."""
    low = sum(one.weight * one.right / one.documents for one in strata)
    left = sum(one.weight * (one.documents - one.answered) / one.documents for one in strata)
    return low, low + left


def _hoeffding(strata: Sequence[Stratum], value: float, error: float) -> tuple[float, float]:
    proxy = sum(
        one.weight**2 * (1 - (one.answered - 1) / one.documents) / (4 * one.answered)
        for one in strata
        if one.answered < one.documents
    )
    reach = sqrt(2 * proxy * log(2 / error))
    return value - reach, value + reach


def _exact(stratum: Stratum, error: float) -> tuple[float, float]:
    """By halving: the more are right of all, the more are likely so among those answered."""
    from scipy.stats import hypergeom  # imported late: half a second

    n, right = stratum.answered, int(stratum.right)
    fewest, most = right, right + stratum.documents - n

    def rarer(total: int, *, above: bool) -> bool:
        """Whether so many of all make at least, or at most, as many right as there are too rare."""
        tail = hypergeom.sf if above else hypergeom.cdf
        return bool(tail(right - above, stratum.documents, total, n) <= error / 2)

    low, high = fewest, most
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rarer(middle, above=True) else (low, middle)
    lowest, low, high = low, fewest, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if rarer(middle, above=False) else (middle, high)
    return lowest / stratum.documents, low / stratum.documents


def check_strata(strata: Sequence[Stratum]) -> None:
    """Raises ValueError where they cannot be so."""
    if not strata or not abs(sum(one.weight for one in strata) - 1) < 1e-6:
        raise ValueError("strata: expected weights that sum to 1")
    for one in strata:
        fits = 0 < one.answered <= one.documents and 0 <= one.right <= one.answered
        if not (fits and one.weight > 0 and (not one.zero_or_one or one.right == int(one.right))):
            raise ValueError(f"there is no such stratum: {one}")
