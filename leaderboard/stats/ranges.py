"""Which ranks can each of thousands of models have by an average over many tasks?

All pairs of a few hundred models are decided together, and their ranges hold together. Of more
models only neighbours in the order are compared, in overlapping windows: what is a thousand ranks
apart needs no test, and its claims would cost the close pairs power. The ranges then hold together
within each window, not over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.blocks import Block
from evalcore.stats.interval import checked
from evalcore.stats.ranking import shown_better

EDGE = 10
"""A range is cut where one of the farthest tenth of the models compared was not told apart."""

Better = NDArray[np.bool_]
Keys = NDArray[np.uint64]


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
    """The claims of an earlier order, some of whose models are as they were."""

    better: Better
    """Of all its models, as `BoardRanges.better`."""
    keys: Keys
    """Of all its models."""
    place: NDArray[np.intp]
    """Shape (models of the new order,): which place the model had, with all that decided on its
    claims (mean, scores by question, own variance); -1 for one that is new or changed."""


def board_ranges(
    means: ArrayLike,
    blocks_of: Callable[[slice], Iterable[Block]],
    *,
    own_variance: ArrayLike | None = None,
    keys: Keys | None = None,
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
    in one window, exactly. Of more, a window begins at the first model and at each whose key, of
    `keys` by model, is the lowest among its neighbours, and where none does for `reach` places; it
    decides each of its models up to the next window's first with the `reach` models below it, and
    has these and no others: twice `reach` at the most. Farther models count as in the order
    measured. Where windows begin follows from the models around, so that one that comes or goes
    moves none but those that have it. The claims of a window follow from its models alone, by the
    same draws: one whose models are those of a window of `earlier`, made with the same reach,
    confidence, draws and seed, is taken over. Raises ValueError for means that are not in order,
    NaN, variances or keys that do not fit, variances below 0, a reach below 1, and as
    `shown_better`.
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
    if keys is not None and len(keys) != n:
        raise ValueError(f"keys: expected {n}, got {len(keys)}")
    of_models = np.zeros(n, np.uint64) if keys is None else keys
    windows = _windows(of_models, reach)
    reach = min(reach, n - 1) if len(windows) > 1 else n - 1
    better = np.zeros((n, reach), dtype=np.bool_)
    place_before = _known(earlier, reach)
    for window in windows:
        decided = slice(window.start, window.until)
        if earlier and (before := place_before(window)) is not None:
            better[decided] = earlier.better[before : before + window.until - window.start]
            continue
        part = slice(window.start, window.stop)
        found = shown_better(
            values[part],
            blocks_of(part),
            own_variance=variances[part],
            confidence=confidence,
            draws=draws,
            seed=seed,
        )
        for distance in range(1, min(reach, window.stop - window.start - 1) + 1):
            of_distance = found.diagonal(distance)[: window.until - window.start]
            better[window.start : window.start + len(of_distance), distance - 1] = of_distance
    return BoardRanges(*_ranges(better), better, reach)


class _Window(NamedTuple):
    start: int
    stop: int
    until: int
    """It decides the pairs whose better model has a place before this one."""


def _windows(keys: Keys, reach: int) -> list[_Window]:
    n = len(keys)
    if n <= 2 * reach:
        return [_Window(0, n, n)]
    starts = [start for start in _starts(keys, reach) if start <= n - reach]
    between = [_Window(start, until + reach, until) for start, until in pairwise(starts)]
    return [*between, _Window(starts[-1], n, n)]


def _starts(keys: Keys, reach: int) -> list[int]:
    """The first place, those whose key is lowest among two fifths of `reach` on either side, of
    equal ones the first, and evenly between them, that none is farther than `reach` from the next.
    """
    n, side = len(keys), max(1, 2 * reach // 5)
    highest = np.iinfo(np.uint64).max
    padded = np.concatenate([np.full(side, highest), keys, np.full(side, highest)])
    beside = np.lib.stride_tricks.sliding_window_view(padded, side)
    before, after = beside[:n].min(axis=1), beside[side + 1 :].min(axis=1)
    lowest = np.flatnonzero((keys < before) & (keys <= after)).tolist()
    ends = sorted({0, *lowest, n})
    return [
        one + step * (other - one) // steps
        for one, other in pairwise(ends)
        for steps in [ceil((other - one) / reach)]
        for step in range(steps)
    ]


def _known(earlier: Earlier | None, reach: int) -> Callable[[_Window], int | None]:
    """Where a window of `earlier` begins that has these models and decides the same pairs."""
    if earlier is None or earlier.better.shape[1] != reach:
        return lambda _: None
    of_before = set(_windows(earlier.keys, max(1, reach)))

    def place(window: _Window) -> int | None:
        before = earlier.place[window.start : window.stop]
        moved = int(before[0]) - window.start
        then = _Window(*(end + moved for end in window))
        same = before[0] >= 0 and (np.diff(before) == 1).all()
        return then.start if same and then in of_before else None

    return place


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


def bands(better: Better, places: NDArray[np.intp]) -> list[int]:
    """Where bands of the models at these places begin, as indices into `places`.

    `better` is `BoardRanges.better` of all models, `places` rise. A band goes on until its first
    model was shown to be better than the next one, or until nobody compared the two.
    """
    reach = better.shape[1]
    starts = [0] if len(places) else []
    while starts:
        first = starts[-1]
        apart = places[first + 1 : first + 1 + reach] - places[first]
        near = apart[apart <= reach]
        beaten = np.flatnonzero(better[places[first], near - 1])
        following = first + 1 + (int(beaten[0]) if len(beaten) else len(near))
        if following >= len(places):
            break
        starts.append(following)
    return starts


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
