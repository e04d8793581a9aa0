"""What the Hub says of a model: metadata and a few small files, never code, never weights.

One deadline covers all requests of a reading. Requests carry no token: what an anonymous visitor
of the Hub cannot read is not evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from huggingface_hub import HfApi, ModelCardData, ModelInfo, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from leaderboard import hub_trouble
from leaderboard.hub_trouble import Deadline
from leaderboard.model_id import Asked, other_repository
from leaderboard.problem import Problem, Refused

MAX_CONFIG_BYTES = 2**20
MAX_TOKENIZER_BYTES = 16 * 2**20
MAX_INDEX_BYTES = 32 * 2**20
MAX_WEIGHT_BYTES = 2**60
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TEMPLATE, TOKENIZER = "chat_template.jinja", "tokenizer_config.json"
STORED_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


@dataclass(frozen=True)
class Weights:
    """`count` parameters, by safetensors' names of their precisions where known.

    None at all where the file is empty.
    """

    count: int
    by_dtype: Mapping[str, int]


@dataclass(frozen=True)
class Repository:
    """A model repository at one commit."""

    repo_id: str
    commit: str
    files: frozenset[str]
    config: dict[str, Any] | None
    """config.json; None where there is none."""
    config_error: str
    """Why config.json cannot be read; empty where it can."""
    weights: Weights | None
    """None where neither the Hub nor the files' headers tell."""
    shards: frozenset[str]
    """The files that the index of the weights names; empty where there is no index."""
    weight_digests: tuple[str, ...]
    """SHA-256 of each file of the weights; empty where the Hub does not tell all."""
    card: Mapping[str, Any]
    """What the head of the model's card states."""
    tags: frozenset[str]
    chat_template: str | None
    """The text of it, empty for none; None where nobody looked."""

    @property
    def licence(self) -> str:
        return str(self.card.get("license") or "")


def read_repository(asked: Asked, seconds: float, *, thorough: bool = False) -> Repository:
    """The repository that was asked for, read within so many seconds.

    Looks for the chat template in files only where `thorough`. Raises Refused (missing, private,
    gated, disabled, no model, no such revision) and HubSilent.
    """
    deadline = Deadline(seconds)
    return hub_trouble.within(deadline, lambda: _read(asked, deadline, thorough))


def _read(asked: Asked, deadline: Deadline, thorough: bool) -> Repository:
    api = HfApi(endpoint=settings.HF_ENDPOINT, token=False)
    with hub_trouble.complaints(asked, deadline):
        info = _model_info(api, asked, deadline)
        files = frozenset(sibling.rfilename for sibling in info.siblings or ())
        commit = str(info.sha)
        config, config_error = None, ""
        if CONFIG in files:
            text = _read_file(info.id, commit, CONFIG, MAX_CONFIG_BYTES, deadline)
            config, config_error = _parse_object(text, MAX_CONFIG_BYTES)
        index = _index(info, files, deadline)
        shards = _shards(index)
        return Repository(
            repo_id=info.id,
            commit=commit,
            files=files,
            config=config,
            config_error=config_error,
            weights=_weights(api, info, files, index, config or {}, deadline),
            shards=shards,
            weight_digests=_weight_digests(info, shards or {WEIGHTS}),
            card=vars(info.card_data) if isinstance(info.card_data, ModelCardData) else {},
            tags=frozenset(tag for tag in info.tags or () if isinstance(tag, str)),
            chat_template=_chat_template(info, files, deadline, thorough),
        )


def _model_info(api: HfApi, asked: Asked, deadline: Deadline) -> ModelInfo:
    try:
        info = api.model_info(
            asked.repo_id,
            revision=asked.revision,
            files_metadata=True,
            timeout=deadline.left(),
        )
    except GatedRepoError:
        raise Refused([hub_trouble.gated(asked.repo_id)]) from None
    except RepositoryNotFoundError:
        raise Refused([_not_found(api, asked.repo_id, deadline)]) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise hub_trouble.no_sense(error) from error
    if info.gated:
        raise Refused([hub_trouble.gated(info.id)])
    if info.private:
        raise Refused([hub_trouble.missing(info.id)])
    if info.disabled:
        raise Refused([hub_trouble.disabled(info.id)])
    if not re.fullmatch(r"[0-9a-f]{40}", info.sha or ""):
        raise hub_trouble.no_sense(ValueError(f"{info.sha!r} is no commit"))
    return info


def _not_found(api: HfApi, repo_id: str, deadline: Deadline) -> Problem:
    """Why there is no such model: perhaps the ID is that of a data set or a space."""
    for repo_type, kind in (("dataset", "data set"), ("space", "space")):
        try:
            api.repo_info(repo_id, repo_type=repo_type, timeout=deadline.left())
        except GatedRepoError:
            return other_repository(repo_id, kind)
        except RepositoryNotFoundError:
            continue
        return other_repository(repo_id, kind)
    return hub_trouble.missing(repo_id)


