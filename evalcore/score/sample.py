"""The sample of one document: what was asked, what came back, what it is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalcore.model.base import Request, Response
from evalcore.model.pictures import Picture
from evalcore.model.protocols import Spelled
from evalcore.model.sounds import Sound
from evalcore.record import SCHEMA_VERSION
from evalcore.task.asking.task import Item, Task
from evalcore.task.identity.digest import doc_json, json_ready

Sample = dict[str, Any]
"""A row of SAMPLE_SCHEMA."""


@dataclass(frozen=True)
class Asked:
    """A document with the responses to each of its requests, one for each repeat."""

    item: Item
    responses: list[list[Response]]

    @property
    def results(self) -> list[list[Any]]:
        """The responses as filters and metrics see them."""
        return [[_result(response) for response in repeats] for repeats in self.responses]


def _result(response: Response) -> Any:
    if response.kind == "loglikelihood":
        return (response.loglikelihood, response.is_greedy)
    return response.loglikelihood if response.kind == "loglikelihood_rolling" else response.text


@dataclass
class Marks:
    """What filters and metrics make of the responses to one document."""

    filtered: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    pick: int | None = None
    correct: float | None = None
    why_null: str | None = None


def unscored_sample(
    task: Task,
    asked: Asked,
    *,
    part: str | None,
    overlaps: Sequence[str] | None,
    spelled: Spelled | None,
) -> Sample:
    """A document's row of SAMPLE_SCHEMA but for its marks; task code may change the document later.

    `part` is the subset where the task names none, `overlaps` the passages that training text has,
    too: None where none was searched, or the text is too short to tell whether it is contaminated.
    `spelled` says what the tokens of continuations read.
    """
    item = asked.item
    return {
        "schema_version": SCHEMA_VERSION,
        "task": task.name,
        "split": item.split,
        "doc_id": item.doc_id,
        "doc_digest": item.doc_digest,
        "doc": doc_json(item.doc),
        "cluster": task.cluster_of(item),
        "subset": task.subset_of(item) or part,
        "shots": [{"split": split, "row": row} for split, row in item.shots],
        "prompt": item.prompt,
        "choices": list(item.choices),
        "gold": list(item.gold),
        "target": item.target,
        "answer": json.dumps(json_ready(item.answer), ensure_ascii=False),
        "choices_are_contexts": item.choices_are_contexts,
        "several_answers": item.several_answers,
        "arguments": [_arguments(request) for request in item.requests],
        "repeats": item.requests[0].repeats,
        "responses": [
            _response(response, spelled) for repeats in asked.responses for response in repeats
        ],
        "contaminated": None if overlaps is None else bool(overlaps),
        "overlaps": overlaps,
        "images": [_image(picture) for picture in item.images] or None,
        "sounds": [_sound(sound) for sound in item.sounds] or None,
    }


def _image(picture: Picture) -> dict[str, Any]:
    """What a sample keeps of an image; never its file."""
    return {
        "digest": picture.digest,
        "width": picture.width,
        "height": picture.height,
        "thumbnail": picture.thumbnail,
    }


def _sound(sound: Sound) -> dict[str, Any]:
    """What a sample keeps of a sound; never its samples."""
    return {"digest": sound.digest, "seconds": sound.seconds, "rate": sound.rate}


def _arguments(request: Request) -> dict[str, Any]:
    stated = request.generation
    return {
        "context": request.context,
        "continuation": request.continuation,
        "kind": request.kind,
        "generation": None
        if stated is None
        else json.dumps(json_ready(dict(stated)), ensure_ascii=False),
    }


def _response(response: Response, spelled: Spelled | None) -> dict[str, Any]:
    """With what each token of a scored continuation reads, where the model shows it.

    Long texts, and what a model wrote, are read as they are.
    """
    fields = response.as_json()
    for medium in ("images", "sounds"):  # the sample has them once, of the document
        fields.pop(medium, None)
    if spelled and response.kind == "loglikelihood" and response.token_ids:
        fields["token_texts"] = spelled.token_texts(response.token_ids)
    return fields


def score_of(metric: str, filter: str, item: Any) -> dict[str, Any]:
    """An entry of `scores`: a number as it is, anything else as JSON; a truth value as both."""
    value = float(item) if is_number(item) else None
    is_shown = value is None or isinstance(item, bool | np.bool_)
    text = as_json(item) if is_shown else None
    return {"metric": metric, "filter": filter, "value": value, "item": text}


def is_number(item: Any) -> bool:
    return isinstance(item, bool | int | float | np.number | np.bool_)


def item_of(score: Mapping[str, Any]) -> Any:
    """What is aggregated, from an entry of `scores`; lists become tuples, as metrics give them."""
    if score["item"] is None:
        return score["value"]
    item = json.loads(score["item"])
    return tuple(item) if isinstance(item, list) else item


def as_json(value: Any) -> str:
    """JSON of whatever a filter or metric gave; what has no place in JSON as its text."""
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.number | np.bool_):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value)
