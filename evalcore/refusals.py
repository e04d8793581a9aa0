"""What the engine does not run, told by task, key and value before data are loaded.

Every task file is read. What would be passed over in silence, or would fail only when the model
has answered, is told here. Settings that exclude one another are told where they are made
(`evalcore.settings`), what a model cannot answer by its backend (`refuse_before`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalcore.errors import TaskError, did_you_mean
from evalcore.model.base import RequestKind
from evalcore.model.capabilities import Capabilities
from evalcore.model.refusals import Need, refuse
from evalcore.score.filters.registry import FILTERS
from evalcore.score.metrics.aggregations import AGGREGATIONS
from evalcore.score.metrics.registry import evaluate_metric, metric_of
from evalcore.settings import Settings
from evalcore.task.config import GroupSpec, MetricSpec, TaskSpec
from evalcore.task.functions import functions_in, registered
from evalcore.task.metadata import TaskMetadata

SAMPLERS = ("default", "first_n", "balanced")
"""The ways to draw examples that have a name; a task may name a class of its own instead."""


def _of_every_task(spec: TaskSpec, confirm_unsafe: bool) -> Iterator[str]:
    for key in ("doc_to_image", "doc_to_audio"):
        if value := getattr(spec, key):
            yield f"{key}: {value} (models are asked with text alone)"
    if spec.unsafe_code and not confirm_unsafe:
        yield (
            "unsafe_code: true (scoring runs code that the model wrote): say so with "
            "--confirm_run_unsafe_code"
        )


def _of_tasks_by_keys(spec: TaskSpec) -> Iterator[str]:
    """Of those that are no Python class: what such a one measures, its code says."""
    sampler = spec.fewshot.sampler
    if isinstance(sampler, str) and sampler not in SAMPLERS:
        yield f"fewshot_config.sampler: {sampler} is not known: write {' or '.join(SAMPLERS)}"
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
    if not spec.process_results:  # which measures whatever it likes, under any name
        for number, entry in enumerate(spec.metric_list):
            for part, why in _unknown_in(spec, entry):
                yield f"metric_list[{number}].{part}: {why}"
        if not spec.metric_list:
            yield "metric_list: empty: name at least one metric"
    names = [metric.name for metric in spec.metric_list]
    yield from _of_metrics("metric_list", names, names, spec.about)


def _unknown_in(spec: TaskSpec, entry: MetricSpec) -> Iterator[tuple[str, str]]:
    stated = entry.aggregation
    if (
        isinstance(stated, str)
        and stated not in AGGREGATIONS
        and not registered("aggregation", stated, list(functions_in(spec)))
    ):
        hint = did_you_mean(stated, AGGREGATIONS) or f": name one of {', '.join(AGGREGATIONS)}"
        yield "aggregation", f"{stated} is not known{hint}"
    if not isinstance(entry.metric, str):
        return
    if not entry.hf_evaluate and metric_of(entry.metric, spec):
        return
    try:
        evaluate_metric(entry.metric)
    except TaskError as error:
        yield "metric", error.reason


def _of_whole_groups(spec: GroupSpec) -> Iterator[str]:
    counts = Counter(leaf.name for leaf in spec.leaves())
    if not counts:
        yield "task: it has no task: name at least one"
    for name, count in counts.items():
        if count > 1:
            yield f"task: {name} is in it {count} times and would count as often: name it once"


def _of_every_group(spec: GroupSpec) -> Iterator[str]:
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
    names = [str(entry.metric) for entry in entries]
    yield from _of_metrics("aggregate_metric_list", names, numbers, spec.about)


def _of_metrics(
    key: str, names: Sequence[str], numbers: Sequence[str], about: TaskMetadata
) -> Iterator[str]:
    for name, count in Counter(numbers).items():
        if count > 1:
            yield f"{key}: {name} stands there {count} times: name it once"
    if about.primary_metric and about.primary_metric not in names:
        yield (
            f"metadata.primary_metric: {about.primary_metric} is not in {key}, which has "
            f"{', '.join(names) or 'nothing'}: name one of those, or add it there"
        )


def check_supported(spec: TaskSpec | GroupSpec, *, confirm_unsafe: bool = False) -> None:
    """Raises TaskError with everything that the task, or the group and its tasks, asks in vain.

    `confirm_unsafe`: the caller agrees to run code that a model wrote, for tasks with
    `unsafe_code`.
    """
    concerned: dict[str, list[str]] = {}

    def note(at: TaskSpec | GroupSpec, problems: Iterable[str]) -> None:
        for problem in problems:
            concerned.setdefault(problem, []).append(at.name)

    for leaf in {leaf.name: leaf for leaf in spec.leaves()}.values():
        note(leaf, _of_every_task(leaf, confirm_unsafe))
        if not leaf.python_class:
            note(leaf, _of_tasks_by_keys(leaf))
    if isinstance(spec, GroupSpec):
        note(spec, _of_whole_groups(spec))
        for group in {group.name: group for group in spec.groups()}.values():
            note(group, _of_every_group(group))
    if concerned:
        kind = "group" if isinstance(spec, GroupSpec) else "task"
        lines = "".join(f"\n  {_some(names)}: {problem}" for problem, names in concerned.items())
        raise TaskError(f"The {kind} {spec.name} cannot be run:{lines}")


def _some(names: Sequence[str]) -> str:
    """The names, of many the first ones: all 57 tasks of a group may have the same problem."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


KINDS: Mapping[str, RequestKind] = {
    "loglikelihood": "loglikelihood",
    "multiple_choice": "loglikelihood",
    "loglikelihood_rolling": "loglikelihood_rolling",
    "generate_until": "generate_until",
}
"""By a task's `output_type` the requests that it makes."""


def refuse_before(
    capabilities: Capabilities, specs: Sequence[TaskSpec | GroupSpec], settings: Settings
) -> None:
    """Raises ModelError for what a backend that states this cannot answer, before it is loaded.

    What a task asks that is a class only its requests say, which are looked at when they are there.
    """
    needs: dict[Need, list[str]] = {}
    for leaf in (leaf for spec in specs for leaf in spec.leaves()):
        if leaf.python_class is None:
            needs.setdefault(KINDS[leaf.output_type], []).append(leaf.name)
    if settings.apply_chat_template:
        needs["conversations"] = []
    if settings.forbid_truncation:
        needs["a known length"] = []
    refuse(capabilities, needs)
