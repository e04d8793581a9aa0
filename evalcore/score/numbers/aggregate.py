"""From the scored documents of a task or group to its numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np

from evalcore.errors import TaskError, first_of
from evalcore.keys import comparability_key
from evalcore.lengths import Lengths
from evalcore.model.base import Mode
from evalcore.record import Failure, ResultRow
from evalcore.score.metrics.aggregations import Aggregation, SeveralNumbers
from evalcore.score.numbers.uncertainty import (
    Measured,
    measure,
    measure_group,
    measure_parts,
    measure_statistic,
)
from evalcore.score.scored import Column, ScoredTask
from evalcore.stats import Interval, pooled_standard_error
from evalcore.stats.resampling import compat_draws, compat_stderr
from evalcore.task.config import AggregateSpec, GroupSpec, TaskSpec
from evalcore.task.functions import FunctionRef
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
                rows += self._rows_of_task(task, subset, column, compat_stderr)
            except TaskError as error:
                self._fail(task.name, column, error.reason)
        return rows

    def subsets(self, task: ScoredTask) -> Iterable[ResultRow]:
        """The task's numbers on each of its subsets; a subset that allows none has none."""
        failed = {(failure.metric, failure.filter) for failure in [*task.failures, *self.failures]}
        names = dict.fromkeys(sample["subset"] for sample in task.samples if sample["subset"])
        for name in names:
            part = task.only(lambda sample: sample["subset"] == name)  # noqa: B023
            for column in part.items:
                if column in failed:
                    continue
                try:
                    yield from self._rows_of_task(part, name, column, None)
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
            higher_is_better=tasks[0].measures.higher_is_better.get(metric, True),
            comparability_key=comparability_key(
                self.run_keys[name],
                docs_digest=docs_digest(digests),
                metric=metric,
                arguments=arguments,
                filter=filter,
            ),
            compat_stderr=compat_stderr,
            lengths=Lengths.sum(
                task.lengths[position] for task in tasks for position in task.positions[column]
            ),
        )

    def _rows_of_task(
        self, task: ScoredTask, subset: str, column: Column, compat_stderr: float | None
    ) -> list[ResultRow]:
        """One, or one for each name under which the aggregation gives a number (`metric/name`).

        Raises TaskError if it gives none.
        """
        arguments = task.measures.arguments(column[0])
        whole = task.measures.aggregation(column[0])
        try:
            measured = _measured(task, column, whole, self.seed)
        except SeveralNumbers as several:
            rows = []
            for name, one in several.each():
                try:
                    measured = _measured(task, column, one, self.seed)
                except TaskError as error:
                    self._fail(task.name, (f"{column[0]}/{name}", column[1]), error.reason)
                    continue
                told = {**arguments, "number": name}
                row = self._row(task.name, subset, column, measured, [task], None, told)
                rows.append(replace(row, metric=f"{column[0]}/{name}"))
            return rows
        return [self._row(task.name, subset, column, measured, [task], compat_stderr, arguments)]

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


def _measured(task: ScoredTask, column: Column, aggregation: Aggregation, seed: int) -> Measured:
    items, clusters = task.items[column], task.clusters(column)
    value = aggregation.of(items)
    if aggregation.name == "mean":
        return measure([float(item) for item in items], clusters)
    return measure_statistic(value, aggregation, items, clusters, seed)


@dataclass(frozen=True)
class Part:
    """A task of a group with its numbers."""

    task: ScoredTask
    rows: Sequence[ResultRow]

    def row(self, column: Column) -> ResultRow | None:
        return next((row for row in self.rows if (row.metric, row.filter) == column), None)

    @property
    def size(self) -> int:
        """Scored documents: the most that any of its metrics has (lm-eval's `sample_len`)."""
        return max((row.n for row in self.rows), default=0)


@dataclass(frozen=True)
class OfGroup:
    """One number of a group, and the parts that it is made of."""

    measured: Measured
    compat_stderr: float | None
    parts: Sequence[Part]


