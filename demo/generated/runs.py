"""The large tables, one column at a time: runs, their results, their answers by question."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from demo.generated.answers import Answers, Right
from demo.generated.benchmarks import METRIC, MODE, Benchmark, Column
from demo.generated.numbers import Numbers, measure
from demo.generated.population import Population
from demo.generated.standings import FAILURES, Cell
from demo.generated.tables import insert, next_key
from evalcore import __version__
from leaderboard.models import Result, Run, RunCost, ScoreVector, Submission, TaskVersion
from leaderboard.models.run import State
from leaderboard.models.variant import needed_bytes, weight_bytes
from leaderboard.samples import Layout, vectors

WORKERS = ("bench-1", "bench-2", "bench-3")
ENVIRONMENT = {"device": "invented GPU", "python": "3.11.7", "torch": "2.9.1"}
MACHINES = (
    ("1 x invented GPU", 2e14, 350),
    ("1 x invented GPU", 2e14, 350),
    ("1 x invented smaller GPU", 5e13, 120),
)
"""Name, operations in a second, watts."""
COSTS = ("run_id", "tokens", "seconds", "joules", "hardware", "counters")
ENDED = ("started", "finished", "worker_id")
WHY = ("error_class", "error_message")
Weighting = ScoreVector.Weighting
Asked = Submission.runs.through
"""Which runs a submission asked for."""


@dataclass
class Runs:
    """Inserts the runs of all models; `finished` counts those that are done."""

    population: Population
    variants: Sequence[int]
    submissions: Sequence[UUID]
    seed: int
    finished: int = 0
    _next_result: int = field(default_factory=lambda: next_key(Result))
    _next_asked: int = field(default_factory=lambda: next_key(Asked))

    def insert(
        self, column: Column, task: TaskVersion, answers: Answers, kinds: NDArray[np.int8]
    ) -> None:
        """All of one benchmark in one style; `kinds` is the Cell of each model."""
        keys = self._keys(column)
        self._insert_runs(column, task, keys, kinds)
        self._insert_asked(keys, np.flatnonzero(kinds != Cell.NONE))
        layouts = {Cell.DONE: column.layout, Cell.OTHER_DATA: column.changed_layout}
        for rows, right in answers.blocks(column.style):
            numbers = measure(right, column.benchmark)
            for kind, layout in layouts.items():
                of_kind = np.flatnonzero(kinds[rows] == kind)
                if len(of_kind):
                    runs = [keys[rows.start + row] for row in of_kind]
                    self._insert_results(column, layout, runs, numbers.rows(of_kind))
                    self._insert_vectors(column, layout, right[of_kind])
                    self._next_result += len(of_kind)
                    self.finished += len(of_kind)

    def _keys(self, column: Column) -> list[UUID]:
        rng = np.random.default_rng([self.seed, *column.name.encode(), *b"runs"])
        drawn = rng.bytes(16 * len(self.population))
        return [UUID(bytes=drawn[at : at + 16], version=4) for at in range(0, len(drawn), 16)]

    def _insert_runs(
        self, column: Column, task: TaskVersion, keys: Sequence[UUID], kinds: NDArray[np.int8]
    ) -> None:
        draw = random.Random(f"{self.seed}/{column.name}")
        asked = column.benchmark
        names = ("id", "variant_id", "needed_bytes", "created")
        costs: dict[Cell, list[int]] = {}
        for kind, (more, same) in _KINDS.items():
            rows = np.flatnonzero(kinds == kind).tolist()
            fixed: dict[str, Any] = {**same, "progress_total": asked.n * asked.choices}
            if fixed["state"] == State.DONE:
                layout = column.layout if kind == Cell.DONE else column.changed_layout
                fixed["progress_done"] = fixed["progress_total"]
                fixed["docs_digest"] = layout.docs_digest
                fixed["dataset_commits"] = dict.fromkeys(column.tasks[:1], task.dataset_commit)
                costs[kind] = rows
            insert(
                Run,
                (*names, *more),
                self._run_rows(rows, keys, draw, more),
                task_id=task.pk,
                shots=asked.shots,
                mode=MODE,
                run_key=column.run_key,
                **fixed,
            )
        for rows in costs.values():
            insert(RunCost, COSTS, self._cost_rows(rows, keys, asked, draw), questions=asked.n)

    def _cost_rows(
        self, rows: Sequence[int], keys: Sequence[UUID], asked: Benchmark, draw: random.Random
    ) -> Iterator[tuple[Any, ...]]:
        """The larger a model, the longer it takes; each stays on one kind of machine."""
        for row in rows:
            tokens = round(
                asked.n * asked.choices * 60 * (asked.shots + 1) * draw.uniform(0.8, 1.2)
            )
            name, flops, watts = MACHINES[row % len(MACHINES)]
            parameters = self.population.models[row].parameters
            seconds = 2 * parameters * tokens / flops * draw.uniform(1, 1.6)
            yield keys[row], tokens, seconds, watts * seconds, name, "GPU"

    def _run_rows(
        self, rows: Sequence[int], keys: Sequence[UUID], draw: random.Random, more: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            made = self.population.models[row]
            need = needed_bytes(weight_bytes(made.parameters, made.dtype))
            values: tuple[Any, ...] = (keys[row], self.variants[row], need, made.added)
            if more:
                started = made.added + timedelta(seconds=draw.randrange(60, 7_200))
                finished = started + timedelta(seconds=draw.randrange(30, 900))
                values += (started, finished, draw.choice(WORKERS))
            if WHY[0] in more:
                values += FAILURES[row % len(FAILURES)]  # one model fails for one reason
            yield values

    def _insert_asked(self, keys: Sequence[UUID], rows: NDArray[np.int64]) -> None:
        pairs = ((self.submissions[row], keys[row]) for row in rows)
        numbered = ((self._next_asked + at, *pair) for at, pair in enumerate(pairs))
        insert(Asked, ("id", "submission_id", "run_id"), numbered)
        self._next_asked += len(rows)

    def _insert_results(
        self, column: Column, layout: Layout, runs: Sequence[UUID], numbers: Numbers
    ) -> None:
        figures = (numbers.value, numbers.stderr, numbers.low, numbers.high)
        keys = range(self._next_result, self._next_result + len(runs))
        insert(
            Result,
            ("id", "run_id", "value", "stderr", "low", "high"),
            zip(keys, runs, *(values.tolist() for values in figures), strict=True),
            task_name=column.name,
            metric=METRIC,
            filter="none",
            n=layout.n,
            higher_is_better=True,
            comparability_key=column.comparability_key(layout),
        )

    def _insert_vectors(self, column: Column, layout: Layout, right: Right) -> None:
        # What `vectors.pack_values` makes of one row, for all rows at once.
        packed = np.packbits(right, axis=1)
        insert(
            ScoreVector,
            ("result_id", "values"),
            ((self._next_result + at, row.tobytes()) for at, row in enumerate(packed)),
            questions_id=vectors.questions_row(layout).pk,
            weighting=Weighting.PARTS if column.benchmark.by_parts else Weighting.DOCUMENTS,
        )


_DONE = {
    "state": State.DONE,
    "phase": "evaluate",
    "attempt": 1,
    "engine_version": __version__,
    "environment": ENVIRONMENT,
}
_KINDS: Mapping[Cell, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    Cell.DONE: (ENDED, _DONE),
    Cell.OTHER_DATA: (ENDED, _DONE),
    Cell.FAILED: ((*ENDED, *WHY), {"state": State.FAILED, "attempt": 3}),
    Cell.QUEUED: ((), {"state": State.QUEUED}),
}
"""By kind of cell which fields each run has of its own besides the usual, and which all share."""
