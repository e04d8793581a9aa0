"""From the samples of a task or group to its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.record import ResultRow, comparability_key
from evalcore.score.metrics import metric as metric_named
from evalcore.score.uncertainty import Measured, measure, measure_group
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.digest import docs_digest

FILTER = "none"
"""Multiple choice has one filter pipeline, which takes the only response."""

Sample = Mapping[str, Any]


@dataclass(frozen=True)
class ScoredTask:
    """A leaf task and its samples (the fields of SAMPLE_SCHEMA)."""

    spec: TaskSpec
    samples: Sequence[Sample]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def clusters(self) -> list[str] | None:
        if not self.spec.about.cluster:
            return None
        return [sample["cluster"] for sample in self.samples]


def aggregate(
    spec: TaskSpec | GroupSpec, tasks: Sequence[ScoredTask], run_keys: Mapping[str, str]
) -> list[ResultRow]:
    """All numbers of a record: of the task or group itself first, then of its parts.

    `run_keys` has the run key of every task and group in `spec`, which `check_supported` accepts.
    """
    if isinstance(spec, TaskSpec):
        (task,) = tasks
        return [*_whole_task(task, "", run_keys), *_subsets(task, run_keys)]
    by_name = {task.name: task for task in tasks}
    rows: list[ResultRow] = []
    for group in spec.groups():
        members = [by_name[leaf.name] for leaf in group.leaves()]
        rows.extend(_group(group, members, "" if group is spec else group.name, run_keys))
    for task in tasks:
        subsets = {sample["subset"] for sample in task.samples}
        rows.extend(_whole_task(task, subsets.pop() if len(subsets) == 1 else task.name, run_keys))
    return rows


def _whole_task(task: ScoredTask, subset: str, run_keys: Mapping[str, str]) -> Iterator[ResultRow]:
    yield from _task_rows(task.spec, subset, task.samples, run_keys)


def _subsets(task: ScoredTask, run_keys: Mapping[str, str]) -> Iterator[ResultRow]:
    parts: dict[str, list[Sample]] = {}
    for sample in task.samples:
        if sample["subset"]:
            parts.setdefault(sample["subset"], []).append(sample)
    for subset, samples in parts.items():
        yield from _task_rows(task.spec, subset, samples, run_keys)


def _task_rows(
    spec: TaskSpec, subset: str, samples: Sequence[Sample], run_keys: Mapping[str, str]
) -> Iterator[ResultRow]:
    clusters = [sample["cluster"] for sample in samples] if spec.about.cluster else None
    for entry in spec.metric_list:
        yield _row(
            task=spec.name,
            subset=subset,
            metric=entry.name,
            arguments=entry.arguments,
            measured=measure(_scores(samples, entry.name), clusters),
            samples=samples,
            run_key=run_keys[spec.name],
        )


def _group(
    spec: GroupSpec, members: Sequence[ScoredTask], subset: str, run_keys: Mapping[str, str]
) -> Iterator[ResultRow]:
    for entry in spec.aggregate_metric_list:
        parts = [_scores(member.samples, str(entry.metric)) for member in members]
        yield _row(
            task=spec.name,
            subset=subset,
            metric=str(entry.metric),
            arguments={},
            measured=measure_group(parts, [member.clusters for member in members]),
            samples=[sample for member in members for sample in member.samples],
            run_key=run_keys[spec.name],
        )


def _row(
    *,
    task: str,
    subset: str,
    metric: str,
    arguments: Mapping[str, Any],
    measured: Measured,
    samples: Sequence[Sample],
    run_key: str,
) -> ResultRow:
    return ResultRow(
        task=task,
        subset=subset,
        metric=metric,
        filter=FILTER,
        value=measured.interval.value,
        stderr=measured.stderr,
        low=measured.interval.low,
        high=measured.interval.high,
        interval=measured.method,
        n=measured.n,
        higher_is_better=metric_named(metric, task).higher_is_better,
        comparability_key=comparability_key(
            run_key,
            docs_digest=docs_digest(sample["doc_digest"] for sample in samples),
            metric=metric,
            arguments=arguments,
            filter=FILTER,
        ),
    )


def _scores(samples: Sequence[Sample], metric: str) -> list[float]:
    return [
        score["value"]
        for sample in samples
        for score in sample["scores"]
        if score["metric"] == metric
    ]
