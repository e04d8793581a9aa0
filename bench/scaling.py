"""How time grows with the shots, the choices and the documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.sidebyside import Pair, seconds_of
from bench.texts import Row, texts
from bench.workloads import WORKLOADS, Workload


@dataclass(frozen=True)
class Point:
    """Seconds of one run of each engine."""

    of: str
    """shots, choices or documents."""
    value: int
    title: str
    model: str
    theirs: float
    estimated: bool
    """Whether `theirs` was not run but follows from the run before, in proportion to the text."""
    ours: float


@dataclass(frozen=True)
class Scale:
    """What grows, at which values, and in which workload."""

    of: str
    values: tuple[int, ...]
    workload: Workload
    batch: int
    """Rows of lm-evaluation-harness's batches."""

    def at(self, value: int) -> Workload:
        if self.of == "shots":
            return replace(self.workload, shots=value)
        if self.of == "documents":
            return self.workload.with_documents(value)
        return replace(self.workload, rows=_with_choices(self.workload, value))


SCALES = (
    Scale("shots", (0, 5, 10, 25), WORKLOADS["arc_25_shot"].with_documents(3), 1),
    Scale("choices", (2, 4, 8, 16), WORKLOADS["hellaswag_0_shot"].with_documents(8), 4),
    Scale("documents", (1, 2, 4, 8, 16, 32, 100), WORKLOADS["arc_25_shot_fixed"], 1),
)


def _with_choices(workload: Workload, count: int) -> Sequence[Row]:
    """The rows with so many choices: fewer of their own, or those of the rows after them, too."""
    rows = texts(workload.data).asked
    found = []
    for place, row in enumerate(rows[: workload.documents]):
        pool = [choice for other in (*rows[place:], *rows[:place]) for choice in other["choices"]]
        gold = row["choices"][row["gold"]]
        others = [choice for choice in dict.fromkeys(pool) if choice != gold]
        found.append({**row, "choices": (gold, *others[: count - 1]), "gold": 0})
    return found


def grow(pair: Pair, scale: Scale, folder: Path, *, cap: float) -> Iterator[Point]:
    """A point for each value; lm-evaluation-harness is asked while it promises to end in `cap`.

    `cap`: seconds of one of its runs.
    """
    pace = 0.0
    for value in scale.values:
        workload = scale.at(value)
        asks, _ = pair.asks(workload, folder / f"{scale.of}_{value}")
        characters = sum(len(ask.context) + len(ask.continuation) for ask in asks)
        theirs = pace * characters
        estimated = theirs > cap
        if not estimated:
            theirs = pair.run_theirs(asks, workload.window, scale.batch)["cost"]["seconds"]
            pace = theirs / characters
        ours = seconds_of(pair.run_ours(asks, workload.window))
        yield Point(scale.of, value, scale.workload.title, pair.model.name, theirs, estimated, ours)
