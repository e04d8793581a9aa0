"""Value, standard error and 95 % interval of a set of scores, and how they were made."""

from __future__ import annotations

import io
import warnings
from collections.abc import Hashable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from evalcore.errors import TaskError
from evalcore.score.metrics.aggregations import AGGREGATIONS, Aggregation
from evalcore.stats import (
    Interval,
    interval,
    mean_interval,
    pooled_standard_error,
    standard_error,
    wilson,
)
from evalcore.stats.bootstrap import Resampled, bootstrap
from evalcore.stats.interval import around, normal_quantile

FEW = 10
"""Below so many right or wrong answers the normal interval is too narrow; Wilson's is used."""


@dataclass(frozen=True)
class Measured:
    """A mean score; `method` is normal, clustered, wilson, pooled, bootstrap, or none."""

    interval: Interval
    stderr: float | None
    method: str
    n: int


Clusters = Sequence[Hashable] | None
ROUNDING = 1e-12
"""Relative to the scores: a standard error below is one of 0."""
DRAWS = 5_000
"""Resamples for an aggregation whose resamples cost little."""
DRAWS_OF_FUNCTION = 100
"""Resamples for a task's own aggregation, which is called anew for each: enough for an error."""


def measure(scores: Sequence[float], clusters: Clusters = None) -> Measured:
    """The mean of one task's scores."""
    n, stderr = len(scores), _standard_error(scores, clusters)
    if stderr and not _is_extreme(scores):
        method = "normal" if clusters is None else "clustered"
        return Measured(interval(scores, clusters), stderr, method, n)
    if _are_shares(scores) and (n > 1 or _is_extreme(scores)):
        return Measured(_wilson([scores], [clusters], stderr), stderr, "wilson", n)
    return _without_interval(float(np.mean(scores)), n)


def measure_statistic(
    value: float,
    aggregation: Aggregation,
    items: Sequence[Any],
    clusters: Clusters = None,
    seed: int = 1234,
) -> Measured:
    """An aggregation that is no mean, by its bootstrap over documents or clusters.

    Percentiles of the resamples; of a task's own aggregation, which has few, value ± 1.96 · SE.
    """
    n = len(items)
    bare = _without_interval(value, n)
    if len(items if clusters is None else set(clusters)) < 2 or aggregation.name == "bypass":
        return bare
    try:
        resampled = _resampled(aggregation, items, clusters, seed)
    except (TaskError, ValueError):  # a resample may have no value where the whole has one
        return bare
    if not resampled.stderr:
        return bare  # no resample tells how sure this is, as for an F1 of 1
    bounds = resampled.interval(value)
    if len(resampled.replicates) < DRAWS:
        bounds = around(value, normal_quantile(0.95) * resampled.stderr)
    return Measured(bounds, resampled.stderr, "bootstrap", n)


def _resampled(
    aggregation: Aggregation, items: Sequence[Any], clusters: Clusters, seed: int
) -> Resampled:
    if aggregation.name and aggregation.name in AGGREGATIONS:
        return bootstrap(
            aggregation.name,
            aggregation.prepare(items),
            draws=DRAWS,
            seed=seed,
            clusters=clusters,
            average=aggregation.average,
        )
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, of the whole, is enough
        return bootstrap(
            aggregation.of, items, draws=DRAWS_OF_FUNCTION, seed=seed, clusters=clusters
        )


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
    value, n = float(np.mean(scores)), len(scores)
    if stderr and not _is_extreme(scores):
        return Measured(around(value, normal_quantile(0.95) * stderr), stderr, "pooled", n)
    if not _are_shares(scores):
        return _without_interval(value, n)
    return Measured(_wilson(parts, labels, stderr), stderr, "wilson", n)


def measure_parts(parts: Sequence[Measured], sizes: Sequence[int], *, by_size: bool) -> Measured:
    """The mean of the parts' numbers, by these sizes or all alike, from their own errors.

    A plain mean takes each side of its interval from the parts' (Zou and Donner 2008). Where a part
    has no interval, or no error to pool, the mean has none.
    """
    n = sum(part.n for part in parts)
    known = [part.stderr for part in parts if part.stderr is not None]
    complete = len(known) == len(parts)
    if by_size:
        weighed = zip(parts, sizes, strict=True)
        value = sum(part.interval.value * size for part, size in weighed) / sum(sizes)
        stderr = None
        if complete and sum(sizes) > len(sizes):
            stderr = pooled_standard_error(known, sizes)
        if not stderr:
            return _without_interval(value, n)
        return Measured(around(value, normal_quantile(0.95) * stderr), stderr, "pooled", n)
    bounds = mean_interval([part.interval for part in parts])
    if any(part.method == "none" for part in parts):
        return _without_interval(bounds.value, n)
    stderr = sqrt(sum(error**2 for error in known)) / len(parts) if complete else None
    return Measured(bounds, stderr, "pooled", n)


def _without_interval(value: float, n: int) -> Measured:
    return Measured(Interval(value, value, value), None, "none", n)


def _standard_error(scores: Sequence[float], clusters: Clusters) -> float | None:
    """None where one score, or one cluster, leaves no spread to measure."""
    apart = len(scores) if clusters is None else len(set(clusters))
    if apart < 2:
        return None
    error = standard_error(scores, clusters)
    # Scores that are all alike, and clusters whose means are, differ from their mean by rounding.
    return error if error > ROUNDING * max(map(abs, scores)) else 0.0


def _wilson(
    parts: Sequence[Sequence[float]], labels: Sequence[Clusters], stderr: float | None
) -> Interval:
    """Wilson's interval; of clusters with the number of independent questions that the error
    stands for.

    `p (1 - p) / SE²` questions, never more than there are; where the error is 0 or unknown, one for
    each cluster.
    """
    scores = [score for part in parts for score in part]
    p, n = float(np.mean(scores)), len(scores)
    if all(of_part is None for of_part in labels):
        return wilson(sum(scores), n)
    independent = sum(
        len(part if of_part is None else set(of_part))
        for part, of_part in zip(parts, labels, strict=True)
    )
    worth = min(p * (1 - p) / stderr**2, n) if stderr else independent
    return wilson(p * worth, worth)


def _are_shares(scores: Sequence[float]) -> bool:
    """Whether these are scores between 0 and 1, as Wilson's interval takes them."""
    return all(0 <= score <= 1 for score in scores)


def _is_extreme(scores: Sequence[float]) -> bool:
    """Whether these are right-or-wrong scores with few of one kind."""
    right, wrong = scores.count(1.0), scores.count(0.0)
    return right + wrong == len(scores) and min(right, wrong) < FEW
