"""What a change of style does to the order of models: of a suite's averages, or of one benchmark.

Only models that stand in both orders are compared; ranks are among them. Of averages the boards'
claims decide which of two models is better (docs/method.md). Of one benchmark, whose pairs nobody
compared, separate intervals do, widened until all hold together: a model is better where its
interval lies above as a whole. Either way what is said of a style holds at once with 95 %.

First what is claimed of the models and the two orders; then what the page draws and says of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from django.urls import reverse
from numpy.typing import NDArray

from evalcore.stats import Interval, kendall_interval, kendall_tau
from evalcore.stats.pairs import count_below
from leaderboard.snapshot import Board, Flags, Floats, Ints, Models, Ranks, Scores, in_styles
from leaderboard.stats import clear_flips, flipped_share, held_together
from leaderboard.styles.view import AVERAGE, LEADERS, View, in_both
from leaderboard.web import Recent

MAX_DRAWN = 15
MAX_MOVERS = 10
TOP, STEP, LINE = 58, 28, 18
"""Pixels: where the axis begins, its length for each model, and the least distance of two names."""
MIN_LENGTH = 5
"""An axis is as long as for so many models at least."""


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
    elsewhere = np.array([_place_among_ranked(second, variant) for variant in variants], np.intp)
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


def _place_among_ranked(board: Board, variant: int) -> int:
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


# What the page draws and says


@dataclass(frozen=True)
class Place:
    """A model's rank in one style, and the ranks that are not excluded."""

    rank: int
    span: str


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A model in both orders; `places` is how many it rises in the second style, or falls."""

    name: str
    owner: str
    url: str
    left: Place
    right: Place
    places: int
    beyond_chance: bool

    @property
    def distance(self) -> int:
        return abs(self.places)

    @property
    def kind(self) -> str:
        """Up, down or empty (may be chance)."""
        return ("up" if self.places > 0 else "down") if self.beyond_chance else ""


@dataclass(frozen=True, kw_only=True)
class Slope(Mover):
    """One that is drawn."""

    y_left: int
    y_right: int
    """Where its ranks stand on the axis ..."""
    name_left: int
    name_right: int
    """... and where its name is written: beside them, or as near as other names allow."""


@dataclass(frozen=True)
class SlopeChart:
    """Two orders of the same models side by side, on one axis of ranks.

    A line is strong only where the model's two rank ranges do not overlap.
    """

    slopes: list[Slope]
    ticks: list[tuple[int, int]]
    """Ranks that the axis names, each with its place."""
    left_out: int
    """Models that were asked for and are not drawn."""

    @property
    def height(self) -> int:
        return TOP + _length(len(self.slopes)) + STEP


@dataclass(frozen=True)
class Crossing:
    """Two models of which each leads in one style, where both leads were shown."""

    ahead: Mover
    behind: Mover


def slope_chart(change: Change, chosen: Flags, *, of_leaders: bool = False) -> SlopeChart:
    """Of the chosen models, shape (models,), those that move most places beyond chance.

    Where none does, those that move farthest; with `of_leaders` those that lead in the first style.
    """
    if of_leaders:
        rows = np.flatnonzero(chosen)
    else:
        clear = chosen & change.beyond_chance
        rows = _farthest(change, clear if clear.any() else chosen)
    by_left = rows[np.argsort(change.first.rank[rows], kind="stable")][:MAX_DRAWN]
    axis = _Axis.of(change, by_left)
    y_left, y_right = (axis.y(order.rank[by_left]) for order in (change.first, change.second))
    names = zip(_apart(y_left, axis.end), _apart(y_right, axis.end), strict=True)
    slopes = [
        Slope(
            **vars(_mover(change, row)),
            y_left=left,
            y_right=right,
            name_left=name_left,
            name_right=name_right,
        )
        for row, left, right, (name_left, name_right) in zip(
            by_left.tolist(), y_left, y_right, names, strict=True
        )
    ]
    # Strong lines are drawn last, over the others.
    slopes.sort(key=lambda slope: slope.kind != "")
    return SlopeChart(slopes, axis.ticks(), left_out=int(chosen.sum()) - len(slopes))


def _length(models: int) -> int:
    return STEP * max(models, MIN_LENGTH)


@dataclass(frozen=True)
class _Axis:
    """From the best to the worst rank that is drawn, the same on both sides."""

    best: int
    worst: int
    end: int
    """Pixels."""

    @classmethod
    def of(cls, change: Change, rows: NDArray[np.intp]) -> _Axis:
        ranks = np.concatenate([change.first.rank[rows], change.second.rank[rows]])
        best, worst = (int(ranks.min()), int(ranks.max())) if len(ranks) else (1, 1)
        return cls(best, max(worst, best + 1), TOP + _length(len(rows)))

    def y(self, ranks: NDArray[np.int32]) -> list[int]:
        share = (ranks - self.best) / (self.worst - self.best)
        found: list[int] = np.rint(TOP + (self.end - TOP) * share).astype(int).tolist()
        return found

    def ticks(self) -> list[tuple[int, int]]:
        """Round ranks within the axis, six at most."""
        span = self.worst - self.best
        steps = (digit * 10**power for power in range(9) for digit in (1, 2, 5))
        step = next(step for step in steps if span / step <= 5)
        ranks = np.arange(-(-self.best // step) * step, self.worst + 1, step, dtype=np.int32)
        return list(zip(ranks.tolist(), self.y(ranks), strict=True))


def _apart(places: list[int], end: int) -> list[int]:
    """The nearest places, in the same order, at which names do not stand upon each other."""
    order = sorted(range(len(places)), key=lambda row: places[row])
    found = list(places)
    for before, row in pairwise(order):
        found[row] = max(found[row], found[before] + LINE)
    last = end + LINE
    for row in reversed(order):
        found[row] = last = min(found[row], last - LINE)
    return found


def movers(change: Change, chosen: Flags) -> list[Mover]:
    """Of the chosen models those that move most places, the ones beyond chance first."""
    farthest = _farthest(change, chosen & (change.moved != 0))[:MAX_MOVERS]
    return [_mover(change, row) for row in farthest.tolist()]


def crossing(change: Change, chosen: Flags) -> Crossing | None:
    """Of the chosen models that move farthest two that were shown in opposite orders."""
    falls = _farthest(change, chosen & (change.moved < 0))
    rises = _farthest(change, chosen & (change.moved > 0))
    ahead, behind = np.repeat(falls, len(rises)), np.tile(rises, len(falls))
    both = change.first.better(ahead, behind) & change.second.better(behind, ahead)
    for place in np.flatnonzero(both)[:1].tolist():
        return Crossing(_mover(change, int(ahead[place])), _mover(change, int(behind[place])))
    return None


def _farthest(change: Change, chosen: Flags) -> NDArray[np.intp]:
    """Those that move most places, the ones beyond chance first."""
    rows = np.flatnonzero(chosen)
    order = np.lexsort((-np.abs(change.moved[rows]), ~change.beyond_chance[rows]))
    return rows[order][:MAX_DRAWN]


def _mover(change: Change, row: int) -> Mover:
    owner, _, name = change.models[row].repo_id.rpartition("/")
    return Mover(
        name=name,
        owner=owner,
        url=reverse("model", args=[change.models[row].repo_id]),
        left=_place(change.first, row),
        right=_place(change.second, row),
        places=int(change.moved[row]),
        beyond_chance=bool(change.beyond_chance[row]),
    )


def _place(order: Order, row: int) -> Place:
    """One that was cut off says that it may go on."""
    low, high = f"{order.low[row]:,}", f"{order.high[row]:,}"
    span = f"{'≤' if order.cut_low[row] else ''}{low}–{'≥' if order.cut_high[row] else ''}{high}"
    return Place(int(order.rank[row]), span)


Averages = tuple[Board | None, Board | None]
"""The boards of the two compared styles."""


def ordering(shown: View, averages: Averages) -> dict[str, Any] | None:
    """The change in the order asked for; of the first benchmark that has one for lack of averages.

    None where fewer than two models were measured in both styles.
    """
    asked = shown.address["benchmark"]
    first, second = averages
    if asked == AVERAGE and first and second and (change := of_averages(first, second)):
        counted = [_counted(board) for board in (first, second)]
        apart = None if counted[0] == counted[1] else (len(counted[0]), len(counted[1]))
        return _ordering(shown, "", change, apart)
    for name in in_both(shown.board, (shown.first, shown.second)):
        if asked in (AVERAGE, name):
            places = {shown.board.columns[p].style: p for p in dict(in_styles(shown.board))[name]}
            pair = places[shown.first], places[shown.second]
            if change := of_benchmark(shown.board, pair):
                return _ordering(shown, shown.titles[name], change, None)
    return None


def _ordering(
    shown: View, title: str, change: Change, apart: tuple[int, int] | None
) -> dict[str, Any]:
    """`title` is the benchmark's, empty for averages; `apart`: of how many benchmarks either is."""
    chosen, clear = _found(shown, change), change.beyond_chance
    return {
        "title": title,
        "change": change,
        "moves": change.moved.any(),
        "apart": apart,
        "chart": slope_chart(change, chosen, of_leaders=shown.address["draw"] == LEADERS),
        "movers": movers(change, chosen),
        "crossing": crossing(change, chosen),
        "chosen": int(chosen.sum()),
        # Of all models those that rise and fall beyond chance, and those of which neither is shown.
        "higher": int((clear & (change.moved > 0)).sum()),
        "lower": int((clear & (change.moved < 0)).sum()),
        "shown": int((clear & (change.moved != 0)).sum()),
        "unshown": int((~clear).sum()),
    }


def _counted(board: Board) -> set[str]:
    return {column.benchmark for column in board.columns if column.counts}


def _found(shown: View, change: Change) -> Flags:
    """Which of the compared models the search finds."""
    if shown.found.all():
        return np.ones(len(change.models), np.bool_)
    rows = [shown.board.row_of.get(variant) for variant in change.models.values("variant")]
    return np.array([row is not None and bool(shown.found[row]) for row in rows], np.bool_)
