"""The task or group of a record: from the record itself, or from task files that say the same.

A record holds its configuration. What is code in it (a metric, a filter, a task's own scoring)
stands there by name and digest only, and comes from the task's file, which must be as it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from evalcore.errors import TaskError
from evalcore.record import RunRecord
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import resolved_config
from evalcore.task.library.load import TaskLibrary
from evalcore.task.parse import parse_group, parse_task

SCORING = ("class", "output_type", "process_results", "filter_list", "metric_list", "repeats")
"""Keys that decide what responses are worth; the others decide what is asked."""

_ASKING_IN_CODE = (
    "custom_dataset", "process_docs", "doc_to_text", "doc_to_target", "doc_to_choice",
    "doc_to_decontamination_query", "fewshot_config", "dataset_kwargs", "use_prompt",
)  # fmt: skip
"""Keys that only asking needs: a sample has what they gave."""


def spec_of(record: RunRecord, library: TaskLibrary) -> TaskSpec | GroupSpec:
    """Raises TaskError where the scoring is code and no task file holds the same."""
    leaves = {name: _leaf(name, config, library) for name, config in record.configs.items()}
    if not record.groups:
        return leaves[record.task]
    return _group(record.task, record.groups, leaves)


def _leaf(name: str, config: Mapping[str, Any], library: TaskLibrary) -> TaskSpec:
    scoring = {key: config[key] for key in SCORING if key in config}
    if not has_code(scoring):
        values = {
            key: value
            for key, value in config.items()
            if key not in _ASKING_IN_CODE or key == "doc_to_choice"
        }
        if has_code(values.get("doc_to_choice")):
            values["doc_to_choice"] = ["code"]  # that there are choices is all that scoring asks
        data = {"dataset_path": "none", "test_split": "none"}
        needed = {**data, "doc_to_text": "", "doc_to_target": ""}
        return parse_task({**needed, **values}, lambda key: f"the record, {key}", None)
    spec = _in_library(name, library)
    now = resolved_config(spec)
    if changed := [key for key in SCORING if now.get(key) != config.get(key)]:
        raise TaskError(
            f"{name}: its scoring is code, and its task file has changed since the run "
            f"({', '.join(changed)}): verify with the files of that time (--include_path)"
        )
    return spec


def _in_library(name: str, library: TaskLibrary) -> TaskSpec:
    try:
        spec = library.one(name)
    except TaskError as error:
        raise TaskError(
            f"{name}: its scoring is code, and its task file is not here: give its folder by "
            f"--include_path ({error.reason})"
        ) from error
    if not isinstance(spec, TaskSpec):
        raise TaskError(f"{name}: its scoring is code, and there is a group of that name here")
    return spec


def _group(
    name: str,
    groups: Mapping[str, Mapping[str, Any]],
    leaves: Mapping[str, TaskSpec],
) -> GroupSpec:
    group = groups[name]
    stated = group.get("aggregate_metric_list")
    if stated is None:
        raise TaskError(f"{name}: the record does not say how the group aggregates")
    values = {"group": name, "group_alias": group["alias"], "aggregate_metric_list": stated}
    spec = parse_group(values, lambda key: f"the record, {key}", None)
    members = tuple(
        _group(member, groups, leaves) if member in groups else leaves[member]
        for member in group["members"]
    )
    about = dataclasses.replace(spec.about, same_questions=bool(group.get("same_questions")))
    return dataclasses.replace(spec, members=members, about=about)


def has_code(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.keys() == {"function", "digest"} or any(map(has_code, value.values()))
    return isinstance(value, list | tuple) and any(map(has_code, value))
