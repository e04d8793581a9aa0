"""Which rank can each model of a board have? From scores by question (docs/method.md).

The average's parts are the suite's counted columns, each a block of its own; what is known of a
column without scores by question, or of the choice of examples, is added as independent variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
from django.db.models import Exists, OuterRef
from numpy.typing import NDArray

from evalcore.stats import Block, block
from leaderboard.models import ScoreVector
from leaderboard.models.task import is_share
from leaderboard.samples import vectors
from leaderboard.snapshot.cells import results_of
from leaderboard.snapshot.columns import ColumnCells
from leaderboard.snapshot.data import Board, Flags, Floats, Ranks, Scores
from leaderboard.snapshot.models import Models
from leaderboard.stats import BoardRanges, Earlier, among, board_ranges

RULE = 1
"""Of windows: at the models whose keys are lowest among their neighbours. 0: every 500 places."""
REACH = 500
"""Places up and down that a model is compared with, where a board has more than twice as many."""


@dataclass(frozen=True)
class Part:
    """A column that counts, as it enters the average of these models."""

    column: ColumnCells
    weight: float
    by_chance: bool
    variants: Sequence[int]
    _kept: dict[int, dict[int, vectors.Packed]] = field(default_factory=dict)
    """By draw the scores that were read last: the next window of models begins with half of
    them."""

    @cached_property
    def by_question(self) -> bool:
        """Whether every model's number is a mean over questions whose scores are known.

        And whether the questions show a spread: a single cluster, say, does not.
        """
        known = ScoreVector.objects.filter(result=OuterRef("pk"), questions__isnull=False)
        lacking = {
            pk
            for entry in self.column.entries
            for pk in results_of(entry).exclude(Exists(known)).values_list("pk", flat=True)
        }
        if np.isin(self.column.results_of(self.variants), list(lacking)).any():
            return False
        try:
            layout, _, _ = self.scores(self.variants[:50])
            if _is_one_cluster(layout):
                return False
            self.block(self.variants[:1])
        except vectors.OtherQuestions:
            raise
        except ValueError:
            return False
        return True

    def block(self, variants: Sequence[int]) -> Block:
        """Its block for some of the models."""
        layout, scores, by_part = self.scores(variants)
        return block(
            scores,
            weight=self.weight,
            # A model whose file names one cluster for all ends no window of the others.
            clusters=None if _is_one_cluster(layout) else layout.cluster,
            strata=layout.strata,
            by_part=by_part,
        )

    def scores(self, variants: Sequence[int]) -> tuple[vectors.Layout, Floats, bool]:
        """By model and question what enters the average, and whether parts weigh alike."""
        draws = self.column.results_of(variants).T.tolist()
        layout, mean, by_part = None, np.zeros(1), False
        for draw, of_draw in enumerate(draws):
            found = vectors.matrix(of_draw, self._kept.setdefault(draw, {}))
            if found is None:
                raise ValueError(f"{self.column.entry}: a vector was removed meanwhile")
            layout, by_part = found.layout, found.weighting == ScoreVector.Weighting.PARTS
            scores = found.scores.astype(np.float64)
            mean = scores if len(draws) == 1 else mean + scores / len(draws)
        if layout is None:
            raise ValueError("variants: expected at least one")
        chances = self._chances(layout)
        by_part = by_part or (self.by_chance and bool(self.column.entry.part_chances))
        if not chances.any():  # to subtract 0 and to divide by 1 takes as long as to read them
            return layout, mean, by_part
        return layout, (mean - chances) / (1 - chances), by_part

    def own_variances(self) -> Floats:
        """Of each model's share of the average, beyond what the block says."""
        places = self.column.places(np.array(self.variants, np.int64))
        if self.by_question:
            known = self._variance_of_draws(places)
        else:
            known = variance_of(self.column.scores.rows(places))
        chance = (self.column.entry.task.chance or 0.0) if self.by_chance else 0.0
        share: Floats = (self.weight / (1 - chance)) ** 2 * known
        return share

    def _variance_of_draws(self, places: NDArray[np.intp]) -> Floats:
        """Of the mean over draws of examples, what the choice of examples adds."""
        draws = self.column.draws
        sd = self.column.sd_of_draws[places]
        return sd**2 / draws if draws > 1 else np.zeros(len(places))

    def _chances(self, layout: vectors.Layout) -> Floats:
        """What guessing gives on each question, where scores are taken from chance."""
        entry = self.column.entry
        if not self.by_chance or not is_share(entry.metric):
            return np.zeros(layout.n)
        if entry.part_chances:
            return np.array([entry.part_chances[task] for task in layout.tasks])[layout.task]
        return np.full(layout.n, entry.task.chance or 0.0)


def _is_one_cluster(layout: vectors.Layout) -> bool:
    """Whether its questions say nothing of others."""
    return layout.cluster is not None and layout.cluster.min() == layout.cluster.max()


def variance_of(scores: Scores) -> Floats:
    """As wide as the scores' intervals say, where nothing finer is known."""
    return np.square((scores.high - scores.low) / (2 * 1.959964))


def parts_of(
    columns: Sequence[ColumnCells], variants: Sequence[int], *, by_chance: bool
) -> list[Part]:
    """What the average of these models is made of."""
    counted = [column for column in columns if column.entry.counts]
    return [Part(column, 1 / len(counted), by_chance, variants) for column in counted]


def keys_of(models: Models) -> NDArray[np.uint64]:
    """What decides at which models windows begin: the name and commit, well mixed."""
    pairs = zip(models.values("repo_id"), models.values("commit"), strict=True)
    names = (f"{repo_id}@{commit}".encode() for repo_id, commit in pairs)
    mixed = b"".join(blake2b(name, digest_size=8).digest() for name in names)
    return np.frombuffer(mixed, "<u8").astype(np.uint64)


