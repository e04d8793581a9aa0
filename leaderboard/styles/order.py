"""What a change of style does to the order of models: of a suite's averages, or of one benchmark.

Only models that stand in both orders are compared; ranks are among them. Of averages the boards'
claims decide which of two models is better (docs/method.md). Of one benchmark, whose pairs nobody
compared, separate intervals do, widened until all hold together: a model is better where its
interval lies above as a whole. Either way what is said of a style holds at once with 95 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import Interval, kendall_interval, kendall_tau
from evalcore.stats.pairs import count_below
from leaderboard.snapshot import Board, Flags, Floats, Ints, Models, Ranks, Scores
from leaderboard.stats import clear_flips, flipped_share, held_together
from leaderboard.web import Recent


@dataclass(frozen=True)
class Claims:
    """Some of a board's ranked models, in an order of the caller's, and what is claimed of them.

    Within its reach a pair is claimed or it is not; farther apart nobody compared, and models count
    in the order measured (docs/method.md, windows of models).
    """

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


Rows = NDArray[np.intp]
Better = Callable[[Rows, Rows], Flags]
KEPT = 48
"""Changes that a process keeps: some 600 KB each with 10,000 models."""


@dataclass(frozen=True)
class Order:
    """The models in one style, every array of shape (models,)."""

    value: Floats
    low: Ints
    """The ranks that are not excluded, from ..."""
    high: Ints
    """... to."""
    cut_low: Flags
    """Whether the range begins here only because models farther up were not compared."""
    cut_high: Flags
    better: Better
    """Whether each of the first models is shown to be better than its second."""

    @cached_property
    def rank(self) -> Ints:
        """1 for the highest; equal scores share one."""
        falling = -self.value
        return (1 + np.searchsorted(np.sort(falling), falling, side="left")).astype(np.int32)


@dataclass(frozen=True)
class Change:
    """The same models in two orders."""

    models: Models
    first: Order
    second: Order
    shown_flips: int
    """Pairs of models that were shown in opposite orders."""

    @cached_property
    def moved(self) -> NDArray[np.int32]:
        """Places that each model rises from the first style to the second; below 0 it falls."""
        return self.first.rank - self.second.rank

    @cached_property
    def beyond_chance(self) -> Flags:
        """Whether a model's two ranges do not overlap."""
        one, other = self.first, self.second
        return (one.high < other.low) | (other.high < one.low)

    @property
    def pairs(self) -> int:
        return len(self.models) * (len(self.models) - 1) // 2

    @cached_property
    def tau(self) -> float | None:
        """Kendall’s τ_b of the two orders; None where one of them is no order."""
        return kendall_tau(self.first.value, self.second.value) if self._ordered else None

    @cached_property
    def interval(self) -> Interval | None:
        """Of τ, had other models been compared; None for few models, and where it has no width."""
        try:
            found = kendall_interval(self.first.value, self.second.value)
        except ValueError:
            return None
        return found if found.low < found.high else None

    @cached_property
    def flipped(self) -> float | None:
        """Share of the pairs that change places, of those that both styles put in an order."""
        return flipped_share(self.first.value, self.second.value) if self._ordered else None

    @property
    def _ordered(self) -> bool:
        return all(order.value.min() < order.value.max() for order in (self.first, self.second))


_known: Recent[Change | None] = Recent(KEPT)
"""By what the same data gave: pages are asked for more often than boards are built."""


def of_averages(first: Board, second: Board) -> Change | None:
    """Of the models that both boards rank; None for fewer than two."""
    key = ("average", first.data_version, second.data_version)
    return _known.of(key, lambda: _of_averages(first, second))


def of_benchmark(every: Board, places: tuple[int, int]) -> Change | None:
    """Of the models with a score in both columns of the board of every style; None for fewer."""
    return _known.of((places, every.data_version), lambda: _of_benchmark(every, places))


def _of_averages(first: Board, second: Board) -> Change | None:
    ranked = np.flatnonzero(first.ranks.rank > 0)
    variants = first.models.take(ranked).values("variant")
    elsewhere = np.array([_place(second, variant) for variant in variants], np.intp)
    places, other_places = np.flatnonzero(elsewhere >= 0), elsewhere[elsewhere >= 0]
    if len(places) < 2:
        return None
    claims = Claims.of(first, places), Claims.of(second, other_places)
    return Change(
        first.models.take(ranked[places]),
        _order_of_averages(first, claims[0]),
        _order_of_averages(second, claims[1]),
        claimed_flips(*claims),
    )


def _place(board: Board, variant: int) -> int:
    """A variant's place among the ranked; -1 for none."""
    row = board.row_of.get(variant)
    return -1 if row is None else int(board.place_among_ranked[row])


def _order_of_averages(board: Board, claims: Claims) -> Order:
    places = claims.places
    low, high = claims.ranges()
    return Order(
        value=board.average.value[board.ranks.rank > 0][places],
        low=low,
        high=high,
        cut_low=claims.ranks.cut_low[places],
        cut_high=claims.ranks.cut_high[places],
        better=lambda one, other: claims.better(places[one], places[other]),
    )


def _of_benchmark(every: Board, places: tuple[int, int]) -> Change | None:
    scored = ~np.isnan(every.scores.value[:, places]).any(axis=1)
    reasons = zip(every.models.values("flag_reason"), every.models.values("apart"), strict=True)
    unflagged = np.array([not any(of_model) for of_model in reasons], np.bool_)
    rows = _newest(every.models, np.flatnonzero(scored & unflagged))
    if len(rows) < 2:
        return None
    one, other = (_together(every.scores.column(place).rows(rows)) for place in places)
    intervals = (np.stack([scores.low, scores.high], axis=1) for scores in (one, other))
    return Change(
        every.models.take(rows),
        _order_of_scores(one),
        _order_of_scores(other),
        clear_flips(*intervals),
    )


def _newest(models: Models, rows: Rows) -> Rows:
    """Of several commits of one model the newest among these rows, as boards rank them."""
    identities = models.identities
    came = list(zip(models.values("added"), models.values("variant"), strict=True))
    latest: dict[tuple[str, ...], int] = {}
    for row in rows.tolist():
        held = latest.setdefault(identities[row], row)
        if came[row] > came[held]:
            latest[identities[row]] = row
    return np.array(sorted(latest.values()), np.intp)


def _together(scores: Scores) -> Scores:
    return Scores(scores.value, *held_together(*scores.sides))


def _order_of_scores(scores: Scores) -> Order:
    n = len(scores.value)
    above = n - np.searchsorted(np.sort(scores.low), scores.high, side="right")
    below = np.searchsorted(np.sort(scores.high), scores.low, side="left")
    no = np.zeros(n, np.bool_)
    return Order(
        value=scores.value,
        low=(1 + above).astype(np.int32),
        high=(n - below).astype(np.int32),
        cut_low=no,
        cut_high=no,
        better=lambda one, other: scores.low[one] > scores.high[other],
    )