def aggregate_group(
    entry: AggregateSpec, parts: Sequence[Part], mode: Mode, *, same_questions: bool = False
) -> tuple[dict[Column, OfGroup], dict[Column, str]]:
    """One number for each filter of the entry: by default every filter that a task has.

    `same_questions`: the tasks ask them row by row, so that their scores depend on one another.

    The weighted mean over the tasks, by their documents or all alike. A task without the metric is
    passed over, as in lm-evaluation-harness; strict has no number then, and the second mapping says
    why.
    """
    metric = str(entry.metric)
    if mode == "strict" and isinstance(entry.aggregation, FunctionRef):
        why = f"{entry.aggregation} would never be called, as in lm-evaluation-harness: write mean"
        return {}, {(metric, "none"): why}
    filters = entry.filter_list or sorted(
        {row.filter for part in parts for row in part.rows if row.metric == metric}
    )
    found: dict[Column, OfGroup] = {}
    problems: dict[Column, str] = {}
    for filter in filters:
        column = (metric, filter)
        having = [part for part in parts if part.row(column)]
        lacking = [part.task.name for part in parts if not part.row(column)]
        if not having or (lacking and mode == "strict"):
            problems[column] = f"there is no such number of {first_of(lacking)}"
            continue
        weighted = entry.weight_by_size
        found[column] = _of_column(column, having, weighted, mode, same_questions)
    if not filters:
        problems[metric, "none"] = "no task of the group has such a number"
    return found, problems


def _of_column(
    column: Column, parts: Sequence[Part], weighted: bool, mode: Mode, same_questions: bool
) -> OfGroup:
    rows = [row for part in parts if (row := part.row(column))]
    # lm-eval weights each metric by the documents of the task, whether all of them have it or not.
    sizes = [
        part.size if mode == "compat" else row.n for part, row in zip(parts, rows, strict=True)
    ]
    means = all(part.task.measures.aggregation(column[0]).name == "mean" for part in parts)
    if means and weighted and sizes == [row.n for row in rows]:
        scores = [[float(item) for item in part.task.items[column]] for part in parts]
        clusters = [part.task.clusters(column) for part in parts]
        if _ask_the_same_documents(parts, column):
            # Each counts once, with its mean; how far the ways lie apart is another figure.
            measured = measure([float(score) for score in np.mean(scores, axis=0)], clusters[0])
        elif same_questions and len(parts) > 1:
            labels = _labels_of_questions(parts, column)
            measured = measure([score for of_part in scores for score in of_part], labels)
        else:
            measured = measure_group(scores, clusters)
    else:
        of_tasks = [
            Measured(Interval(row.low, row.value, row.high), row.stderr, row.interval, row.n)
            for row in rows
        ]
        measured = measure_parts(of_tasks, sizes, by_size=weighted)
    return OfGroup(measured, compat_stderr_of_group(rows, sizes if weighted else None), parts)


def _labels_of_questions(parts: Sequence[Part], column: Column) -> list[Hashable]:
    """One label for each score, the same for the same question in every part.

    That of its cluster where the parts name theirs alike, else the cluster's place among those of
    the part, as where passages are translated; without clusters the row.
    """
    clusters = [part.task.clusters(column) for part in parts]
    named = [set(labels) for labels in clusters if labels is not None]
    if len(named) < len(parts):
        rows = ([sample["doc_id"] for sample in part.task.samples_of(column)] for part in parts)
        return [row for of_part in rows for row in of_part]
    if all(labels == named[0] for labels in named):
        return [label for of_part in clusters for label in of_part or ()]
    places = [
        {label: at for at, label in enumerate(dict.fromkeys(cluster or ()))} for cluster in clusters
    ]
    return [
        place[label]
        for place, of_part in zip(places, clusters, strict=True)
        for label in of_part or ()
    ]


def _ask_the_same_documents(parts: Sequence[Part], column: Column) -> bool:
    """Whether the tasks are several ways of asking the same: their scores then depend."""
    asked = {
        tuple(sample["doc_digest"] for sample in part.task.samples_of(column)) for part in parts
    }
    return len(parts) > 1 and len(asked) == 1


def compat_stderr_of_group(rows: Sequence[ResultRow], sizes: Sequence[int] | None) -> float | None:
    """lm-evaluation-harness's: of the weighted mean pooled, of the plain one by its variance."""
    errors = [row.compat_stderr for row in rows if row.compat_stderr is not None]
    if len(errors) < len(rows):
        return None
    if sizes is None:
        return sqrt(sum(error**2 for error in errors)) / len(errors)
    return pooled_standard_error(errors, sizes) if sum(sizes) > len(sizes) else None
