"""How many questions does a lead hang on? The fewest without which the other model is ahead.

The definition is of the scores as measured, and exact: no smaller set turns the difference of the
two means, where the means are of the questions that are left (docs/method.md; after Broderick,
Giordano and Meager 2020, who approximate it for any statistic).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST = 500
"""A lead that hangs on more questions is not looked into: the search takes n · MOST steps."""
TURNED = 1e-9
"""A difference of less than this is rounding, and no lead."""

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def deciding(differences: ArrayLike, parts: ArrayLike | None = None) -> Places | None:
    """Places of the fewest questions without which the sign of the mean difference is the other.

    `differences`, shape (n,), are one model's scores less the other's. With `parts`, whole numbers
    of shape (n,), the mean is over the parts' means, and each part keeps a question. Of equal
    differences the first are taken. None where the mean is 0, where no questions turn it, and
    where more than MOST would have to go.
    """
    found = np.asarray(differences, dtype=np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise ValueError(f"differences: expected finite numbers, one a question; got {found!r}")
    part = np.zeros(len(found), np.intp) if parts is None else _parts(parts, len(found))
    members = [np.flatnonzero(part == number) for number in range(int(part.max()) + 1)]
    lead = sum(float(found[of].mean()) for of in members)
    if abs(lead) < TURNED:
        return None
    ahead = found if lead > 0 else -found
    ordered = [of[np.argsort(-ahead[of], kind="stable")] for of in members]
    counts = _fewest([_means_without(ahead[of]) for of in ordered])
    if counts is None:
        return None
    gone = [of[:count] for of, count in zip(ordered, counts, strict=True)]
    return np.sort(np.concatenate(gone))


def _parts(parts: ArrayLike, n: int) -> Places:
    numbers = np.unique(np.asarray(parts), return_inverse=True)[1]
    if numbers.shape != (n,):
        raise ValueError(f"parts: expected one for each of {n} questions, got {numbers.shape}")
    return numbers


def _means_without(falling: Floats) -> Floats:
    """The mean without the 0, 1, 2, ... largest; `falling` has the largest first."""
    most = min(MOST, len(falling) - 1)
    left = falling.sum() - np.concatenate([[0.0], np.cumsum(falling[:most])])
    means: Floats = left / (len(falling) - np.arange(most + 1))
    return means


def _fewest(means: list[Floats]) -> list[int] | None:
    """How many to take from each part; `means[p][k]` is the part's mean without its k largest.

    A part of few questions gains more by each that goes, so no order of single questions is best:
    for each total the least sum of means is found over all ways to divide it among the parts.
    """
    best, taken = np.zeros(1), []
    for of_part in means:
        total = min(MOST, len(best) + len(of_part) - 2)
        after = np.full(total + 1, np.inf)
        chosen = np.zeros(total + 1, np.intp)
        for count, mean in enumerate(of_part.tolist()):
            room = min(len(best), total + 1 - count)
            sums = best[:room] + mean
            better = sums < after[count : count + room]
            after[count : count + room][better] = sums[better]
            chosen[count : count + room][better] = count
        best = after
        taken.append(chosen)
    turned = np.flatnonzero(best < -TURNED)
    if not len(turned):
        return None
    total = int(turned[0])
    counts: list[int] = []
    for chosen in reversed(taken):
        counts.append(int(chosen[total]))
        total -= counts[-1]
    return counts[::-1]
