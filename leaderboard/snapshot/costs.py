"""What the scores of a board took: tokens, seconds and energy of a question, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

MEASURES = ("tokens", "seconds", "joules")
"""Of a question, on the mean; the places in `Costs.of`."""
COST_FIELDS = ("questions", *MEASURES, "hardware", "counters")
"""What `Cost.of` takes of a row of RunCost."""
NOT_KNOWN = -1


class Cost(NamedTuple):
    """NaN where it is not known; no kind of machine where there is no number of it."""

    tokens: float
    seconds: float
    joules: float
    machine: str
    """On which the seconds were taken ..."""
    meter: str
    """... and the same with what was counted for the joules."""

    @classmethod
    def of(
        cls,
        questions: int | None,
        tokens: int | None,
        seconds: float | None,
        joules: float | None,
        hardware: str | None,
        counters: str | None,
    ) -> Self | None:
        """None for a run without a row."""
        if not questions:
            return None
        meter = f"{hardware}: {counters}" if joules is not None else ""
        machine = hardware if hardware and seconds is not None else ""

        def of_one(whole: float | None) -> float:
            return np.nan if whole is None else whole / questions

        return cls(of_one(tokens), of_one(seconds), of_one(joules), machine, meter)


def mean_cost(draws: Sequence[Cost | None]) -> Cost | None:
    """Of one draw of examples on the mean; what one draw lacks, or did on another kind of machine,
    is not known."""
    known = [cost for cost in draws if cost is not None]
    if len(known) < len(draws):
        return None
    machines, meters = {cost.machine for cost in known}, {cost.meter for cost in known}
    tokens, seconds, joules = (float(np.mean(side)) for side in list(zip(*known, strict=True))[:3])
    one, metered = len(machines) == 1, len(meters) == 1
    return Cost(
        tokens,
        seconds if one else np.nan,
        joules if metered else np.nan,
        machines.pop() if one else "",
        meters.pop() if metered else "",
    )


@dataclass(frozen=True, eq=False)
class Costs:
    of: NDArray[np.float32]
    """Shape (rows, columns, 3), in the order of MEASURES; NaN where not known."""
    kind: NDArray[np.int16]
    """Shape (rows, columns, 2), for seconds and joules: place in `kinds`, or NOT_KNOWN."""
    kinds: list[str] = field(default_factory=list)

    @classmethod
    def none(cls, rows: int, columns: int) -> Self:
        return cls(
            np.full((rows, columns, 3), np.nan, np.float32),
            np.full((rows, columns, 2), NOT_KNOWN, np.int16),
        )

    def put(self, row: int, column: int, cost: Cost) -> None:
        """While a board is built."""
        self.of[row, column] = cost[:3]
        for place, name in enumerate((cost.machine, cost.meter)):
            if name:
                if name not in self.kinds:
                    self.kinds.append(name)
                self.kind[row, column, place] = self.kinds.index(name)

    def put_column(
        self, column: int, rows: NDArray[np.intp], of: Costs, places: NDArray[np.intp]
    ) -> None:
        """Those at `places` of a single column, while a board is built of several."""
        self.of[rows, column] = of.of[places, 0]
        for name in of.kinds:
            if name not in self.kinds:
                self.kinds.append(name)
        # NOT_KNOWN is the last of them by its number.
        number = np.array([*map(self.kinds.index, of.kinds), NOT_KNOWN], np.int16)
        self.kind[rows, column] = number[of.kind[places, 0]]

    def of_a_question(
        self, measure: str, columns: Sequence[int], asked: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """By row the mean over all questions of these columns, of which `asked`, shape (rows,
        columns), has the numbers; NaN where one column lacks it."""
        each = self.of[:, columns, MEASURES.index(measure)].astype(np.float64)
        n = asked[:, columns].astype(np.float64)
        with np.errstate(invalid="ignore"):  # a model that was asked nothing has no cost either
            mean: NDArray[np.float64] = (each * n).sum(axis=1) / n.sum(axis=1)
        return mean

    def machine_of(self, measure: str, columns: Sequence[int]) -> NDArray[np.int16]:
        """By row the place in `kinds` of the machine that all these columns are from; NOT_KNOWN
        where they are from several."""
        kinds = self.kind[:, columns, MEASURES.index(measure) - 1]
        return np.where((kinds == kinds[:, :1]).all(axis=1), kinds[:, 0], NOT_KNOWN)

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.of).any())

    @property
    def as_json(self) -> list[Any]:
        """For the digest of a board."""
        return [self.of.tobytes().hex(), self.kind.tobytes().hex(), self.kinds]

    def left(self, gone: NDArray[np.bool_], order: NDArray[np.intp]) -> Costs:
        """Without those of the cells that are gone, in a new order of rows."""
        of, kind = self.of.copy(), self.kind.copy()
        of[gone], kind[gone] = np.nan, NOT_KNOWN
        return Costs(of[order], kind[order], self.kinds)
