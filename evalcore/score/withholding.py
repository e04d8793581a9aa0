"""Samples without text, for data sets whose authors ask that it is not put online.

`metadata.publish_samples: ids`. What stays are ids, digests, loglikelihoods and scores, from which
every number can be computed again; every text, also what a model wrote, is its SHA-256 instead.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from evalcore.digest import digest_of
from evalcore.record import Failure
from evalcore.score.sample import Sample
from evalcore.task.config import GroupSpec, TaskSpec


def tasks_without_text(spec: TaskSpec | GroupSpec) -> list[str]:
    """The leaf tasks whose samples are published as ids only: by their own word or a group's."""
    whole = spec.about.publish_samples == "ids"
    return [leaf.name for leaf in spec.leaves() if whole or leaf.about.publish_samples == "ids"]


def without_text(sample: Mapping[str, Any]) -> Sample:
    """A scored sample in which every text is its digest, and tokens are only counted."""
    return {
        **sample,
        "cluster": _digest(sample["cluster"]),
        "doc": json.dumps({"doc_digest": sample["doc_digest"]}),
        "prompt": _digest(sample["prompt"]),
        "choices": [_digest(choice) for choice in sample["choices"]],
        "target": _digest(sample["target"]),
        "answer": json.dumps(_digest(sample["answer"])),
        "arguments": [
            {
                **argument,
                "context": _digest(argument["context"]),
                "continuation": _digest(argument["continuation"]),
            }
            for argument in sample["arguments"]
        ],
        "responses": [
            {
                **response,
                "token_ids": [0] * len(response["token_ids"]),
                "token_texts": None,
                "text": _digest(response["text"]),
                **({"thoughts": _digest(response["thoughts"])} if response.get("thoughts") else {}),
            }
            for response in sample["responses"]
        ],
        "filtered": [
            {**entry, "values": json.dumps(_no_text(json.loads(entry["values"])))}
            for entry in sample["filtered"]
        ],
        "scores": [
            {**score, "item": score["item"] and json.dumps(_no_text(json.loads(score["item"])))}
            for score in sample["scores"]
        ],
        "why_null": sample["why_null"] and "withheld, as it may quote the document",
        "overlaps": sample["overlaps"] and [_digest(passage) for passage in sample["overlaps"]],
        "images": sample["images"] and [{**each, "thumbnail": None} for each in sample["images"]],
    }


def without_reason(failure: Failure) -> Failure:
    """A failure of such a task: its reason may quote the document."""
    return dataclasses.replace(failure, reason="withheld, as it may quote a document")


def _digest(text: str | None) -> str | None:
    return None if text is None else f"sha256:{digest_of(text)}"


def _no_text(value: Any) -> Any:
    if isinstance(value, str):
        return _digest(value)
    if isinstance(value, list):
        return [_no_text(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _no_text(entry) for key, entry in value.items()}
    return value
