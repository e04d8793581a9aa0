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
    """A mean score; `method` is normal, clustered, wilson, pooled, or none for a single score."""

    interval: Interval
    stderr: float | None
    method: str
    n: int


Clusters = Sequence[Hashable] | None


def measure(scores: Sequence[float], clusters: Clusters = None) -> Measured:
    """The mean of one task's scores."""
    n, stderr = len(scores), _standard_error(scores, clusters)
    if clusters is not None:
        if stderr and not _is_extreme(scores):
            return Measured(interval(scores, clusters), stderr, "clustered", n)
        return Measured(_wilson_of_clusters(scores, clusters, stderr), stderr, "wilson", n)
    if _is_extreme(scores):
        return Measured(wilson(sum(scores), n), stderr, "wilson", n)
    if stderr is None:
        value = float(scores[0])
        return Measured(Interval(value, value, value), None, "none", n)
    return Measured(interval(scores), stderr, "normal", n)


def measure_group(
    parts: Sequence[Sequence[float]], clusters: Sequence[Clusters] | None = None
) -> Measured:
    """The size-weighted mean over the fixed parts of a benchmark, each with its own clusters."""
    scores = [score for part in parts for score in part]
    labels = clusters or [None] * len(parts)
    errors = [_standard_error(part, of_part) for part, of_part in zip(parts, labels, strict=True)]
    known = [error for error in errors if error is not None]
    stderr = None  # as lm-evaluation-harness: one part without a spread leaves none for all
    if len(known) == len(parts):
        stderr = pooled_standard_error(known, [len(part) for part in parts])
    if _is_extreme(scores) or stderr is None:
        return Measured(wilson(sum(scores), len(scores)), stderr, "wilson", len(scores))
    bounds = around(float(np.mean(scores)), normal_quantile(0.95) * stderr)
    return Measured(bounds, stderr, "pooled", len(scores))


def _standard_error(scores: Sequence[float], clusters: Clusters) -> float | None:
    """None where one score, or one cluster, leaves no spread to measure."""
    apart = len(scores) if clusters is None else len(set(clusters))
    return standard_error(scores, clusters) if apart > 1 else None


def _wilson_of_clusters(
    scores: Sequence[float], clusters: Sequence[Hashable], stderr: float | None
) -> Interval:
    """Wilson's interval with the number of independent questions that the error stands for.

    `p (1 - p) / SE²` questions; where the error is 0 or unknown, one for each cluster.
    """
    p = float(np.mean(scores))
    worth = p * (1 - p) / stderr**2 if stderr else float(len(set(clusters)))
    return wilson(p * worth, worth)


def _is_extreme(scores: Sequence[float]) -> bool:
    """Whether these are right-or-wrong scores with few of one kind."""
    right, wrong = scores.count(1.0), scores.count(0.0)
    return right + wrong == len(scores) and min(right, wrong) < FEW