def _read_file(repo_id: str, commit: str, name: str, limit: int, deadline: Deadline) -> bytes:
    """A small file, read without a cache; one byte more than `limit` where it is too large."""
    url = hf_hub_url(repo_id, name, revision=commit, endpoint=settings.HF_ENDPOINT)
    headers = build_hf_headers(token=False)
    content = b""
    with get_session().stream("GET", url, headers=headers, timeout=deadline.left()) as response:
        hf_raise_for_status(response)
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > limit:
                break
            deadline.left()
    return content[: limit + 1]


def _parse_object(text: bytes, limit: int) -> tuple[dict[str, Any] | None, str]:
    if len(text) > limit:
        return None, f"it is larger than {limit:,} bytes"
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, str(error) or "it is not JSON"
    if not isinstance(config, dict):
        return None, f"a JSON object was expected, not {type(config).__name__}"
    return config, ""


def _index(info: ModelInfo, files: frozenset[str], deadline: Deadline) -> dict[str, Any]:
    """The index of the shards; empty where there is none, or none that can be read."""
    if WEIGHTS in files or INDEX not in files:
        return {}
    try:
        index = json.loads(_read_file(info.id, str(info.sha), INDEX, MAX_INDEX_BYTES, deadline))
    except (ValueError, RecursionError):
        return {}
    return index if isinstance(index, dict) else {}


def _shards(index: dict[str, Any]) -> frozenset[str]:
    weight_map = index.get("weight_map")
    return frozenset(map(str, weight_map.values())) if isinstance(weight_map, dict) else frozenset()


def _weight_digests(info: ModelInfo, names: Collection[str]) -> tuple[str, ...]:
    lfs = {sibling.rfilename: sibling.lfs for sibling in info.siblings or ()}
    digests = [found.sha256 for name in names if (found := lfs.get(name))]
    return tuple(sorted(digests)) if len(digests) == len(names) else ()


def _chat_template(
    info: ModelInfo, files: frozenset[str], deadline: Deadline, thorough: bool
) -> str | None:
    """As the Hub repeats it, else from the file that transformers would take it from."""
    told = info.config if isinstance(info.config, dict) else {}
    template = told.get("chat_template_jinja") or _template_in(told.get("tokenizer_config"))
    if isinstance(template, str) and template:
        return template
    if not thorough:
        return None
    commit = str(info.sha)
    if TEMPLATE in files:
        text = _read_file(info.id, commit, TEMPLATE, MAX_TOKENIZER_BYTES, deadline)
        return text.decode(errors="replace")
    if TOKENIZER in files:
        text = _read_file(info.id, commit, TOKENIZER, MAX_TOKENIZER_BYTES, deadline)
        return _template_in(_parse_object(text, MAX_TOKENIZER_BYTES)[0])
    return ""


def _template_in(tokenizer: object) -> str:
    """Of several named templates the one called default, else all of them."""
    template = tokenizer.get("chat_template") if isinstance(tokenizer, dict) else None
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default") or json.dumps(template, sort_keys=True)
    return template if isinstance(template, str) else ""


def _weights(
    api: HfApi,
    info: ModelInfo,
    files: frozenset[str],
    index: dict[str, Any],
    config: dict[str, Any],
    deadline: Deadline,
) -> Weights | None:
    """How many parameters: from the Hub's count, the file's header, or the index's total size."""
    if info.safetensors is not None and info.safetensors.total:
        return Weights(info.safetensors.total, info.safetensors.parameters)
    if WEIGHTS not in files:
        return _weights_from_index(index, config)
    try:
        header = api.parse_safetensors_file_metadata(
            info.id, WEIGHTS, revision=info.sha, timeout=deadline.left()
        )
    except SafetensorsParsingError:
        return None
    except HfHubHTTPError as error:
        # An empty file has no first byte: the range that was asked for cannot be served.
        if error.response.status_code == 416:
            return Weights(0, {})
        raise
    by_dtype = {str(name): count for name, count in header.parameter_count.items()}
    return Weights(sum(by_dtype.values()), by_dtype)


def _weights_from_index(index: dict[str, Any], config: dict[str, Any]) -> Weights | None:
    bytes_each = {"float32": 4, "bfloat16": 2, "float16": 2}.get(dtype_in(config))
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if bytes_each is None or not isinstance(total, int | float):
        return None
    # Also false where JSON says NaN or Infinity.
    if not bytes_each <= total < MAX_WEIGHT_BYTES:
        return None
    return Weights(int(total) // bytes_each, {})


def dtype_in(config: dict[str, Any]) -> str:
    """The precision that a config.json names, in its newer or its older key; else empty."""
    return str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")
