"""What this version of the engine can run. Every task file is read; not all are executed yet.

What would be passed over in silence, or fail only when the model has answered, is refused here:
before any data is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from evalcore.errors import TaskError
from evalcore.score.metrics import METRICS
from evalcore.task.config import DEFAULT_FILTERS, GroupSpec, MetricSpec, TaskSpec
from evalcore.task.fewshot import SAMPLERS
from evalcore.task.metadata import TaskMetadata

_FILTER = DEFAULT_FILTERS[0].name


def check_supported(spec: TaskSpec | GroupSpec) -> None:
    """Raises TaskError with everything that the task, or the group and its tasks, asks in vain."""
    concerned: dict[str, list[str]] = {}
    for leaf in {leaf.name: leaf for leaf in spec.leaves()}.values():
        for problem in _of_task(leaf):
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
        raise TaskError(f"The {kind} {spec.name} cannot be run by this version:{lines}")


def _some(names: Sequence[str]) -> str:
    """The names, of many the first ones: all 57 tasks of a group may have the same problem."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _of_task(spec: TaskSpec) -> Iterator[str]:
    if spec.python_class:
        yield f"class: {spec.python_class} is a task written in Python: describe it by keys"
        return
    if spec.output_type != "multiple_choice":
        yield f"output_type: {spec.output_type} (only multiple_choice is run)"
    for key in ("custom_dataset", "use_prompt", "process_results", "doc_to_image", "doc_to_audio"):
        if value := getattr(spec, key):
            yield f"{key} is set, to {value}: leave it out"
    if spec.unsafe_code:
        yield "unsafe_code: true (code that a model wrote is not run): leave it out"
    if spec.repeats != 1:
        yield f"repeats: {spec.repeats} (a loglikelihood is asked once): write 1"
    if spec.fewshot.sampler not in SAMPLERS:
        known = " or ".join(SAMPLERS)
        yield f"fewshot_config.sampler: {spec.fewshot.sampler} is not known: write {known}"
    if spec.fewshot.fewshot_indices:
        indices = spec.fewshot.fewshot_indices
        yield f"fewshot_config.fewshot_indices: {indices} (lm-eval ignores it, too): leave it out"
    if spec.filter_list != DEFAULT_FILTERS:
        pipelines = ", ".join(
            f"{pipeline.name} ({', '.join(str(step.function) for step in pipeline.steps)})"
            for pipeline in spec.filter_list
        )
        yield f"filter_list: {pipelines or 'empty'} (choices are not filtered): leave it out"
    for number, entry in enumerate(spec.metric_list):
        yield from _of_metric(entry, f"metric_list[{number}]")
    yield from _of_names([metric.name for metric in spec.metric_list], "metric_list", spec.about)
    if not spec.metric_list:
        yield f"metric_list: empty: name at least one of {', '.join(METRICS)}"


def _of_metric(entry: MetricSpec, key: str) -> Iterator[str]:
    known = ", ".join(METRICS)
    if not isinstance(entry.metric, str) or entry.metric not in METRICS:
        yield f"{key}.metric: {entry.metric} is not known: name one of {known}"
    elif entry.higher_is_better not in (None, METRICS[entry.metric].higher_is_better):
        right = str(METRICS[entry.metric].higher_is_better).lower()
        wrong = str(entry.higher_is_better).lower()
        yield f"{key}.higher_is_better: {wrong} is not true of {entry.metric}: write {right}"
    if entry.aggregation not in (None, "mean"):
        yield f"{key}.aggregation: {entry.aggregation} is not known: write mean"
    if entry.hf_evaluate:
        yield f"{key}.hf_evaluate: true (metrics of the library evaluate are not run): leave it out"
    for argument, value in entry.arguments.items():
        yield f"{key}.{argument}: {value!r} (the metrics here take no arguments): leave it out"


def _of_names(names: Sequence[str], key: str, about: TaskMetadata) -> Iterator[str]:
    """What is wrong with the names of the metrics together, and with the metadata."""
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{key}: {name} stands there {count} times: name it once"
    if about.primary_metric and about.primary_metric not in names:
        listed = ", ".join(names) or "nothing"
        yield (
            f"metadata.primary_metric: {about.primary_metric} is not in {key}, which has {listed}: "
            "name one of those, or add it there"
        )
    if about.extra_metrics:
        yield f"metadata.extra_metrics: {', '.join(about.extra_metrics)} (not measured yet)"
    if about.publish_samples != "full":
        yield (
            f"metadata.publish_samples: {about.publish_samples} (samples would still be written "
            "with their text): only full is done"
        )


def _of_leaves(spec: GroupSpec) -> Iterator[str]:
    counts = Counter(leaf.name for leaf in spec.leaves())
    if not counts:
        yield "task: it has no task: name at least one"
    for name, count in counts.items():
        if count > 1:
            yield f"task: {name} is in it {count} times and would count as often: name it once"


def _of_group(spec: GroupSpec) -> Iterator[str]:
    leaves = {leaf.name: leaf for leaf in spec.leaves()}
    names = []
    for number, entry in enumerate(spec.aggregate_metric_list):
        key = f"aggregate_metric_list[{number}]"
        names.append(str(entry.metric))
        if entry.aggregation != "mean":
            yield f"{key}.aggregation: {entry.aggregation} is not known: write mean"
        if not entry.weight_by_size:
            yield f"{key}.weight_by_size: false (every document counts the same): write true"
        if entry.filter_list not in (None, (_FILTER,)):
            filters = ", ".join(entry.filter_list or ()) or "empty"
            yield f"{key}.filter_list: {filters} (there is only {_FILTER}): leave it out"
        lacking = [
            leaf.name
            for leaf in leaves.values()
            if entry.metric not in [metric.metric for metric in leaf.metric_list]
        ]
        if lacking:
            yield (
                f"{key}.metric: {entry.metric} is not measured by {_some(lacking)}: "
                "add it to their metric_list, or leave it out here"
            )
    yield from _of_names(names, "aggregate_metric_list", spec.about)
