"""What two boards' claims of better models say of the models that both rank.

Within a board's reach a pair is claimed or it is not; farther apart nobody compared, and models
count in the order measured (docs/method.md, windows of models).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evalcore.stats.pairs import count_below
from leaderboard.snapshot.data import Board, Flags, Ints, Ranks

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Claims:
    """Some of a board's ranked models, in an order of the caller's."""

    ranks: Ranks
    """Of all the ranked, in the board's order."""
    places: Rows
    """Where each model stands among them."""

    @classmethod
    def of(cls, board: Board, places: Rows) -> Claims:
        return cls(board.ranks.rows(np.flatnonzero(board.ranks.rank > 0)), places)

    @cached_property
    def claimed(self) -> Flags:
        """At [j, d] whether the j-th ranked was shown to be better than the one d + 1 below."""
        bits = np.unpackbits(self.ranks.better, axis=1, count=self.ranks.reach)
        return bits.astype(np.bool_)

    def better(self, first: Rows, second: Rows) -> Flags:
        """Whether each of the `first` ranked (by place) counts as better than its `second`."""
        distance = second - first
        near = (distance > 0) & (distance <= self.ranks.reach)
        found = distance > self.ranks.reach
        found[near] = self.claimed[first[near], distance[near] - 1]
        return found

    def ranges(self) -> tuple[Ints, Ints]:
        """Best and worst rank of each among these models alone."""
        n, reach = len(self.ranks.rank), self.ranks.reach
        member = np.zeros(n, np.bool_)
        member[self.places] = True
        if member.all():
            return self.ranks.low[self.places], self.ranks.high[self.places]
        up_to = np.concatenate([[0], np.cumsum(member)])
        place = np.arange(n)
        low = 1 + up_to[np.maximum(place - reach, 0)]
        high = up_to[np.minimum(place + reach + 1, n)].copy()
        for distance in range(1, min(reach, n - 1) + 1):
            shown = self.claimed[: n - distance, distance - 1]
            low[distance:] += shown & member[: n - distance]
            high[: n - distance] -= shown & member[distance:]
        return low[self.places].astype(np.int32), high[self.places].astype(np.int32)


def claimed_flips(first: Claims, second: Claims) -> int:
    """How many pairs of the models, which both list alike, were shown in opposite orders."""
    near, turned = _flips_within(first, second, beyond=0)
    far, turned_far = _flips_within(second, first, beyond=first.ranks.reach)
    up, down = first.places.astype(np.float64), -second.places.astype(np.float64)
    every = count_below(up, down, up, down).sum()
    # What is out of reach in both counts as measured.
    return near + far + int(every) - turned - turned_far


def _flips_within(one: Claims, other: Claims, *, beyond: int) -> tuple[int, int]:
    """Of the pairs that turn round and have at most `reach` of the models between them in `one`.

    How many were shown in both, and how many there are; only of those more than `beyond` models
    apart in `other`.
    """
    order = np.argsort(one.places)
    here, there = one.places[order], other.places[order]
    among = np.argsort(np.argsort(there))
    shown = turned = 0
    for distance in range(1, min(one.ranks.reach, len(here) - 1) + 1):
        upper, lower = np.arange(len(here) - distance), np.arange(distance, len(here))
        flips = among[upper] - among[lower] > beyond
        upper, lower = upper[flips], lower[flips]
        turned += len(upper)
        both = one.better(here[upper], here[lower])
        both &= other.better(there[lower], there[upper])
        shown += int(both.sum())
    return shown, turned
