"""What the engine does not run, refused by task, key and value before any data is loaded.

Every task file is read. What would be passed over in silence, or would fail only when the model
has answered, is told here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.config import GroupSpec, MetricSpec, TaskSpec
from evalcore.task.functions import functions_in
from evalcore.task.metadata import TaskMetadata
from evalcore.task.registered import registered

SAMPLERS = ("default", "first_n", "balanced")
"""The ways to draw examples that have a name; a task may name a class of its own instead."""


def check_supported(spec: TaskSpec | GroupSpec, *, confirm_unsafe: bool = False) -> None:
    """Raises TaskError with everything that the task, or the group and its tasks, asks in vain.

    `confirm_unsafe`: the caller agrees to run code that a model wrote, for tasks with
    `unsafe_code`.
    """
    concerned: dict[str, list[str]] = {}
    for leaf in {leaf.name: leaf for leaf in spec.leaves()}.values():
        for problem in _of_task(leaf, confirm_unsafe):
            concerned.setdefault(problem, []).append(leaf.name)
    if isinstance(spec, GroupSpec):
        for problem in _of_leaves(spec):
            concerned.setdefault(problem, []).append(spec.name)
        for group in {group.name: group for group in spec.groups()}.values():
            for problem in _of_group(group):
                concerned.setdefault(problem, []).append(group.name)
    if concerned:
        kind = "group" if isinstance(spec, GroupSpec) else "task"
        lines = "".join(f"\n  {_some(names)}: {problem}" for problem, names in concerned.items())
        raise TaskError(f"The {kind} {spec.name} cannot be run:{lines}")


def _some(names: Sequence[str]) -> str:
    """The names, of many the first ones: all 57 tasks of a group may have the same problem."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _of_task(spec: TaskSpec, confirm_unsafe: bool) -> Iterator[str]:
    for key in ("doc_to_image", "doc_to_audio"):
        if value := getattr(spec, key):
            yield f"{key}: {value} (models are asked with text alone)"
    if spec.unsafe_code and not confirm_unsafe:
        yield (
            "unsafe_code: true (scoring runs code that the model wrote): say so with "
            "--confirm_run_unsafe_code"
        )
    if spec.python_class:  # what it measures, its code says
        return
    if isinstance(spec.fewshot.sampler, str) and spec.fewshot.sampler not in SAMPLERS:
        known = " or ".join(SAMPLERS)
        yield f"fewshot_config.sampler: {spec.fewshot.sampler} is not known: write {known}"
    yield from _of_filters(spec)
    yield from _of_metrics(spec)


def _of_filters(spec: TaskSpec) -> Iterator[str]:
    from evalcore.score.filters.registry import FILTERS

    if not spec.filter_list:
        yield "filter_list: empty, so nothing would be scored: name a filter, or leave it out"
    for number, pipeline in enumerate(spec.filter_list):
        for position, step in enumerate(pipeline.steps):
            name = step.function
            if not isinstance(name, str) or name in FILTERS:
                continue
            if not registered("filter", name, functions_in(spec)):
                hint = did_you_mean(name, FILTERS) or f": name one of {', '.join(sorted(FILTERS))}"
                key = f"filter_list[{number}].filter[{position}].function"
                yield f"{key}: {name} is not known{hint}"


def _of_metrics(spec: TaskSpec) -> Iterator[str]:
    names = [metric.name for metric in spec.metric_list]
    if not spec.process_results:  # which measures whatever it likes, under any name
        for number, entry in enumerate(spec.metric_list):
            yield from _of_metric(spec, entry, f"metric_list[{number}].metric")
        if not names:
            yield "metric_list: empty: name at least one metric"
    yield from _more_than_once(names, "metric_list")
    yield from _of_primary_metric(names, "metric_list", spec.about)


def _of_metric(spec: TaskSpec, entry: MetricSpec, key: str) -> Iterator[str]:
    from evalcore.score.metrics.aggregations import AGGREGATIONS
    from evalcore.score.metrics.registry import evaluate_metric, metric_of

    stated, functions = entry.aggregation, list(functions_in(spec))
    if (
        isinstance(stated, str)
        and stated not in AGGREGATIONS
        and not registered("aggregation", stated, functions)
    ):
        hint = did_you_mean(stated, AGGREGATIONS) or f": name one of {', '.join(AGGREGATIONS)}"
        yield f"{key.replace('.metric', '.aggregation')}: {stated} is not known{hint}"
    if not isinstance(entry.metric, str):
        return
    if not entry.hf_evaluate and metric_of(entry.metric, spec):
        return
    try:
        evaluate_metric(entry.metric)
    except TaskError as error:
        yield f"{key}: {error.reason}"


def _more_than_once(names: Sequence[str], key: str) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{key}: {name} stands there {count} times: name it once"


def _of_primary_metric(names: Sequence[str], key: str, about: TaskMetadata) -> Iterator[str]:
    if about.primary_metric and about.primary_metric not in names:
        listed = ", ".join(names) or "nothing"
        yield (
            f"metadata.primary_metric: {about.primary_metric} is not in {key}, which has {listed}: "
            "name one of those, or add it there"
        )


def _of_leaves(spec: GroupSpec) -> Iterator[str]:
    counts = Counter(leaf.name for leaf in spec.leaves())
    if not counts:
        yield "task: it has no task: name at least one"
    for name, count in counts.items():
        if count > 1:
            yield f"task: {name} is in it {count} times and would count as often: name it once"


def _of_group(spec: GroupSpec) -> Iterator[str]:
    entries = spec.aggregate_metric_list
    every = {str(entry.metric) for entry in entries if entry.filter_list is None}
    # One metric may be aggregated under one filter in one way, under another in another.
    numbers = [str(entry.metric) for entry in entries if str(entry.metric) in every]
    numbers += [
        f"{entry.metric} under {filter}"
        for entry in entries
        if str(entry.metric) not in every
        for filter in entry.filter_list or ()
    ]
    yield from _more_than_once(numbers, "aggregate_metric_list")
    names = [str(entry.metric) for entry in entries]
    yield from _of_primary_metric(names, "aggregate_metric_list", spec.about)
