"""How sure is a statistic that is no mean: F1, MCC, a median, a perplexity, BLEU?

Efron 1979: the statistic of documents drawn again with replacement. Where documents come in
clusters, whole clusters are drawn (Davison and Hinkley 1997, section 3.8). A statistic that follows
from sums is drawn by counts: how often each distinct document occurs in a resample is multinomial,
and a confusion table has few distinct documents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.interval import Interval, cluster_indexes, containing
from evalcore.stats.sums import SumStatistic, average_f1, occurrences, sum_statistic

BLOCK = 2**18
"""Numbers held at once for resamples, about."""

Values = NDArray[np.float64]
Clusters = Sequence[Hashable] | None


@dataclass(frozen=True)
class Resampled:
    """A statistic on each resample."""

    replicates: Values

    @property
    def stderr(self) -> float:
        return float(self.replicates.std(ddof=1))

    def interval(self, value: float) -> Interval:
        """Percentile interval (95 %) of the statistic, whose value on all documents is `value`."""
        low, high = np.quantile(self.replicates, [(1 - 0.95) / 2, (1 + 0.95) / 2])
        return containing(float(low), value, float(high))


def bootstrap_stderr(
    statistic: Callable[..., Any],
    *samples: ArrayLike,
    draws: int,
    seed: int,
    clusters: Clusters = None,
) -> float:
    """Standard deviation of `statistic(*samples)` over `draws` resamples of the documents.

    Each sample has one entry per document (shape (n, ...)); all are drawn together. Raises
    ValueError for samples that are empty, hold NaN or differ in length, one cluster, fewer than two
    draws, or a statistic that is no finite number on a resample.
    """
    arrays = [np.asarray(sample) for sample in samples]
    found = [
        statistic(*(array[drawn] for array in arrays))
        for drawn in _drawn(_length(arrays), draws, seed, clusters)
    ]
    return _resampled(np.array(found, dtype=np.float64)).stderr


def bootstrap(
    aggregation: str | Callable[[list[Any]], float],
    items: Sequence[Any],
    *,
    draws: int,
    seed: int,
    clusters: Clusters = None,
    average: str | None = None,
) -> Resampled:
    """An aggregation of the metric's `items`, by its name or as a function, on `draws` resamples.

    `median` is the usual one; `average` (macro, weighted, micro) belongs to `f1` of many classes.
    Raises ValueError as `bootstrap_stderr` does.
    """
    if not len(items):
        raise ValueError("items: expected at least one")
    if aggregation == "median":
        return _resampled(_medians(items, draws, seed, clusters))
    if callable(aggregation):
        found = [
            aggregation([items[index] for index in drawn.tolist()])
            for drawn in _drawn(len(items), draws, seed, clusters)
        ]
        return _resampled(np.array(found, dtype=np.float64))
    sums = average_f1(items, average) if average else sum_statistic(aggregation, items)
    if sums is None:
        raise ValueError(f"aggregation: {aggregation!r} cannot be bootstrapped by name")
    if not np.isfinite(sums.rows).all():
        raise ValueError("items: contain NaN or infinity")
    return _resampled(_multinomial(sums, draws, seed, clusters))


def _multinomial(statistic: SumStatistic, draws: int, seed: int, clusters: Clusters) -> Values:
    """The statistic on each resample, shape (draws,), by how often each distinct row is drawn."""
    rows, sizes = statistic.rows, np.ones(len(statistic.rows), dtype=np.int64)
    if clusters is not None:
        of_document = cluster_indexes(clusters, len(rows))
        rows, sizes = _sums_of(rows, of_document), np.bincount(of_document)
    units = np.column_stack([rows, sizes])
    distinct, counts = np.unique(units, axis=0, return_counts=True)
    found = []
    for drawn in _count_blocks(counts, draws, seed):
        sums = drawn @ distinct
        found.append(statistic.value(sums[:, :-1], sums[:, -1]))
    return np.concatenate(found)


def _count_blocks(counts: NDArray[np.int64], draws: int, seed: int) -> Iterator[NDArray[Any]]:
    """How often each of k distinct units occurs in a resample: blocks of shape (draws, k)."""
    n, k = int(counts.sum()), len(counts)
    generator = np.random.default_rng(seed)
    if k < n / 8:
        for size in _block_sizes(draws, k):
            yield generator.multinomial(n, counts / n, size=size)
        return
    # With as many kinds as units, drawing the units and counting them is quicker.
    kind_of = np.repeat(np.arange(k), counts)
    for indexes in _index_blocks(n, draws, seed):
        yield occurrences(kind_of[indexes], k).astype(np.float64)


def _medians(items: Sequence[Any], draws: int, seed: int, clusters: Clusters) -> Values:
    """Of each resample, from how often each document occurs in it, in ascending order."""
    values = np.asarray(items, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("items: expected finite numbers")
    order = np.argsort(values)
    units = np.arange(len(values)) if clusters is None else cluster_indexes(clusters, len(values))
    found = []
    for counts in _count_blocks(np.ones(units.max() + 1, dtype=np.int64), draws, seed):
        reached = counts[:, units[order]].cumsum(axis=1)
        below = np.floor((reached[:, -1:] - 1) / 2), np.floor(reached[:, -1:] / 2)
        lower, upper = (values[order][(reached > middle).argmax(axis=1)] for middle in below)
        found.append((lower + upper) / 2)
    return np.concatenate(found)


def _drawn(n: int, draws: int, seed: int, clusters: Clusters) -> Iterator[NDArray[np.int64]]:
    """The documents of each resample; with clusters, as many clusters as there are."""
    if clusters is None:
        for indexes in _index_blocks(n, draws, seed):
            yield from indexes
        return
    of_document = cluster_indexes(clusters, n)
    members = [np.flatnonzero(of_document == unit) for unit in range(of_document.max() + 1)]
    for indexes in _index_blocks(len(members), draws, seed):
        for units in indexes:
            yield np.concatenate([members[unit] for unit in units])


def _index_blocks(n: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    for size in _block_sizes(draws, n):
        yield generator.integers(0, n, size=(size, n))


def _block_sizes(draws: int, width: int) -> Iterator[int]:
    if draws < 2:
        raise ValueError(f"draws: a standard deviation needs at least two, got {draws}")
    block = max(1, BLOCK // width)
    for start in range(0, draws, block):
        yield min(block, draws - start)


def _sums_of(rows: NDArray[Any], units: NDArray[np.int64]) -> NDArray[Any]:
    sums = np.zeros((units.max() + 1, rows.shape[1]), dtype=rows.dtype)
    np.add.at(sums, units, rows)
    return sums


def _length(arrays: Sequence[NDArray[Any]]) -> int:
    lengths = {len(array) if array.ndim else 0 for array in arrays}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"samples: expected one or more of one length, got {sorted(lengths)}")
    if any(array.dtype.kind == "f" and not np.isfinite(array).all() for array in arrays):
        raise ValueError("samples: contain NaN or infinity")
    return lengths.pop()


def _resampled(replicates: Values) -> Resampled:
    wrong = int((~np.isfinite(replicates)).sum())
    if wrong:
        raise ValueError(f"statistic: no finite number on {wrong} of {len(replicates)} resamples")
    return Resampled(replicates)
