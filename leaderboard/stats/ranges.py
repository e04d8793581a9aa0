"""Which ranks can each of thousands of models have by an average over many tasks?

All pairs of a few hundred models are decided together, and their ranges hold together. Of more
models only neighbours in the order are compared, in overlapping windows: what is a thousand ranks
apart needs no test, and its claims would cost the close pairs power. The ranges then hold together
within each window, not over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.blocks import Block
from evalcore.stats.interval import checked
from evalcore.stats.ranking import shown_better

EDGE = 10
"""A range is cut where one of the farthest tenth of the models compared was not told apart."""

Better = NDArray[np.bool_]


@dataclass(frozen=True)
class BoardRanges:
    """Best and worst rank of each model in the order of the means, 1 for the first."""

    ranges: NDArray[np.int64]
    """Shape (models, 2)."""
    cut: Better
    """Shape (models, 2): true where the range ends only because farther models were not
    compared."""
    better: Better
    """Shape (models, reach): true at [j, d] where model j was shown better than model j + 1 + d."""
    reach: int
    """How many places up and down each model was compared with."""


@dataclass(frozen=True)
class Earlier:
    """The claims of an earlier order, some of whose models are where they were."""

    better: Better
    """Of all its models, as `BoardRanges.better`."""
    same: Better
    """Shape (models of the new order,): whether a place has the model that it had, with all that
    decided on its claims: mean, scores by question, own variance."""


def board_ranges(
    means: ArrayLike,
    blocks_of: Callable[[slice], Iterable[Block]],
    *,
    own_variance: ArrayLike | None = None,
    reach: int = 100,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    earlier: Earlier | None = None,
) -> BoardRanges:
    """Ranges of ranks by `means`, shape (models,), which are in order with the highest first.

    `blocks_of(part)` gives the blocks of the models of that slice; it is read once, so it may make
    them one by one. `own_variance`, shape (models,), is further variance of each model's mean that
    no two models share, as that between draws of examples. Up to twice `reach` models are compared
    in one window, exactly. Of more, windows of that length start every `reach` models, and a pair
    at most `reach` apart is decided in the window whose centre is nearest to the pair's; farther
    models count as in the order measured. The claims of a window follow from its models alone, by
    the same draws: one whose models are those of `earlier`, made with the same reach, confidence,
    draws and seed, is taken over. Raises ValueError for means that are not in order, NaN,
    variances that do not fit or lie below 0, a reach below 1, and as `shown_better`.
    """
    values = checked(means, "means")
    n = len(values)
    if (np.diff(values) > 0).any():
        raise ValueError("means: expected the highest first")
    variances = np.zeros(n) if own_variance is None else checked(own_variance, "own_variance")
    if len(variances) != n or variances.min() < 0:
        raise ValueError(f"own_variance: expected {n} numbers from 0 up")
    if reach < 1:
        raise ValueError(f"reach: expected 1 or more, got {reach}")
    width = min(n, 2 * reach)
    reach = n - 1 if width == n else reach
    better = np.zeros((n, reach), dtype=np.bool_)
    known = _known(earlier, width, reach)
    for part, from_middle, to_middle in _windows(n, width, reach):
        found = None
        if not (earlier and known(part, from_middle, to_middle)):
            found = shown_better(
                values[part],
                blocks_of(part),
                own_variance=variances[part],
                confidence=confidence,
                draws=draws,
                seed=seed,
            )
        for distance in range(1, reach + 1):
            first = np.arange(part.start, part.stop - distance)
            middle = first + distance / 2
            decided = first[(from_middle <= middle) & (middle < to_middle)]
            if found is not None:
                better[decided, distance - 1] = found.diagonal(distance)[decided - part.start]
            elif earlier:
                better[decided, distance - 1] = earlier.better[decided, distance - 1]
    return BoardRanges(*_ranges(better), better, reach)


def _known(
    earlier: Earlier | None, width: int, reach: int
) -> Callable[[slice, float, float], bool]:
    """Whether `earlier` decided the pairs of a window, with these middles, in the same one."""
    if earlier is None or earlier.better.shape[1] != reach or len(earlier.better) < width:
        return lambda *_: False
    of_before = {
        part.start: (part.stop, low, high)
        for part, low, high in _windows(len(earlier.better), width, reach)
    }

    def known(part: slice, from_middle: float, to_middle: float) -> bool:
        stop, low, high = of_before.get(part.start, (0, 0.0, 0.0))
        decided = stop == part.stop and low <= from_middle and to_middle <= high
        return decided and bool(earlier.same[part].all())

    return known


def among(found: Better, left: NDArray[np.intp]) -> BoardRanges:
    """The ranges of the models at these places, in their order, by the same claims.

    `found` is `BoardRanges.better` of all. What held for all at once holds for some of them. Two
    that come closer and that nobody compared count as not told apart, which makes ranges wider.
    """
    n = len(left)
    reach = min(found.shape[1], n - 1)
    better = np.zeros((n, reach), dtype=np.bool_)
    for distance in range(1, reach + 1):
        first = np.arange(n - distance)
        apart = left[first + distance] - left[first]
        compared = first[apart <= found.shape[1]]
        better[compared, distance - 1] = found[left[compared], apart[compared] - 1]
    return BoardRanges(*_ranges(better), better, reach)


def bands(better: Better, reach: int) -> list[int]:
    """Where bands of models begin, from `better` of shape (models, reach); the first at 0.

    A band goes on until its first model was shown to be better than the next one, or until nobody
    compared the two. Raises ValueError where `reach` is not that of `better`.
    """
    if better.ndim != 2 or better.shape[1] != reach:
        raise ValueError(f"reach: {reach} for better of shape {better.shape}")
    starts = [0] if len(better) else []
    while starts:
        first = starts[-1]
        beaten = np.flatnonzero(better[first])
        following = first + 1 + (int(beaten[0]) if len(beaten) else reach)
        if following >= len(better):
            break
        starts.append(following)
    return starts


def _windows(n: int, width: int, step: int) -> Iterator[tuple[slice, float, float]]:
    """Each window with the middles of the pairs that it decides: from one, to before the other."""
    starts = [0] if width == n else [*range(0, n - width, step), n - width]
    borders = [(one + other + width - 1) / 2 for one, other in pairwise(starts)]
    for start, low, high in zip(starts, [-inf, *borders], [*borders, inf], strict=True):
        yield slice(start, start + width), low, high


def _ranges(better: Better) -> tuple[NDArray[np.int64], Better]:
    """The ranges that follow from the claims, and where they are cut."""
    n, reach = better.shape
    # The same claims as seen by the worse model: it is d + 1 places below the better one.
    worse = np.zeros_like(better)
    for d in range(reach):
        worse[d + 1 :, d] = better[: n - d - 1, d]
    place = np.arange(n)
    ranges, cut = np.empty((n, 2), dtype=np.int64), np.zeros((n, 2), dtype=np.bool_)
    edge = slice(reach - max(1, reach // EDGE), reach)
    farther = np.maximum(place - reach, 0), np.maximum(n - 1 - place - reach, 0)
    ranges[:, 0] = 1 + farther[0] + worse.sum(axis=1)
    ranges[:, 1] = n - farther[1] - better.sum(axis=1)
    for side, claims in enumerate((worse, better)):
        cut[:, side] = (farther[side] > 0) & ~claims[:, edge].all(axis=1)
    return ranges, cut
