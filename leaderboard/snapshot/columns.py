"""A board's columns as arrays, kept from one board to the next while nothing in them changes.

Several boards show the same column, and most boards are built because one run has ended. Of 180
columns of 10,000 models that leaves one to be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from evalcore.lengths import NAMES
from leaderboard.models import Suite, SuiteEntry
from leaderboard.models import edition as editions
from leaderboard.snapshot.cells import PLACE, Cell, cells_by_variant, from_chance
from leaderboard.snapshot.data import Costs, Floats, Ints, Scores, Standing
from leaderboard.web import Recent

MOST_CELLS = 2_500_000
"""Cells that are kept, of some 150 bytes each; the columns used last."""


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """A column's entries (one for each draw of examples) and its cells, by rising variant."""

    entries: tuple[SuiteEntry, ...]
    variants: NDArray[np.int64]
    standing: NDArray[np.int8]
    """Place in STANDINGS."""
    run: NDArray[Any]
    """As 16 bytes (dtype V16); zeros for none."""
    results: NDArray[np.int64]
    """Primary keys of the results of all draws, shape (cells, draws); 0 where there is none."""
    scores: Scores
    """Shape (cells,), NaN where there is no number."""
    from_chance: Scores
    n: Ints
    sd_of_draws: Floats
    lengths: Ints
    """Shape (cells, 6)."""
    costs: Costs
    """Of a single column."""
    draws: int
    """Draws of examples that the scores are means of."""
    why: Mapping[int, str]
    """By variant, where something is to be said."""
    other_draws: Mapping[int, tuple[UUID, ...]]
    """By variant the runs of the other draws."""

    @classmethod
    def of(cls, entries: tuple[SuiteEntry, ...], by_variant: Mapping[int, Cell]) -> ColumnCells:
        variants = sorted(by_variant)
        cells = [by_variant[variant] for variant in variants]
        rows = len(cells)
        results = np.zeros((rows, len(entries)), np.int64)
        run = np.zeros((rows, 16), np.uint8)
        scores, normalised = Scores.none(rows), Scores.none(rows)
        n, lengths = np.zeros(rows, np.int32), np.zeros((rows, len(NAMES)), np.int32)
        sd_of_draws, costs = np.zeros(rows), Costs.none(rows, 1)
        for row, cell in enumerate(cells):
            if cell.run:
                run[row] = np.frombuffer(cell.run.bytes, np.uint8)
            if cell.score is None:
                continue
            score = cell.score
            results[row] = cell.of_draws
            scores.put(row, score.value, score.low, score.high)
            if interval := from_chance(cell, entries[0]):
                normalised.put(row, interval.value, interval.low, interval.high)
            n[row], sd_of_draws[row] = score.n, score.sd_of_draws
            if score.lengths:
                lengths[row] = astuple(score.lengths)
            if cell.cost:
                costs.put(row, 0, cell.cost)
        pairs = list(zip(variants, cells, strict=True))
        return cls(
            entries,
            np.array(variants, np.int64),
            np.array([PLACE[cell.standing] for cell in cells], np.int8),
            np.frombuffer(run.tobytes(), "V16"),
            results,
            scores,
            normalised,
            n,
            sd_of_draws,
            lengths,
            costs,
            max((cell.score.draws for cell in cells if cell.score), default=1),
            {variant: cell.why for variant, cell in pairs if cell.why},
            {variant: cell.other_draws for variant, cell in pairs if cell.other_draws},
        )

    @property
    def entry(self) -> SuiteEntry:
        return self.entries[0]

    @property
    def questions(self) -> int | None:
        """None where nothing was measured yet."""
        scored = np.flatnonzero(self.n)
        return int(self.n[scored[0]]) if len(scored) else None

    def having(self, standing: Standing) -> NDArray[np.int64]:
        """The variants whose cells stand so."""
        found: NDArray[np.int64] = self.variants[self.standing == PLACE[standing]]
        return found

    def places(self, variants: NDArray[np.int64]) -> NDArray[np.intp]:
        """Where each of these variants has its cell; -1 for none."""
        if not len(self.variants):
            return np.full(len(variants), -1, np.intp)
        found = np.minimum(np.searchsorted(self.variants, variants), len(self.variants) - 1)
        return np.where(self.variants[found] == variants, found, -1)

    def results_of(self, variants: Sequence[int]) -> NDArray[np.int64]:
        """Shape (variants, draws); 0 where there is no number."""
        places = self.places(np.array(variants, np.int64))
        none = np.zeros((1, len(self.entries)), np.int64)
        found: NDArray[np.int64] = np.concatenate([self.results, none])[places]
        return found


def columns_of(suite: Suite, entries: Sequence[SuiteEntry]) -> list[ColumnCells]:
    """The columns of these entries of the suite in their order, as they are now."""
    whole, by_benchmark = editions.of_columns(suite.pk)
    draws: dict[tuple[str, str], list[SuiteEntry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.draw):
        draws.setdefault((entry.benchmark, entry.style), []).append(entry)
    found = []
    for entry in entries:
        if entry.draw:
            continue
        of_column = tuple(draws[entry.benchmark, entry.style])
        numbers = [by_benchmark.get(of_draw.task.benchmark, 0) for of_draw in of_column]
        known_by = [whole, numbers, [_fields(of_draw) for of_draw in of_column]]
        found.append(_column(of_column, known_by))
    return found


def forget() -> None:
    """Read every column anew."""
    _kept.clear()


_kept: Recent[tuple[list[Any], ColumnCells]] = Recent(
    MOST_CELLS, lambda kept: len(kept[1].variants)
)
"""By the primary keys of its entries each column, and by what it is known to be so still."""


def _column(entries: tuple[SuiteEntry, ...], known_by: list[Any]) -> ColumnCells:
    key = tuple(entry.pk for entry in entries)
    kept = _kept.get(key)
    if kept is None or kept[0] != known_by:
        kept = _kept.put(key, (known_by, ColumnCells.of(entries, cells_by_variant(entries))))
    return kept[1]


def _fields(entry: SuiteEntry) -> list[Any]:
    """All that is known of an entry and its task, to be compared."""
    return [
        getattr(row, field.attname)
        for row in (entry, entry.task)
        for field in row._meta.concrete_fields
    ]
