"""What the Hub says about a repository, computed from its files: card, tags, config, weights.

Field names are those of the Hub's API, which is why they are in camel case.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from demo.hub.repositories import Blob, Repository, Revision

# Nothing here has a date of its own, and the same content must look the same on every machine.
DATE = "2026-01-01T00:00:00.000Z"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
FORMATS = {".safetensors": "safetensors", ".bin": "pytorch", ".gguf": "gguf"}
AUTO_MODELS = {
    "ForCausalLM": ("AutoModelForCausalLM", "text-generation"),
    "LMHeadModel": ("AutoModelForCausalLM", "text-generation"),
    "ForConditionalGeneration": ("AutoModelForSeq2SeqLM", "text2text-generation"),
    "ForMaskedLM": ("AutoModelForMaskedLM", "fill-mask"),
}


def repository_info(
    repository: Repository,
    revision: Revision,
    *,
    blobs: bool = False,
    expand: Sequence[str] = (),
) -> dict[str, Any]:
    """The info object of a model or data set.

    `blobs` adds size and digests to each file; `expand` names the only fields wanted.
    """
    card = read_card(revision)
    info: dict[str, Any] = {
        "_id": hashlib.sha1(repository.id.encode(), usedforsecurity=False).hexdigest()[:24],
        "id": repository.id,
        "author": repository.id.split("/")[0],
        "sha": revision.commit,
        "lastModified": DATE,
        "createdAt": DATE,
        "private": repository.marker.private,
        "gated": repository.marker.gated or False,
        "disabled": repository.marker.disabled,
        "downloads": 0,
        "likes": 0,
        "cardData": card,
        "usedStorage": sum(blob.size for blob in revision.blobs.values()),
        "siblings": [_sibling(blob, with_blob=blobs) for blob in revision.blobs.values()],
        # No scanner runs here, so nothing is ever reported as unsafe.
        "securityRepoStatus": {"scansDone": True, "filesWithIssues": []},
    }
    if repository.kind == "models":
        info |= _model_fields(repository, revision, card)
    else:
        info["tags"] = _card_tags(card)
    info |= repository.marker.info
    if expand:
        return {key: value for key, value in info.items() if key in {"_id", "id", *expand}}
    return info


def _model_fields(
    repository: Repository, revision: Revision, card: dict[str, Any]
) -> dict[str, Any]:
    config = read_model_config(revision)
    formats = sorted({FORMATS[s] for path in revision.blobs if (s := Path(path).suffix) in FORMATS})
    library = _text(card.get("library_name"))
    if library is None and config:
        library = "transformers"
    elif library is None and formats == ["gguf"]:
        library = "gguf"
    auto_model, pipeline = _auto_model(config)
    pipeline = _text(card.get("pipeline_tag")) or pipeline
    tags = [library, *formats, _text(config.get("model_type")), pipeline, *_card_tags(card)]
    if config.get("auto_map"):
        tags.append("custom_code")
    if _has_chat_template(revision):
        tags.append("conversational")
    tags += _relation_tags(card)
    fields: dict[str, Any] = {
        "modelId": repository.id,
        "tags": list(dict.fromkeys(tag for tag in tags if tag)),
        "config": config,
        "spaces": [],
    }
    if library:
        fields["library_name"] = library
    if pipeline:
        fields["pipeline_tag"] = pipeline
    if auto_model:
        fields["transformersInfo"] = {"auto_model": auto_model}
    if parameters := count_parameters(revision):
        total = sum(parameters.values())
        fields["safetensors"] = {"parameters": parameters, "total": total}
    return fields


def read_card(revision: Revision) -> dict[str, Any]:
    """The YAML at the head of README.md, as JSON; empty where there is none or it is broken."""
    readme = revision.blobs.get("README.md")
    if readme is None:
        return {}
    text = readme.file.read_text(encoding="utf-8", errors="replace")
    front = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|\Z)", text, flags=re.DOTALL)
    if front is None:
        return {}
    card: dict[str, Any] = json.loads(_card_as_json(front[1]))
    return card


@lru_cache(maxsize=1000)
def _card_as_json(front: str) -> str:
    """Read in C, and once: clients ask for a repository's card many times."""
    try:
        card = yaml.load(front, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return "{}"
    # Dates become text here: YAML knows them and JSON does not.
    return json.dumps(card, default=str) if isinstance(card, dict) else "{}"


def read_model_config(revision: Revision) -> dict[str, Any]:
    """The part of config.json that the Hub repeats; empty where it is missing or broken."""
    config = _read_json(revision.blobs.get("config.json"))
    kept = ("architectures", "model_type", "auto_map")
    return {key: config[key] for key in kept if key in config}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def count_parameters(revision: Revision) -> dict[str, int] | None:
    """Parameters by dtype from the safetensors headers; None unless all of them are readable."""
    if WEIGHTS in revision.blobs:
        shards = [WEIGHTS]
    else:
        weight_map = _read_json(revision.blobs.get(WEIGHTS_INDEX)).get("weight_map")
        if not isinstance(weight_map, dict):
            return None
        shards = sorted({str(shard) for shard in weight_map.values()})
    counts: Counter[str] = Counter()
    for shard in shards:
        blob = revision.blobs.get(shard)
        header = _read_safetensors_header(blob) if blob else None
        if header is None:
            return None
        for tensor in header:
            counts[tensor["dtype"]] += math.prod(tensor["shape"])
    return dict(sorted(counts.items()))


def _read_safetensors_header(blob: Blob) -> list[dict[str, Any]] | None:
    with blob.file.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= blob.size - 8:
            return None
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return None
    if not isinstance(header, dict):
        return None
    tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
    return tensors if all(map(_is_tensor, tensors)) else None


def _is_tensor(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape = entry.get("shape")
    # Products of long numbers take for ever.
    return isinstance(shape, list) and all(isinstance(n, int) and 0 <= n < 2**40 for n in shape)


def _read_json(blob: Blob | None) -> dict[str, Any]:
    if blob is None:
        return {}
    try:
        content = json.loads(blob.file.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _auto_model(config: dict[str, Any]) -> tuple[str | None, str | None]:
    named = config.get("architectures")
    architecture = str(named[0]) if isinstance(named, list) and named else ""
    for suffix, answer in AUTO_MODELS.items():
        if architecture.endswith(suffix):
            return answer
    return None, None


def _card_tags(card: dict[str, Any]) -> list[str]:
    tags = _as_list(card.get("tags"))
    for key, prefix in {
        "language": "",
        "license": "license:",
        "datasets": "dataset:",
        "base_model": "base_model:",
        "task_categories": "task_categories:",
        "size_categories": "size_categories:",
    }.items():
        tags += [prefix + value for value in _as_list(card.get(key))]
    return tags


def _relation_tags(card: dict[str, Any]) -> list[str]:
    """How the base models were used; where the card does not say, several are a merge."""
    bases = _as_list(card.get("base_model"))
    relation = card.get("base_model_relation") or ("merge" if len(bases) > 1 else "finetune")
    return [f"base_model:{relation}:{base}" for base in bases]


def _has_chat_template(revision: Revision) -> bool:
    tokenizer = _read_json(revision.blobs.get("tokenizer_config.json"))
    return "chat_template.jinja" in revision.blobs or bool(tokenizer.get("chat_template"))


def _as_list(value: object) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _sibling(blob: Blob, *, with_blob: bool) -> dict[str, Any]:
    sibling: dict[str, Any] = {"rfilename": blob.path}
    if with_blob:
        sibling |= {"size": blob.size, "blobId": blob.oid}
        if blob.pointer_size is not None:
            sibling["lfs"] = {
                "sha256": blob.sha256,
                "size": blob.size,
                "pointerSize": blob.pointer_size,
            }
    return sibling
