"""The sample of one document: what was asked, what came back, what it is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from evalcore.model.base import Response, Spelled
from evalcore.record import SCHEMA_VERSION
from evalcore.task.asking.task import Item
from evalcore.task.config import TaskSpec
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


def sample_of(spec: TaskSpec, asked: Asked, *, cluster: str | None, subset: str | None) -> Sample:
    """A row of SAMPLE_SCHEMA without what filters and metrics make of the responses."""
    item = asked.item
    return {
        "schema_version": SCHEMA_VERSION,
        "task": spec.name,
        "split": item.split,
        "doc_id": item.doc_id,
        "doc_digest": item.doc_digest,
        "doc": doc_json(item.doc),
        "cluster": cluster,
        "subset": subset,
        "shots": [{"split": split, "row": row} for split, row in item.shots],
        "prompt": item.prompt,
        "choices": list(item.choices),
        "gold": list(item.gold),
        "target": item.target,
        "answer": json.dumps(json_ready(item.answer), ensure_ascii=False),
        "choices_are_contexts": item.choices_are_contexts,
        "several_answers": item.several_answers,
        "arguments": [
            {
                "context": request.context,
                "continuation": request.continuation,
                "kind": request.kind,
                "generation": None
                if request.generation is None
                else json.dumps(json_ready(dict(request.generation)), ensure_ascii=False),
            }
            for request in item.requests
        ],
        "repeats": item.requests[0].repeats,
        "responses": [asdict(response) for repeats in asked.responses for response in repeats],
        "filtered": [],
        "scores": [],
        "pick": None,
        "correct": None,
        "why_null": None,
        "contaminated": None,
        "overlaps": None,
    }


def spell(sample: Sample, model: Spelled) -> None:
    """Puts beside the tokens of each scored continuation what they read.

    Long texts, and what a model wrote, are read as they are.
    """
    for response in sample["responses"]:
        if response["kind"] == "loglikelihood" and response["token_ids"]:
            response["token_texts"] = model.token_texts(response["token_ids"])


def score_of(metric: str, filter: str, item: Any) -> dict[str, Any]:
    """An entry of `scores`: a number as it is, anything else as JSON; a truth value as both."""
    if isinstance(item, bool | np.bool_):
        return {"metric": metric, "filter": filter, "value": float(item), "item": as_json(item)}
    if is_number(item):
        return {"metric": metric, "filter": filter, "value": float(item), "item": None}
    return {"metric": metric, "filter": filter, "value": None, "item": as_json(item)}


def is_number(item: Any) -> bool:
    return isinstance(item, bool | int | float | np.number | np.bool_)


def unmeasured(metric: str, filter: str) -> dict[str, Any]:
    return {"metric": metric, "filter": filter, "value": None, "item": None}


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
