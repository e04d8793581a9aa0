"""Which tasks a caller means: the library of its folders, and what it names there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS


def library_of(folders: Sequence[Path | str]) -> TaskLibrary:
    """Our own tasks and those of other folders, which win."""
    return TaskLibrary([OWN_TASKS, *map(Path, folders)])


def select(
    library: TaskLibrary,
    names: Sequence[str | Mapping[str, Any]],
    *,
    metadata: Mapping[str, Any] | None,
    model_args: Mapping[str, Any],
    mode: str,
) -> list[TaskSpec | GroupSpec]:
    """The tasks and groups of these names, or mappings of keys as of a task file.

    In compat the metadata of those that are made by code hold the model's arguments, too, as in
    lm-evaluation-harness: some documents are made to a tokenizer's measure.
    """
    specs = library.select(names, metadata=metadata)
    told = {name: value for name, value in model_args.items() if name not in (metadata or {})}
    return [_told_of_model(spec, told if mode == "compat" else {}) for spec in specs]


def _told_of_model(spec: TaskSpec | GroupSpec, arguments: dict[str, Any]) -> TaskSpec | GroupSpec:
    if isinstance(spec, GroupSpec):
        members = tuple(_told_of_model(member, arguments) for member in spec.members)
        return dataclasses.replace(spec, members=members)
    if not spec.custom_dataset and not spec.python_class:
        return spec
    return dataclasses.replace(spec, model_arguments=arguments)
