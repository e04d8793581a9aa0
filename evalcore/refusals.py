"""What the engine does not run: one table, told by task, key and value before data are loaded.

Every task file is read. What would be passed over in silence, or would fail only when the model
has answered, is told here. Settings that exclude one another are told where they are made
(`evalcore.settings`), what a model cannot answer by its backend (`refuse_before`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.errors import TaskError, did_you_mean, first_of
from evalcore.model.base import RequestKind
from evalcore.model.capabilities import Capabilities
from evalcore.model.refusals import Need, refuse
from evalcore.score.filters.registry import FILTERS
from evalcore.score.metrics.aggregations import AGGREGATIONS
from evalcore.score.metrics.registry import evaluate_metric, metric_of
from evalcore.settings import Settings
from evalcore.task.config import GroupSpec, MetricSpec, TaskSpec
from evalcore.task.functions import functions_in, registered

SAMPLERS = ("default", "first_n", "balanced")
"""The ways to draw examples that have a name; a task may name a class of its own instead."""

Found = Iterable[dict[str, Any]]
"""For each place where something is asked in vain, what its sentence names."""


@dataclass(frozen=True)
class Refusal:
    """Something that is not run, in one sentence."""

    sentence: str
    found: Callable[[Any], Found]
    """Where a task, or a group, asks it."""

    def of(self, spec: TaskSpec | GroupSpec) -> Iterator[str]:
        return (self.sentence.format(**named) for named in self.found(spec))


def _where(asked: Callable[[Any], object]) -> Callable[[Any], Found]:
    """For a sentence that names nothing."""
    return lambda spec: [{}] if asked(spec) else []


def _media_of_a_whole_text(spec: TaskSpec) -> Found:
    if spec.output_type == "loglikelihood_rolling":
        if spec.doc_to_image:
            yield {"key": "doc_to_image", "value": spec.doc_to_image, "medium": "an image"}
        if spec.doc_to_audio:
            yield {"key": "doc_to_audio", "value": spec.doc_to_audio, "medium": "a sound"}


def _unknown_samplers(spec: TaskSpec) -> Found:
    sampler = spec.fewshot.sampler
    if isinstance(sampler, str) and sampler not in SAMPLERS:
        yield {"sampler": sampler, "known": " or ".join(SAMPLERS)}


def _unknown_filters(spec: TaskSpec) -> Found:
    for number, pipeline in enumerate(spec.filter_list):
        for position, step in enumerate(pipeline.steps):
            name = step.function
            if not isinstance(name, str) or name in FILTERS:
                continue
            if not registered("filter", name, functions_in(spec)):
                hint = did_you_mean(name, FILTERS) or f": name one of {', '.join(sorted(FILTERS))}"
                key = f"filter_list[{number}].filter[{position}].function"
                yield {"key": key, "name": name, "hint": hint}


def _unknown_metrics(spec: TaskSpec) -> Found:
    if spec.process_results:  # which measures whatever it likes, under any name
        return
    for number, entry in enumerate(spec.metric_list):
        for part, why in _unknown_in(spec, entry):
            yield {"key": f"metric_list[{number}].{part}", "why": why}


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


def _aggregated_twice(spec: GroupSpec) -> Found:
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
    return _more_than_once(numbers, "aggregate_metric_list")


def _more_than_once(names: Sequence[str], key: str) -> Found:
    for name, count in Counter(names).items():
        if count > 1:
            yield {"key": key, "name": name, "count": count}


def _unlisted_primary(spec: TaskSpec | GroupSpec) -> Found:
    primary = spec.about.primary_metric
    if primary and primary not in spec.metrics:
        key = "metric_list" if isinstance(spec, TaskSpec) else "aggregate_metric_list"
        yield {"primary": primary, "key": key, "listed": ", ".join(spec.metrics) or "nothing"}


_TWICE = "{key}: {name} stands there {count} times: name it once"
_PRIMARY = Refusal(
    "metadata.primary_metric: {primary} is not in {key}, which has {listed}: name one of those, or "
    "add it there",
    _unlisted_primary,
)
UNSAFE = Refusal(
    "unsafe_code: true (scoring runs code that the model wrote): say so with "
    "--confirm_run_unsafe_code",
    _where(lambda spec: spec.unsafe_code),
)

OF_EVERY_TASK = (
    Refusal(
        "{key}: {value} (output_type: loglikelihood_rolling asks how likely a text is, which has "
        "no place for {medium}): choose another output_type",
        _media_of_a_whole_text,
    ),
    UNSAFE,
)
OF_TASKS_BY_KEYS = (
    Refusal("fewshot_config.sampler: {sampler} is not known: write {known}", _unknown_samplers),
    Refusal(
        "filter_list: empty, so nothing would be scored: name a filter, or leave it out",
        _where(lambda spec: not spec.filter_list),
    ),
    Refusal("{key}: {name} is not known{hint}", _unknown_filters),
    Refusal("{key}: {why}", _unknown_metrics),
    Refusal(
        "metric_list: empty: name at least one metric",
        _where(lambda spec: not spec.process_results and not spec.metric_list),
    ),
    Refusal(_TWICE, lambda spec: _more_than_once(spec.metrics, "metric_list")),
    _PRIMARY,
)
"""Of those that are no Python class: what such a one measures, its code says."""

OF_WHOLE_GROUPS = (
    Refusal("task: it has no task: name at least one", _where(lambda spec: not [*spec.leaves()])),
    Refusal(
        "task: {name} is in it {count} times and would count as often: name it once",
        lambda spec: _more_than_once([leaf.name for leaf in spec.leaves()], "task"),
    ),
)
OF_EVERY_GROUP = (Refusal(_TWICE, _aggregated_twice), _PRIMARY)


def check_supported(spec: TaskSpec | GroupSpec, *, confirm_unsafe: bool = False) -> None:
    """Raises TaskError with everything that the task, or the group and its tasks, asks in vain.

    `confirm_unsafe`: the caller agrees to run code that a model wrote, for tasks with
    `unsafe_code`.
    """
    concerned: dict[str, list[str]] = {}

    def look(at: TaskSpec | GroupSpec, refusals: Sequence[Refusal]) -> None:
        for refusal in refusals:
            if refusal is not UNSAFE or not confirm_unsafe:
                for problem in refusal.of(at):
                    concerned.setdefault(problem, []).append(at.name)

    for leaf in {leaf.name: leaf for leaf in spec.leaves()}.values():
        look(leaf, OF_EVERY_TASK if leaf.python_class else (*OF_EVERY_TASK, *OF_TASKS_BY_KEYS))
    if isinstance(spec, GroupSpec):
        look(spec, OF_WHOLE_GROUPS)
        for group in {group.name: group for group in spec.groups()}.values():
            look(group, OF_EVERY_GROUP)
    if concerned:
        kind = "group" if isinstance(spec, GroupSpec) else "task"
        lines = "".join(f"\n  {first_of(names)}: {problem}" for problem, names in concerned.items())
        raise TaskError(f"The {kind} {spec.name} cannot be run:{lines}")


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
        if leaf.doc_to_image:
            needs.setdefault("images", []).append(leaf.name)
        if leaf.doc_to_audio:
            needs.setdefault("sounds", []).append(leaf.name)
    if settings.apply_chat_template:
        needs["conversations"] = []
    if settings.forbid_truncation:
        needs["a known length"] = []
    refuse(capabilities, needs)
