"""Digests of what a task asks: of its configuration, and of its documents."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import math
from collections.abc import Iterable
from typing import Any

from evalcore.digest import digest_of
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.functions import FunctionRef

NOT_ASKED_OR_SCORED = (
    "task",  # the name, the version and the shots stand beside the digest in every key
    "num_fewshot",
    "task_alias",
    "tag",
    "metadata",
    "should_decontaminate",
    "doc_to_decontamination_query",
    "unsafe_code",
)
"""Keys that change neither a question nor its score."""

_NOT_DATA = ("revision", "trust_remote_code")
"""Keys of `dataset_kwargs` that pin the data: the documents have a digest of their own."""

_KEYS_IN_YAML = {"fewshot": "fewshot_config", "python_class": "class"}


def resolved_config(spec: TaskSpec) -> dict[str, Any]:
    """The task's configuration under the top-level keys of its file, overrides applied.

    Keys that hold nothing are left out; a function appears by name and digest.
    """
    values = {
        _KEYS_IN_YAML.get(field.name, field.name): getattr(spec, field.name)
        for field in dataclasses.fields(spec)
        if field.name not in ("about", "source")
    }
    return {key: json_ready(value) for key, value in values.items() if value not in (None, (), {})}


def config_digest(spec: TaskSpec | GroupSpec) -> str:
    """SHA-256 of what the task asks and how it scores, overrides applied.

    Every `!function` counts with its source. Metadata counts only where a `custom_dataset` is made
    from it. A group's digest is that of its members and of how it aggregates them.
    """
    if isinstance(spec, GroupSpec):
        members = [[member.name, config_digest(member)] for member in spec.members]
        return digest_of({"members": members, "aggregate": json_ready(spec.aggregate_metric_list)})
    config = {
        key: value for key, value in resolved_config(spec).items() if key not in NOT_ASKED_OR_SCORED
    }
    config["dataset_kwargs"] = {
        key: json_ready(value) for key, value in spec.dataset_kwargs.items() if key not in _NOT_DATA
    }
    if spec.custom_dataset:
        config["metadata"] = json_ready(spec.metadata)
    return digest_of(config)


def doc_digest(doc: dict[str, Any]) -> str:
    """SHA-256 of the document's canonical JSON."""
    return digest_of(json_ready(doc))


def docs_digest(doc_digests: Iterable[str]) -> str:
    """SHA-256 of the digests of the scored documents, in order."""
    return digest_of(list(doc_digests))


def json_ready(value: Any) -> Any:
    """The same value in what JSON can hold: bytes and functions by digest, dates and NaN as text.

    A task becomes its resolved configuration. Raises TypeError for what has no place in JSON, such
    as an image.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry) for entry in value]
    if isinstance(value, bytes):
        return {"sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    if isinstance(value, FunctionRef):
        return {"function": value.name, "digest": value.digest()}
    if isinstance(value, TaskSpec):
        return resolved_config(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: json_ready(getattr(value, field.name)) for field in fields}
    raise TypeError(f"{type(value).__name__} has no place in JSON: {value!r}")
