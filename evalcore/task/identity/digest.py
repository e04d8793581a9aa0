"""Digests of what a task asks: of its configuration, and of its documents."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from evalcore.digest import digest_of
from evalcore.errors import TaskError
from evalcore.model.pictures import image_json, is_image
from evalcore.model.sounds import Recording, Sound
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

_NOT_WRITTEN = ("about", "source", "model_arguments")
_BESIDE_OTHERS = ("arguments", "class_config")
"""What no key names: the other keys of a metric, of a filter, of a task written in Python."""
_WRITTEN_AS = {"fewshot": "fewshot_config", "python_class": "class", "steps": "filter"}


def resolved_config(part: Any) -> dict[str, Any]:
    """The configuration of a task, or a part of one, as its file could say it, for a record.

    What has its default is left out, so that a new field with a default changes no digest; a
    function appears by name and digest.
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if field.name in _NOT_WRITTEN or value == _default_of(field):
            continue
        if field.name in _BESIDE_OTHERS:
            values.update(json_ready(value))
        else:
            values[_WRITTEN_AS.get(field.name, field.name)] = json_ready(value)
    return values


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def config_digest(spec: TaskSpec | GroupSpec) -> str:
    """SHA-256 of what the task asks and how it scores, overrides applied.

    Every `!function` counts with its source. Metadata counts only where a `custom_dataset` or a
    class is made from it. A group's digest is that of its members and of how it aggregates them.
    """
    if isinstance(spec, GroupSpec):
        members = [[member.name, config_digest(member)] for member in spec.members]
        how = {"members": members, "aggregate": json_ready(spec.aggregate_metric_list)}
        if spec.about.same_questions:  # decides the interval
            how["same_questions"] = True
        return digest_of(how)
    config = {
        key: value for key, value in resolved_config(spec).items() if key not in NOT_ASKED_OR_SCORED
    }
    config["dataset_kwargs"] = {
        key: json_ready(value) for key, value in spec.dataset_kwargs.items() if key not in _NOT_DATA
    }
    if spec.custom_dataset or spec.python_class:
        config["metadata"] = json_ready(spec.metadata)
    return digest_of(config)


def doc_digest(doc: dict[str, Any]) -> str:
    """SHA-256 of the document's canonical JSON.

    Raises TaskError that names the column of a value that has no place in JSON, or of half a
    character.
    """
    ready = {json_key(column): _column(column, value) for column, value in doc.items()}
    try:
        return digest_of(ready)
    except UnicodeEncodeError:
        for column, value in ready.items():
            text = json.dumps([column, value], ensure_ascii=False)
            check_whole_characters(f"the column {column!r}", text)
        raise


def _column(column: str, value: Any) -> Any:
    try:
        return json_ready(value)
    except TypeError as error:
        raise TaskError(
            f"the column {column!r}: {error}. Take it out, or make it text or a number, in "
            "process_docs"
        ) from error


def check_whole_characters(what: str, text: str) -> None:
    """Raises TaskError for half a character, such as a text has that was cut within an emoji in
    UTF-16: no model reads it, and no file holds it."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TaskError(
            f"{what} has half a character ({text[error.start]!r}) behind "
            f"{text[max(0, error.start - 20) : error.start]!r}: cut texts between characters"
        ) from None


def docs_digest(doc_digests: Iterable[str]) -> str:
    """SHA-256 of the digests of the scored documents, in order."""
    return digest_of(list(doc_digests))


def doc_json(doc: dict[str, Any]) -> str:
    """A document as lm-evaluation-harness writes and hashes it: NaN as such, bytes as text.

    Read again, it has the digest that `doc_digest` gives.
    """
    try:
        return json.dumps(doc, ensure_ascii=False, default=json_ready)
    except TypeError:  # a key that JSON has no way to write, such as a date
        return json.dumps(_with_text_keys(doc), ensure_ascii=False, default=json_ready)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {json_key(key): _with_text_keys(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(entry) for entry in value]
    return value


def json_key(key: Any) -> str:
    """The key of a mapping as JSON writes it: `null`, `true`, `NaN`; another object by its text."""
    if isinstance(key, str):
        return key
    if isinstance(key, np.generic):
        key = key.item()
    if key is None or isinstance(key, bool | int | float):
        return json.dumps(key)
    return str(key)


_WRITTEN_AS_TEXT = (
    bytes,
    decimal.Decimal,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)
"""What a data set's columns may hold and JSON may not."""


def json_ready(value: Any) -> Any:
    """The same value in what JSON can hold: functions by digest; bytes, dates, NaN as text.

    A part of a task's configuration becomes what its file could say, an image its digest and
    size, a sound its digest, length and rate.
    Raises TypeError for what has no place in JSON, such as an object of a task's own class.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {json_key(key): json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry) for entry in value]
    if isinstance(value, _WRITTEN_AS_TEXT):
        return str(value)
    if isinstance(value, np.generic):  # functions of tasks compute by arrays
        return json_ready(value.item())
    if isinstance(value, FunctionRef):
        return {"function": value.name, "digest": value.digest()}
    if is_image(value):
        return image_json(value)
    if isinstance(value, Recording):
        return Sound(value).as_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return resolved_config(value)
    raise TypeError(f"{type(value).__name__} has no place in JSON: {value!r}")
