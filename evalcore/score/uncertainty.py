"""Value, standard error and 95 % interval of a set of scores, and how they were made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from evalcore.stats import Interval, interval, pooled_standard_error, standard_error, wilson
from evalcore.stats.interval import around, normal_quantile

FEW = 10
"""Below so many right or wrong answers the normal interval is too narrow; Wilson's is used."""


@dataclass(frozen=True)
class Measured:
    """A mean score; `method` is normal, clustered, wilson, pooled or none (one score only)."""

    interval: Interval
    stderr: float | None
    method: str
    n: int


def measure(scores: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Measured:
    """The mean of one task's scores."""
    n = len(scores)
    if clusters is not None and len(set(clusters)) > 1:
        error = standard_error(scores, clusters)
        return Measured(interval(scores, clusters), error, "clustered", n)
    stderr = standard_error(scores) if n > 1 else None
    if _is_extreme(scores):
        return Measured(wilson(sum(scores), n), stderr, "wilson", n)
    if stderr is None:
        value = float(scores[0])
        return Measured(Interval(value, value, value), None, "none", n)
    return Measured(interval(scores), stderr, "normal", n)


def measure_group(parts: Sequence[Sequence[float]]) -> Measured:
    """The size-weighted mean over the fixed parts of a benchmark."""
    scores = [score for part in parts for score in part]
    if any(len(part) < 2 for part in parts):
        stderr = None  # as lm-evaluation-harness: one part without a spread leaves none for all
    else:
        stderr = pooled_standard_error(
            [standard_error(part) for part in parts], [len(part) for part in parts]
        )
    if _is_extreme(scores) or stderr is None:
        return Measured(wilson(sum(scores), len(scores)), stderr, "wilson", len(scores))
    bounds = around(float(np.mean(scores)), normal_quantile(0.95) * stderr)
    return Measured(bounds, stderr, "pooled", len(scores))


def _is_extreme(scores: Sequence[float]) -> bool:
    """Whether these are right-or-wrong scores with few of one kind."""
    right, wrong = scores.count(1.0), scores.count(0.0)
    return right + wrong == len(scores) and min(right, wrong) < FEW
