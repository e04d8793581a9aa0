"""Which benchmarks of a board put models in a like order: every two of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Column, Flags, table_file
from leaderboard.stats import CORRELATED_FEWEST, order_of_likeness, rank_correlations

MOST_MODELS, SEED = 1_000, 0
"""Of more models so many are drawn."""


class Pair(NamedTuple):
    first: Column
    second: Column
    places: tuple[int, int]
    """In an order of all columns in which those that agree stand together; the first is first."""
    rho: float
    low: float
    high: float
    """NaN where there are too few models, or no order."""
    n: int

    @property
    def is_known(self) -> bool:
        return not np.isnan(self.rho)

    @property
    def why_unknown(self) -> str:
        return "too few models" if self.n < CORRELATED_FEWEST else "no order"


@dataclass(frozen=True, eq=False)
class Pairs:
    pairs: list[Pair]
    """Those that agree most first, unknown ones last."""
    drawn: int
    """Models that were looked at ..."""
    models: int
    """... of those that could have been."""

    @classmethod
    def of(cls, board: Board, chosen: Flags) -> Pairs:
        """Over the `chosen` models that are ranked with each other."""
        models = rows = board.comparable_rows[chosen[board.comparable_rows]]
        if len(rows) > MOST_MODELS:
            rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST_MODELS, replace=False))
        # Of perplexities and their like less is better.
        sign = np.array([1.0 if is_share(column.metric) else -1.0 for column in board.columns])
        found = rank_correlations(board.scores.value[rows] * sign)
        pairs = []
        for (first, one), (second, other) in combinations(
            enumerate(order_of_likeness(found.rho)), 2
        ):
            rho, low, high = (
                float(side[one, other]) for side in (found.rho, found.low, found.high)
            )
            both = board.columns[one], board.columns[other]
            pairs.append(Pair(*both, (first, second), rho, low, high, int(found.n[one, other])))
        pairs.sort(key=lambda pair: (not pair.is_known, -pair.rho))
        return cls(pairs, len(rows), len(models))

    @property
    def known(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.is_known]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As a table, in full precision."""
        first, second, _, *numbers, n = zip(*self.pairs, strict=True)
        sides = {"first": first, "second": second}
        yield pa.RecordBatch.from_pydict(
            {
                **{side: [column.task for column in of] for side, of in sides.items()},
                **{f"{side}_title": [column.title for column in of] for side, of in sides.items()},
                **{name: table_file.numbers(np.array(of))
                   for name, of in zip(("rho", "low", "high"), numbers, strict=True)},
                "models": n,
            }
        )  # fmt: skip
