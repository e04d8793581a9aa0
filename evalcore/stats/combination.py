"""How sure is a mean or a difference of independent scores, given the interval of each?

Zou and Donner 2008 (Statistics in Medicine 27, 1693-1702) recover each part's variance from its own
interval, on the side that counts. Where the parts' intervals are value ± q · SE the result is the
usual one; where a part is at 0 % or 100 %, its standard error is 0 and the usual form would call it
certain, while its Wilson interval does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, sqrt

from evalcore.stats.interval import Interval


def mean_interval(parts: Sequence[Interval]) -> Interval:
    """Interval of the plain mean of k parts (eq. 6, with weights 1 / k).

    From `mean - sqrt(sum((value - low)²)) / k` to `mean + sqrt(sum((high - value)²)) / k`. Raises
    ValueError for no parts.
    """
    if not parts:
        raise ValueError("parts: expected at least one interval")
    mean = sum(part.value for part in parts) / len(parts)
    below = hypot(*(part.value - part.low for part in parts)) / len(parts)
    above = hypot(*(part.high - part.value for part in parts)) / len(parts)
    return Interval(mean - below, mean, mean + above)


def difference_interval(first: Interval, second: Interval) -> Interval:
    """Interval of `first - second` (eq. 4; for Wilson's intervals Newcombe 1998, method 10)."""
    difference = first.value - second.value
    below = hypot(first.value - first.low, second.high - second.value)
    above = hypot(first.high - first.value, second.value - second.low)
    return Interval(difference - below, difference, difference + above)


def pooled_standard_error(errors: Sequence[float], sizes: Sequence[int]) -> float:
    """Standard error of a size-weighted mean over k parts, as lm-evaluation-harness pools it.

    `sqrt(sum((n_i - 1) · n_i · se_i²) / (N - k) / N)`: the subjects of a benchmark are fixed
    strata, so only the spread within them counts. Raises ValueError for lengths that differ, no
    parts, or as many parts as questions.
    """
    if not sizes or len(errors) != len(sizes):
        raise ValueError(f"sizes: {len(sizes)} for {len(errors)} standard errors")
    total, parts = sum(sizes), len(sizes)
    if total <= parts:
        raise ValueError(f"sizes: {total} questions in {parts} parts leave no spread to measure")
    within = sum((n - 1) * n * error**2 for error, n in zip(errors, sizes, strict=True))
    return sqrt(within / (total - parts) / total)
