"""From the scored documents of a task or group to its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalcore.errors import TaskError
from evalcore.keys import comparability_key
from evalcore.model.base import Mode
from evalcore.record import Failure, ResultRow
from evalcore.score.numbers.groups import OfGroup, Part, aggregate_group
from evalcore.score.numbers.uncertainty import Measured, measure, measure_statistic
from evalcore.score.scored import Column, ScoredTask
from evalcore.stats.resampling import compat_draws, compat_stderr
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import docs_digest


def aggregate(
    spec: TaskSpec | GroupSpec,
    scored: Sequence[ScoredTask],
    run_keys: Mapping[str, str],
    *,
    mode: Mode,
    bootstrap_iters: int = 100_000,
    seed: int = 1234,
) -> tuple[list[ResultRow], list[Failure]]:
    """All numbers of a record: of the task or group itself first, then of its parts.

    `run_keys` has the run key of every task and group in `spec`. `bootstrap_iters` is for
    lm-evaluation-harness's own standard errors, `seed` for ours. What could not be computed is in
    the second list.
    """
    maker = _Maker(run_keys, mode, bootstrap_iters, seed)
    if isinstance(spec, TaskSpec):
        (task,) = scored
        return [*maker.task(task, ""), *maker.subsets(task)], [*task.failures, *maker.failures]
    of_task: dict[str, list[ResultRow]] = {}
    for task in scored:
        subsets = {sample["subset"] for sample in task.samples}
        of_task[task.name] = maker.task(task, subsets.pop() if len(subsets) == 1 else task.name)
    by_name = {task.name: task for task in scored}
    rows: list[ResultRow] = []
    for group in spec.groups():
        parts = [Part(by_name[leaf.name], of_task[leaf.name]) for leaf in group.leaves()]
        rows.extend(maker.group(group, parts, "" if group is spec else group.name))
    for of_one in of_task.values():
        rows.extend(of_one)
    earlier = [failure for task in scored for failure in task.failures]
    return rows, [*earlier, *maker.failures]


@dataclass
class _Maker:
    """Makes rows; what cannot be computed is noted in `failures`."""

    run_keys: Mapping[str, str]
    mode: Mode
    bootstrap_iters: int
    seed: int
    failures: list[Failure] = field(default_factory=list)

    def task(self, task: ScoredTask, subset: str) -> list[ResultRow]:
        failed = {(failure.metric, failure.filter) for failure in task.failures}
        rows = []
        for column, items in task.items.items():
            if column in failed:
                continue
            try:
                compat_stderr = self._compat_stderr(task, column, items)
                rows.append(self._row_of_task(task, subset, column, compat_stderr))
            except TaskError as error:
                self._fail(task.name, column, error.reason)
        return rows

    def subsets(self, task: ScoredTask) -> Iterable[ResultRow]:
        """The task's numbers on each of its subsets; a subset that allows none has none."""
        failed = {(one.metric, one.filter) for one in [*task.failures, *self.failures]}
        names = dict.fromkeys(sample["subset"] for sample in task.samples if sample["subset"])
        for name in names:
            part = task.only(lambda sample: sample["subset"] == name)  # noqa: B023
            for column in part.items:
                if column in failed:
                    continue
                try:
                    yield self._row_of_task(part, name, column, None)
                except TaskError as error:
                    self._fail(task.name, column, f"subset {name}: {error.reason}")

    def group(self, spec: GroupSpec, parts: Sequence[Part], subset: str) -> Iterable[ResultRow]:
        numbers: dict[Column, OfGroup] = {}
        for entry in spec.aggregate_metric_list:
            found, problems = aggregate_group(
                entry, parts, self.mode, same_questions=spec.about.same_questions
            )
            numbers.update(found)  # a later entry of the same metric replaces an earlier one
            for column, reason in problems.items():
                self._fail(spec.name, column, reason)
        for column, number in numbers.items():
            tasks = [part.task for part in number.parts]
            yield self._row(
                spec.name, subset, column, number.measured, tasks, number.compat_stderr, {}
            )

    def _row(
        self,
        name: str,
        subset: str,
        column: Column,
        measured: Measured,
        tasks: Sequence[ScoredTask],
        compat_stderr: float | None,
        arguments: Mapping[str, Any],
    ) -> ResultRow:
        """Of a task or group; `tasks` are those whose documents it is about."""
        metric, filter = column
        digests = (sample["doc_digest"] for task in tasks for sample in task.samples_of(column))
        return ResultRow(
            task=name,
            subset=subset,
            metric=metric,
            filter=filter,
            value=measured.interval.value,
            stderr=measured.stderr,
            low=measured.interval.low,
            high=measured.interval.high,
            interval=measured.method,
            n=measured.n,
            higher_is_better=tasks[0].measures.is_better_higher(metric),
            comparability_key=comparability_key(
                self.run_keys[name],
                docs_digest=docs_digest(digests),
                metric=metric,
                arguments=arguments,
                filter=filter,
            ),
            compat_stderr=compat_stderr,
        )

    def _row_of_task(
        self, task: ScoredTask, subset: str, column: Column, compat_stderr: float | None
    ) -> ResultRow:
        """Raises TaskError if the aggregation gives no number."""
        measured, arguments = _measured(task, column, self.seed), task.measures.arguments(column[0])
        return self._row(task.name, subset, column, measured, [task], compat_stderr, arguments)

    def _compat_stderr(
        self, task: ScoredTask, column: Column, items: Sequence[Any]
    ) -> float | None:
        aggregation = task.measures.aggregation(column[0])
        if aggregation.name is None or self.bootstrap_iters <= 0:
            return None
        try:
            error = compat_stderr(
                aggregation.name, items, compat_draws(column[0], self.bootstrap_iters)
            )
        except (TypeError, ValueError):
            return None  # no such number here: the aggregation itself says why
        return error if error is not None and np.isfinite(error) else None

    def _fail(self, task: str, column: Column, reason: str) -> None:
        metric, filter = column
        self.failures.append(Failure(task=task, metric=metric, filter=filter, reason=reason))


def _measured(task: ScoredTask, column: Column, seed: int) -> Measured:
    items, clusters = task.items[column], task.clusters(column)
    aggregation = task.measures.aggregation(column[0])
    value = aggregation.of(items)
    if aggregation.name == "mean":
        return measure([float(item) for item in items], clusters)
    return measure_statistic(value, aggregation, items, clusters, seed)