def rank(
    parts: Sequence[Part],
    averages: Floats,
    keys: NDArray[np.uint64],
    earlier: Earlier | None = None,
) -> Ranks:
    """Ranks of the parts' models, which are in order of their `averages`, the highest first.

    What `earlier` decided between the same models is not decided anew.
    """
    if len(averages) < 2:
        return _alone(len(averages))
    variants = parts[0].variants

    def blocks_of(places: slice) -> Iterator[Block]:
        for part in parts:
            if part.by_question:
                yield part.block(variants[places])

    own = np.zeros(len(variants))
    for part in parts:
        own = own + part.own_variances()
    found = board_ranges(
        averages, blocks_of, own_variance=own, keys=keys, reach=REACH, earlier=earlier
    )
    return _of(found, averages)


def ranks_left(ranks: Ranks, left: NDArray[np.intp], averages: Floats) -> Ranks:
    """Those of the models at these places among the ranked, by the claims made for all of them."""
    if len(left) < 2:
        return _alone(len(left))
    return _of(among(ranks.claims, left), averages)


def _of(found: BoardRanges, averages: Floats) -> Ranks:
    return Ranks(
        rank=_ranks(averages),
        low=found.ranges[:, 0].astype(np.int32),
        high=found.ranges[:, 1].astype(np.int32),
        cut_low=found.cut[:, 0],
        cut_high=found.cut[:, 1],
        better=np.packbits(found.better, axis=1),
        reach=found.reach,
    )


def _ranks(averages: Floats) -> NDArray[np.int32]:
    """1 for the highest; equal averages share the best of their ranks."""
    return (1 + np.searchsorted(-averages, -averages, side="left")).astype(np.int32)


def _alone(n: int) -> Ranks:
    one = np.ones(n, np.int32)
    no = np.zeros(n, np.bool_)
    return Ranks(one, one, one, no, no, np.zeros((n, 0), np.uint8), 0)


# What of an earlier board is still so


Rows = NDArray[np.int64]


def ranked(board: Board, columns: Sequence[ColumnCells], earlier: Board | None) -> Board:
    """With its ranks."""
    rows = _may_rank(board)
    variants = board.models.take(rows).values("variant")
    parts = parts_of(columns, variants, by_chance=board.by_chance)
    by_question = tuple(part.by_question for part in parts) if len(rows) > 1 else ()
    past = _past(board, rows, by_question, earlier)
    if past and past.all:
        ranks = past.board.ranks.rows(past.rows)
    else:
        known = past.claims if past else None
        ranks = rank(parts, board.average.value[rows], _keys(board, rows), known)
    return replace(
        board,
        ranks=Ranks.none(len(board.models)).having(rows, ranks),
        by_question=by_question,
        rank_rule=RULE,
    )


def _may_rank(board: Board) -> Rows:
    """The rows that have a rank."""
    return np.flatnonzero(board.comparable[: board.averaged])


@dataclass(frozen=True)
class _Past:
    """An earlier board whose ranks were made of the same columns in the same way."""

    board: Board
    rows: Rows
    """Its ranked ones."""
    place: NDArray[np.intp]
    """Shape (ranked now,): among them the place of each, counted from 0; -1 for one that was not
    there, or with other runs or scores."""

    @property
    def claims(self) -> Earlier:
        return Earlier(self.board.ranks.claims, _keys(self.board, self.rows), self.place)

    @property
    def all(self) -> bool:
        """Whether all are what and where they were."""
        here = np.arange(len(self.place))
        return len(self.rows) == len(self.place) and bool((self.place == here).all())


def _past(
    board: Board, rows: Rows, by_question: tuple[bool, ...], earlier: Board | None
) -> _Past | None:
    """None where all is to be found anew; files of before `by_question` was noted lack it."""
    if (
        earlier is None
        or not by_question
        or earlier.rank_rule != RULE
        or earlier.by_question != by_question
        or earlier.columns != board.columns
        or earlier.normalisation != board.normalisation
    ):
        return None
    before = np.flatnonzero(earlier.ranks.rank > 0)
    place_of = {v: n for n, v in enumerate(earlier.models.take(before).values("variant"))}
    variants = board.models.take(rows).values("variant")
    place = np.array([place_of.get(variant, -1) for variant in variants], np.intp)
    there = np.flatnonzero(place >= 0)
    same = _unchanged(board, rows[there], earlier, before[place[there]])
    place[there[~same]] = -1
    return _Past(earlier, before, place)


def _keys(board: Board, rows: Rows) -> NDArray[np.uint64]:
    return keys_of(board.models.take(rows))


def _unchanged(board: Board, rows: Rows, earlier: Board, before: Rows) -> Flags:
    """Of each of these rows whether it has the runs and numbers of the same variant before."""
    counted = [place for place, column in enumerate(board.columns) if column.counts]
    same: Flags = board.average.value[rows] == earlier.average.value[before]
    same &= (board.run[rows][:, counted] == earlier.run[before][:, counted]).all(axis=1)
    for new, old in (
        *zip(board.scores.sides, earlier.scores.sides, strict=True),
        (board.sd_of_draws, earlier.sd_of_draws),
    ):
        same &= (new[rows][:, counted] == old[before][:, counted]).all(axis=1)
    for column in counted:
        if board.columns[column].draws > 1:
            runs = [
                board.other_draws.get((row, column)) == earlier.other_draws.get((of_then, column))
                for row, of_then in zip(rows.tolist(), before.tolist(), strict=True)
            ]
            same &= np.array(runs, np.bool_)
    return same
