"""What does lm-evaluation-harness print as the standard error of an aggregation?

`compat_stderr` gives its numbers: it replays the same stream of resamples (chunk i of up to 1,000
resamples draws from the Mersenne Twister seeded with i), but computes a chunk at once. Python's
`Random(i).choices` floors `random() · n`; NumPy's legacy generator, seeded with the list [i],
gives the same sequence of `random()`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalcore.stats.sums import (
    TRANSLATION,
    SumStatistic,
    occurrences,
    references_and_predictions,
    segment_statistics,
    sum_statistic,
    translation_score,
)

CHUNK = 1000
"""Resamples drawn from one seed."""
BLOCK = 2**18
"""Indices made at once, about: what fits into a processor's cache is several times faster."""
MOST_LOOK_UPS = 8
"""Columns from which on counting documents is quicker than looking up each drawn one."""
MOST_TRANSLATION_DRAWS = 100
"""lm-evaluation-harness resamples a metric of this name so often at most."""
BOOTSTRAPPED = ("median", "matthews_corrcoef", "f1", "perplexity", "nanmean", *TRANSLATION)
"""Aggregations whose standard error lm-evaluation-harness bootstraps."""

Indices = NDArray[np.int64]
Values = NDArray[np.float64]


def compat_draws(metric: str, iters: int) -> int:
    """How many resamples lm-evaluation-harness takes for a metric: it goes by the metric's name."""
    return min(iters, MOST_TRANSLATION_DRAWS) if metric in TRANSLATION else iters


def compat_stderr(aggregation: str, items: Sequence[Any], iters: int) -> float | None:
    """lm-evaluation-harness's standard error of an aggregation, by the aggregation's name.

    `items` are the metric's values in document order, `iters` the resamples (`compat_draws`). None
    where it prints "N/A": other aggregations, fewer than two items, no resamples. NaN where the
    statistic itself is infinite or undefined on a resample, as there. Raises ValueError naming
    `items` where the aggregation has no value for them.
    """
    if iters <= 0 or len(items) < 2:
        return None
    if aggregation == "mean":
        values = np.asarray(items, dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"items: expected numbers, got shape {values.shape}")
        return _sample_deviation(values) / sqrt(len(items))
    if aggregation == "acc_all":
        return _acc_all_stderr(items)
    if aggregation in BOOTSTRAPPED and iters > 1:
        replicate = _replicate(aggregation, items)
        replicates = [replicate(indices) for indices in compat_indices(len(items), iters)]
        return _sample_deviation(np.concatenate(replicates))
    return None


def compat_indices(n: int, iters: int) -> Iterator[Indices]:
    """The documents of each resample, shape (a few resamples, n), in lm-eval's order.

    `iters` is rounded down to whole chunks of 1,000 where it exceeds that.
    """
    chunk = min(CHUNK, iters)
    block = max(1, BLOCK // n)
    for seed in range(iters // chunk):
        stream = np.random.RandomState([seed])
        for start in range(0, chunk, block):
            drawn = stream.random_sample((min(block, chunk - start), n))
            yield (drawn * n).astype(np.int64)


def _medians(items: Sequence[Any], indices: Indices) -> Values:
    """The upper median, `sorted(items)[n // 2]`, of each resample."""
    drawn = np.asarray(items, dtype=np.float64)[indices]
    middle = indices.shape[1] // 2
    return np.asarray(np.partition(drawn, middle, axis=1)[:, middle])


def _replicate(aggregation: str, items: Sequence[Any]) -> Callable[[Indices], Values]:
    if aggregation == "median":
        return lambda indices: _medians(items, indices)
    if aggregation in TRANSLATION:
        references, _ = references_and_predictions(items)
        counts = np.array([len(texts) for texts in references])
        if counts.min() < counts.max():
            return _UnevenReferences(aggregation, items, counts)
    sums = sum_statistic(aggregation, items)
    assert sums is not None  # noqa: S101  # of those in BOOTSTRAPPED the median alone has none
    return _Summed(sums)


class _Summed:
    """Adds up the rows of each resample.

    Columns of counts share one integer as digits of base n + 1, so that F1 and MCC of two classes
    take a single look-up per drawn document. Where many columns are left, documents are counted
    first, and the counts multiplied with the rows.
    """

    def __init__(self, statistic: SumStatistic) -> None:
        self._value, self._rows = statistic.value, statistic.rows
        n, self._width = self._rows.shape
        self._base, self._digits = 0, 1
        if self._rows.dtype == np.int64 and self._rows.min() >= 0 and self._rows.max() <= 1:
            self._base = n + 1
            self._digits = int(63 / np.log2(self._base))
        self._columns = [self._packed(start) for start in range(0, self._width, self._digits)]

    def __call__(self, indices: Indices) -> Values:
        sums = self._sums(indices)
        return np.asarray(self._value(sums, np.full(len(indices), indices.shape[1])))

    def _sums(self, indices: Indices) -> NDArray[Any]:
        if len(self._columns) > MOST_LOOK_UPS:
            return occurrences(indices, indices.shape[1]).astype(np.float64) @ self._rows
        sums = [column[indices].sum(axis=1) for column in self._columns]
        return np.stack(self._apart(sums) if self._base else sums, axis=1)

    def _packed(self, start: int) -> NDArray[Any]:
        columns = self._rows[:, start : start + self._digits]
        powers = [self._base**place for place in range(columns.shape[1])]
        return np.asarray(columns @ np.array(powers, dtype=columns.dtype))

    def _apart(self, sums: list[NDArray[Any]]) -> list[NDArray[Any]]:
        digits: list[NDArray[Any]] = []
        for packed in sums:
            for _ in range(min(self._digits, self._width - len(digits))):
                packed, digit = np.divmod(packed, self._base)
                digits.append(digit)
        return digits


class _UnevenReferences:
    """Translation with differing numbers of references.

    lm-evaluation-harness lays references out by the drawn segment that has the fewest, so a
    segment's statistics depend on the segments drawn with it.
    """

    def __init__(self, metric: str, items: Sequence[Any], counts: Indices) -> None:
        self._metric, self._items, self._counts = metric, items, counts
        self._tables: dict[int, NDArray[Any]] = {}

    def __call__(self, indices: Indices) -> Values:
        return np.array([self._score(draw) for draw in indices])

    def _score(self, draw: Indices) -> float:
        sums = self._table(int(self._counts[draw].min()))[draw].sum(axis=0)
        return translation_score(self._metric, sums.tolist())

    def _table(self, fewest: int) -> NDArray[Any]:
        if fewest not in self._tables:
            enough = np.flatnonzero(self._counts >= fewest)
            known = segment_statistics(
                self._metric, [self._items[place] for place in enough.tolist()], fewest
            )
            table = np.zeros((len(self._items), known.shape[1]), dtype=known.dtype)
            table[enough] = known
            self._tables[fewest] = table
        return self._tables[fewest]


def _acc_all_stderr(items: Sequence[Any]) -> float | None:
    """Of the share of questions with all answers labelled right; items are (label, document).

    Quirk: questions of different paragraphs with one number count as one here, not in the score.
    """
    right: dict[Hashable, bool] = {}
    for predicted, doc in items:
        question = doc["idx"]["question"]
        right[question] = right.get(question, True) and (doc["label"] == 1) == predicted
    if len(right) < 2:
        return None
    return _sample_deviation(np.array(list(right.values()), dtype=np.float64)) / sqrt(len(right))


def _sample_deviation(values: Values) -> float:
    with np.errstate(invalid="ignore"):  # infinite replicates have no deviation: NaN
        return float(values.std(ddof=1))
