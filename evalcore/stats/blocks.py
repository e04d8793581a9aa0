"""What does one task add to the models' averages, and how do the models' errors in it go together?

Models answer the same questions, so their means rise and fall together by luck of the draw; what
counts between two models is the error of their difference. A block keeps what each independent
unit (question, or cluster of questions) contributed, from which the covariance of any models
follows, and blocks of tasks add up. Sources: Miller 2024 (arXiv 2411.00640), eq. 4, for clusters;
Cochran 1977 (Sampling Techniques), chapter 5, for fixed parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """One task's part of each model's average."""

    means: Values
    """Shape (models,): weight times the task's score."""
    deviations: NDArray[np.floating[Any]]
    """Shape (models, units): the products of two models' rows, summed, are the covariance of their
    means (the factor G / (G - 1) is in them)."""
    freedom: int
    """Degrees of freedom of that covariance: units - parts."""


def block(
    scores: ArrayLike,
    *,
    weight: float = 1.0,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    by_part: bool = False,
) -> Block:
    """The block of one task; `scores` has shape (models, documents), `weight` is its share.

    `strata` and `clusters` are whole numbers, one a document. Strata are fixed parts of the task
    (subjects): deviations are from the part's own mean. The task's score is the mean over documents
    or, with `by_part`, the plain mean over parts. Documents of one cluster are one unit: its
    deviations are summed. With G units in a part the factor is G / (G - 1); clusters that reach
    into several parts (a question in several languages) make all parts one in this. A part of a
    single unit shows no spread of its own: it is given the mean variance of the other units, as
    lm-evaluation-harness pools it. Raises ValueError with the argument's name for scores that are
    no table or not finite, labels that do not fit, one cluster, or parts of one unit only.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or len(values) < 1 or values.shape[1] < 2:
        raise ValueError(
            f"scores: expected shape (models, documents) with two documents or more, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores: contain NaN or infinity")
    if not np.isfinite(weight) or weight == 0:
        raise ValueError(f"weight: expected a finite number other than 0, got {weight}")
    n = values.shape[1]
    parts, sizes = _parts(strata, n, by_part)
    of_part = np.full(len(sizes), 1 / len(sizes)) if by_part else sizes / n
    share = weight * (of_part / sizes)[parts]
    means_of_parts = _sums(values, parts, len(sizes)) / sizes
    # Sums of right answers are whole numbers, so that models with as many have equal means.
    means = weight * (means_of_parts if by_part else values).mean(axis=1)
    deviations = (values - means_of_parts[:, parts]) * share
    if clusters is None:
        units, shares = parts, share
    else:
        labels = _numbered(clusters, n, "clusters")
        count = int(labels.max()) + 1
        if count < 2:
            raise ValueError("clusters: a standard error needs at least two")
        deviations = _sums(deviations, labels, count)
        shares = np.bincount(labels, weights=share)
        units = _parts_of_clusters(labels, parts, count)
    factors, freedom = _factors(units, shares)
    return Block(means, deviations * np.sqrt(factors), freedom)


def _parts(strata: ArrayLike | None, n: int, by_part: bool) -> tuple[Labels, Labels]:
    """The part of each document, and the parts' sizes."""
    if strata is None:
        if by_part:
            raise ValueError("by_part: expected strata, whose means are averaged")
        return np.zeros(n, dtype=np.int64), np.array([n])
    parts = _numbered(strata, n, "strata")
    return parts, np.bincount(parts)


def _parts_of_clusters(labels: Labels, parts: Labels, count: int) -> Labels:
    """The part in which each cluster lies; one for all where a cluster reaches into several."""
    found = np.zeros(count, dtype=np.int64)
    found[labels] = parts
    return found if (found[labels] == parts).all() else np.zeros(count, dtype=np.int64)


def _factors(parts: Labels, shares: Values) -> tuple[Values, int]:
    """By what each unit's squared deviation counts, and the degrees of freedom.

    `parts` and `shares` say in which part each unit lies and its share of the average. A part of
    one unit with share A adds A² times the variance of a unit's mean, pooled over the others.
    """
    sizes = np.bincount(parts)
    freedom = len(parts) - len(sizes)
    if freedom == 0:
        raise ValueError("strata: parts of one question or cluster only show no spread")
    units = sizes[parts]
    spread = units > 1
    alone = (shares[~spread] ** 2).sum()
    factors = np.zeros(len(parts))
    factors[spread] = units[spread] / (units[spread] - 1) + alone / freedom / shares[spread] ** 2
    return factors, freedom


def _sums(values: Values, labels: Labels, count: int) -> Values:
    """Sums of the columns of `values` by label, shape (rows, count); each label occurs."""
    if (np.diff(labels) < 0).any():
        order = np.argsort(labels, kind="stable")
        values, labels = values[:, order], labels[order]
    return np.add.reduceat(values, np.searchsorted(labels, np.arange(count)), axis=1)


def _numbered(labels: ArrayLike, n: int, name: str) -> Labels:
    """The labels as numbers from 0 without gaps."""
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ValueError(f"{name}: {given.size} labels for {n} scores")
    return np.unique(given, return_inverse=True)[1].astype(np.int64)
