"""Which rank can each model of a board have? From scores by question (docs/method.md).

The average's parts are the suite's counted columns, each a block of its own; what is known of a
column without scores by question, or of the choice of examples, is added as independent variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import Block, block
from leaderboard.models import ScoreVector
from leaderboard.models.task import is_share
from leaderboard.samples import vectors
from leaderboard.snapshot.cells import Cell, ColumnCells, variance_of, variance_of_draws
from leaderboard.snapshot.data import Floats, Ranks
from leaderboard.stats import BoardRanges, among, bands, board_ranges

MANY = 10_000
"""Primary keys in one query."""
REACH = 500
"""Places up and down that a model is compared with, where a board has more than twice as many."""


@dataclass(frozen=True)
class Part:
    """A column that counts, as it enters the average of these models."""

    column: ColumnCells
    weight: float
    by_chance: bool
    variants: Sequence[int]

    @cached_property
    def by_question(self) -> bool:
        """Whether every model's number is a mean over questions whose scores are known.

        And whether the questions show a spread: a single cluster, say, does not.
        """
        wanted = [pk for variant in self.variants for pk in self.column.cells[variant].of_draws]
        vectors_there = ScoreVector.objects.filter(questions__isnull=False)
        found = sum(
            vectors_there.filter(result_id__in=wanted[start : start + MANY]).count()
            for start in range(0, len(wanted), MANY)
        )
        if found < len(wanted):
            return False
        try:
            self.block(self.variants[:1])
        except ValueError:
            return False
        return True

    def block(self, variants: Sequence[int]) -> Block:
        """Its block for some of the models."""
        layout, scores, by_part = self.scores(variants)
        return block(
            scores,
            weight=self.weight,
            clusters=layout.cluster,
            strata=layout.strata,
            by_part=by_part,
        )

    def scores(self, variants: Sequence[int]) -> tuple[vectors.Layout, Floats, bool]:
        """By model and question what enters the average, and whether parts weigh alike."""
        draws = [self.column.cells[variant].of_draws for variant in variants]
        layout, mean, by_part = None, np.zeros(1), False
        for of_draw in zip(*draws, strict=True):
            found = vectors.matrix(of_draw)
            if found is None:
                raise ValueError(f"{self.column.entry}: a vector was removed meanwhile")
            layout, by_part = found.layout, found.weighting == ScoreVector.Weighting.PARTS
            mean = mean + found.scores.astype(np.float64) / len(draws[0])
        if layout is None:
            raise ValueError("variants: expected at least one")
        chances = self._chances(layout)
        by_part = by_part or (self.by_chance and bool(self.column.entry.part_chances))
        return layout, (mean - chances) / (1 - chances), by_part

    def own_variance(self, cell: Cell) -> float:
        """Of a model's share of the average, beyond what the block says."""
        if cell.score is None:
            raise ValueError("cell: only a model with every score has an average")
        chance = (self.column.entry.task.chance or 0.0) if self.by_chance else 0.0
        known = variance_of_draws(cell.score) if self.by_question else variance_of(cell.score)
        return (self.weight / (1 - chance)) ** 2 * known

    def _chances(self, layout: vectors.Layout) -> Floats:
        """What guessing gives on each question, where scores are taken from chance."""
        entry = self.column.entry
        if not self.by_chance or not is_share(entry.metric):
            return np.zeros(layout.n)
        if entry.part_chances:
            return np.array([entry.part_chances[task] for task in layout.tasks])[layout.task]
        return np.full(layout.n, entry.task.chance or 0.0)


def parts_of(
    columns: Sequence[ColumnCells], variants: Sequence[int], *, by_chance: bool
) -> list[Part]:
    """What the average of these models is made of."""
    counted = [column for column in columns if column.entry.counts]
    return [Part(column, 1 / len(counted), by_chance, variants) for column in counted]


def rank(parts: Sequence[Part], averages: Floats) -> Ranks:
    """Ranks of the parts' models, which are in order of their `averages`, the highest first."""
    if len(averages) < 2:
        return _alone(len(averages))
    variants = parts[0].variants

    def blocks_of(places: slice) -> Iterator[Block]:
        for part in parts:
            if part.by_question:
                yield part.block(variants[places])

    own = [
        sum(part.own_variance(part.column.cells[variant]) for part in parts) for variant in variants
    ]
    return _of(board_ranges(averages, blocks_of, own_variance=own, reach=REACH), averages)


def ranks_left(ranks: Ranks, left: NDArray[np.intp], averages: Floats) -> Ranks:
    """Those of the models at these places among the ranked, by the claims made for all of them."""
    if len(left) < 2:
        return _alone(len(left))
    better = np.unpackbits(ranks.better, axis=1, count=ranks.reach).astype(np.bool_)
    return _of(among(better, left), averages)


def _of(found: BoardRanges, averages: Floats) -> Ranks:
    starts = bands(found.better, found.reach)
    band = np.zeros(len(averages), np.int32)
    band[starts[1:]] = 1
    return Ranks(
        rank=_ranks(averages),
        low=found.ranges[:, 0].astype(np.int32),
        high=found.ranges[:, 1].astype(np.int32),
        cut_low=found.cut[:, 0],
        cut_high=found.cut[:, 1],
        band=np.cumsum(band).astype(np.int32),
        better=np.packbits(found.better, axis=1),
        reach=found.reach,
    )


def _ranks(averages: Floats) -> NDArray[np.int32]:
    """1 for the highest; equal averages share the best of their ranks."""
    return (1 + np.searchsorted(-averages, -averages, side="left")).astype(np.int32)


def _alone(n: int) -> Ranks:
    one = np.ones(n, np.int32)
    no = np.zeros(n, np.bool_)
    return Ranks(one, one, one, no, no, np.zeros(n, np.int32), np.zeros((n, 0), np.uint8), 0)
