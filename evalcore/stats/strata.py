"""How sure is the average over the fixed parts of a benchmark?"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt


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
