"""From the merged values of task files to TaskSpec and GroupSpec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalcore.errors import did_you_mean
from evalcore.task.config import (
    DEFAULT_FILTERS,
    DEFAULT_METRICS,
    OUTPUT_TYPES,
    AggregateSpec,
    FewshotSpec,
    FilterSpec,
    FilterStep,
    GroupSpec,
    MetricSpec,
    TaskSpec,
)
from evalcore.task.fields import (
    COUNT,
    COUNTS,
    FLAG,
    FUNCTION,
    LIST,
    MAPPING,
    MAPPINGS,
    NUMBER,
    POSITIVE,
    TEXT,
    TEXTS,
    Kind,
    Problems,
    choice_of,
    one_of,
    optional,
)
from evalcore.task.metadata import read_metadata
from evalcore.task.yaml_file import is_own

_TEXT_SOURCE = optional(one_of(TEXT, NUMBER, FUNCTION))
_TARGET_SOURCE = optional(one_of(TEXT, NUMBER, LIST, FUNCTION))
_CHOICE_SOURCE = optional(one_of(TEXT, LIST, MAPPING, FUNCTION))
_MEDIA_SOURCE = optional(one_of(TEXT, LIST, FUNCTION))

TASK_KINDS: dict[str, Kind] = {
    "task": TEXT,
    "task_alias": optional(TEXT),
    "tag": optional(one_of(TEXT, TEXTS)),
    "class": FUNCTION,
    "custom_dataset": optional(FUNCTION),
    "dataset_path": optional(TEXT),
    "dataset_name": optional(TEXT),
    "dataset_kwargs": optional(MAPPING),
    "training_split": optional(TEXT),
    "validation_split": optional(TEXT),
    "test_split": optional(TEXT),
    "fewshot_split": optional(TEXT),
    "process_docs": optional(FUNCTION),
    "doc_to_text": _TEXT_SOURCE,
    "doc_to_target": _TARGET_SOURCE,
    "doc_to_choice": _CHOICE_SOURCE,
    "doc_to_image": _MEDIA_SOURCE,
    "doc_to_audio": _MEDIA_SOURCE,
    "use_prompt": optional(TEXT),
    "description": optional(TEXT),
    "gen_prefix": optional(TEXT),
    "target_delimiter": TEXT,
    "fewshot_delimiter": TEXT,
    "fewshot_config": optional(MAPPING),
    "num_fewshot": optional(COUNT),
    "output_type": choice_of(*OUTPUT_TYPES),
    "generation_kwargs": optional(MAPPING),
    "repeats": POSITIVE,
    "process_results": optional(FUNCTION),
    "filter_list": optional(MAPPINGS),
    "metric_list": optional(MAPPINGS),
    "should_decontaminate": FLAG,
    "doc_to_decontamination_query": optional(one_of(TEXT, FUNCTION)),
    "unsafe_code": FLAG,
    "metadata": optional(MAPPING),
}

_FEWSHOT_KINDS: dict[str, Kind] = {
    "sampler": one_of(TEXT, FUNCTION),
    "split": optional(TEXT),
    "process_docs": optional(FUNCTION),
    "samples": optional(one_of(MAPPINGS, FUNCTION)),
    "doc_to_text": _TEXT_SOURCE,
    "doc_to_choice": _CHOICE_SOURCE,
    "doc_to_target": _TARGET_SOURCE,
    "gen_prefix": optional(TEXT),
    "fewshot_delimiter": TEXT,
    "target_delimiter": TEXT,
    "fewshot_indices": optional(COUNTS),
}

_INHERITED_BY_FEWSHOT = (
    "process_docs",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "gen_prefix",
    "fewshot_delimiter",
    "target_delimiter",
)

GROUP_KINDS: dict[str, Kind] = {
    "group": TEXT,
    "group_alias": optional(TEXT),
    "task": optional(one_of(TEXT, LIST)),
    "aggregate_metric_list": optional(one_of(MAPPING, MAPPINGS)),
    "metadata": optional(MAPPING),
}

_AGGREGATE_KINDS: dict[str, Kind] = {
    "metric": one_of(TEXT, FUNCTION),
    "filter_list": optional(one_of(TEXT, TEXTS)),
    "aggregation": one_of(choice_of("mean"), FUNCTION),
    "weight_by_size": one_of(FLAG, TEXT),
}

_METRIC_ARGUMENTS = {"average", "weight_by_size"}
"""Arguments of metrics whose names look like keys of an entry, but are none."""

_METRIC_KINDS: dict[str, Kind] = {
    "metric": one_of(TEXT, FUNCTION),
    "aggregation": optional(one_of(TEXT, FUNCTION)),
    "higher_is_better": optional(FLAG),
    "hf_evaluate": FLAG,
}


def parse_task(
    values: dict[str, Any], place_of: Callable[[str], str], source: Path | None
) -> TaskSpec:
    """The task that `values` describe. Raises TaskError with every problem found.

    `place_of(key)` says where a key was set, for messages.
    """
    name = str(values.get("task"))
    problems = Problems(f"The task {name}", place_of, strictly=is_own(source))
    python_class = values.get("class")
    # A task written in Python takes whatever keys it likes.
    problems.check(values, TASK_KINDS, others=bool(python_class))
    if not python_class:
        _check_completeness(values, problems)
    _check_parts(values, problems)
    about = read_metadata(name, values.get("metadata"), problems)
    problems.settle()

    plain = {
        key: value
        for key, value in values.items()
        if key in TASK_KINDS and key not in _BUILT and value is not None
    }
    # What the class of a task takes of its file besides its name and metadata.
    named = ("class", "task", "task_alias", "tag", "metadata")
    of_class = {key: value for key, value in values.items() if key not in named}
    output_type = values.get("output_type", "generate_until")
    return TaskSpec(
        **plain,
        python_class=python_class,
        class_config=of_class if python_class else {},
        tag=_texts(values.get("tag")),
        fewshot=_fewshot(values),
        metric_list=_metrics(values.get("metric_list"), output_type),
        filter_list=_filters(values.get("filter_list")),
        about=about,
        source=source,
    )


_BUILT = {"class", "tag", "fewshot_config", "metric_list", "filter_list"}


def _check_completeness(values: dict[str, Any], problems: Problems) -> None:
    if not values.get("dataset_path") and not values.get("custom_dataset"):
        problems.missing("dataset_path", "name a data set of the Hub, or a folder")
    if not values.get("test_split") and not values.get("validation_split"):
        problems.missing("test_split", "name the split to score (or validation_split)")
    if values.get("output_type") == "multiple_choice" and not values.get("use_prompt"):
        for key in ("doc_to_text", "doc_to_target", "doc_to_choice"):
            if values.get(key) is None:
                problems.missing(key, "a multiple_choice task needs question, answer and choices")


def _check_parts(values: dict[str, Any], problems: Problems) -> None:
    fewshot = values.get("fewshot_config")
    if isinstance(fewshot, dict):
        problems.check(fewshot, _FEWSHOT_KINDS, inside="fewshot_config")
    for number, metric in enumerate(_mappings(values.get("metric_list"))):
        inside = f"metric_list[{number}]"
        if "metric" not in metric:
            problems.missing(f"{inside}.metric", "name the metric")
        problems.check(metric, _METRIC_KINDS, inside, others=True)
        for key in metric.keys() - _METRIC_KINDS.keys() - _METRIC_ARGUMENTS:
            if hint := did_you_mean(str(key), _METRIC_KINDS):
                problems.doubt(f"{inside}.{key}", f"the metric itself is given this{hint}")
    for number, pipeline in enumerate(_mappings(values.get("filter_list"))):
        inside = f"filter_list[{number}]"
        problems.check({"name": None, "filter": None, **pipeline}, _PIPELINE_KINDS, inside)
        for step, function in enumerate(_mappings(pipeline.get("filter"))):
            if "function" not in function:
                problems.missing(f"{inside}.filter[{step}].function", "name the filter")
    names = [pipeline.get("name") for pipeline in _mappings(values.get("filter_list"))]
    for number, name in enumerate(names):
        if name in names[:number]:
            problems.add(
                f"filter_list[{number}].name",
                f"{name!r} is the name of another one, too: only one would be scored, rename it",
            )
    arguments = values.get("generation_kwargs")
    if isinstance(arguments, dict):
        until = {"until": optional(one_of(TEXT, TEXTS))}  # the rest is the model's business
        problems.check(arguments, until, inside="generation_kwargs", others=True)
    data = values.get("dataset_kwargs")
    if isinstance(data, dict):
        revision = {"revision": optional(TEXT)}
        problems.check(data, revision, inside="dataset_kwargs", others=True)


_PIPELINE_KINDS: dict[str, Kind] = {"name": TEXT, "filter": MAPPINGS}


def _fewshot(values: dict[str, Any]) -> FewshotSpec:
    inherited = {key: values[key] for key in _INHERITED_BY_FEWSHOT if key in values}
    inherited["split"] = values.get("fewshot_split")
    return FewshotSpec(**{**inherited, **(values.get("fewshot_config") or {})})


def _metrics(entries: list[dict[str, Any]] | None, output_type: str) -> tuple[MetricSpec, ...]:
    if entries is None:
        return tuple(MetricSpec(metric=name) for name in DEFAULT_METRICS[output_type])
    return tuple(
        MetricSpec(
            **{key: value for key, value in entry.items() if key in _METRIC_KINDS},
            arguments={key: value for key, value in entry.items() if key not in _METRIC_KINDS},
        )
        for entry in entries
    )


def _filters(entries: list[dict[str, Any]] | None) -> tuple[FilterSpec, ...]:
    if entries is None:
        return DEFAULT_FILTERS
    return tuple(
        FilterSpec(
            name=entry["name"],
            steps=tuple(
                FilterStep(
                    function=step["function"],
                    arguments={key: value for key, value in step.items() if key != "function"},
                )
                for step in entry["filter"]
            ),
        )
        for entry in entries
    )


def parse_group(
    values: dict[str, Any], place_of: Callable[[str], str], source: Path | None
) -> GroupSpec:
    """The group that `values` describe, still without members. Raises TaskError."""
    name = str(values.get("group"))
    problems = Problems(f"The group {name}", place_of, strictly=is_own(source))
    problems.check(values, GROUP_KINDS)
    entries = values.get("aggregate_metric_list") or []
    aggregates = _mappings([entries] if isinstance(entries, dict) else entries)
    for number, entry in enumerate(aggregates):
        inside = f"aggregate_metric_list[{number}]"
        if "metric" not in entry:
            problems.missing(f"{inside}.metric", "name the metric to aggregate")
        problems.check(entry, _AGGREGATE_KINDS, inside)
        if isinstance(weight := entry.get("weight_by_size"), str):
            problems.doubt(
                f"{inside}.weight_by_size", f"expected true or false, got {weight!r}: it means true"
            )
    about = read_metadata(name, values.get("metadata"), problems)
    problems.settle()
    return GroupSpec(
        group=name,
        group_alias=values.get("group_alias"),
        aggregate_metric_list=tuple(_aggregate(entry) for entry in aggregates),
        metadata=values.get("metadata") or {},
        about=about,
        source=source,
    )


def _aggregate(entry: dict[str, Any]) -> AggregateSpec:
    filters = entry.get("filter_list")
    read = {
        "filter_list": None if filters is None else _texts(filters),
        # lm-eval takes any text for true, and one of its own files says `truez`.
        "weight_by_size": bool(entry.get("weight_by_size", True)),
    }
    return AggregateSpec(**{**entry, **read})


def _texts(value: str | list[str] | None) -> tuple[str, ...]:
    """lm-eval takes one text where a list is meant."""
    return (value,) if isinstance(value, str) else tuple(value or ())


def _mappings(value: object) -> list[dict[str, Any]]:
    """The mappings in a list whose kind was checked elsewhere."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
