"""What the Hub says of a model: metadata and a few small files, never code, never weights.

One deadline covers all requests of a reading. Requests carry no token: what an anonymous visitor
of the Hub cannot read is not evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.conf import settings
from huggingface_hub import HfApi, ModelInfo, hf_hub_url
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
)

from leaderboard.hub import cleaning, trouble, unknown
from leaderboard.hub import weights as hub_weights
from leaderboard.hub.answer import Answer, answer_of, repo_id_of
from leaderboard.hub.model_id import Asked, other_repository
from leaderboard.hub.trouble import Deadline, HubSilent
from leaderboard.hub.weights import Weights
from leaderboard.web import Problem, Refused

MAX_CONFIG_BYTES = 2**20
MAX_TOKENIZER_BYTES = 16 * 2**20
MAX_INDEX_BYTES = 32 * 2**20
LONGEST_TEMPLATE = 2**20
MOST_SHARDS, LONGEST_NAME = 10_000, 255
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TEMPLATE, TOKENIZER = "chat_template.jinja", "tokenizer_config.json"
NAMED_TEMPLATES = "additional_chat_templates/"
HEADS_AT_ONCE = 8
STORED_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


@dataclass(frozen=True, kw_only=True)
class Repository(Answer):
    """A model repository at one commit: what the Hub says of it, and what its files say."""

    config: dict[str, Any] | None
    """config.json; None where there is none."""
    config_error: str
    """Why config.json, or that of an adapter, cannot be read; empty where it can."""
    adapter_config: dict[str, Any] | None
    """adapter_config.json of a repository that has no whole model; else None."""
    shards: frozenset[str]
    """The files that the index of the weights names; empty where there is no index."""
    counted: Weights | None
    """How many parameters the Hub itself counts; None where it says nothing."""
    heads: Mapping[str, Weights]
    """What the head of each file of weights says of it; empty where there are too many."""
    weight_digests: tuple[str, ...]
    """SHA-256 of each file of the weights; empty where the Hub does not tell all."""
    chat_template: str | None
    """The text of it, empty for none; None where nobody looked."""
    template_names: tuple[str, ...]
    """Of several templates without a default one; empty where there is one, or none at all."""

    @property
    def files(self) -> frozenset[str]:
        return frozenset(self.sizes)

    @property
    def is_adapter(self) -> bool:
        """Whether it holds what is put on a model, and no model."""
        return _is_adapter(self)

    @property
    def licence(self) -> str:
        """As the card names it, several of them by commas; empty where it does not.

        In small letters and in order, so that the same licences are written alike; of one that the
        Hub has no word for ("other") the name that the card gives it.
        """
        stated, own_name = self.card.get("license"), self.card.get("license_name")
        names = stated if isinstance(stated, list) else [stated]
        words = {name.strip().lower() for name in names if isinstance(name, str)}
        if isinstance(own_name, str) and own_name.strip():
            words = (words - {"other"}) | {own_name.strip().lower()}
        return ", ".join(sorted(word.replace(",", " ") for word in words if word))

    @property
    def weight_files(self) -> frozenset[str]:
        return _weight_files(self, self.shards)


def _is_adapter(answer: Answer) -> bool:
    return ADAPTER_CONFIG in answer.sizes and not {WEIGHTS, INDEX} & answer.sizes.keys()


def _weight_files(answer: Answer, shards: frozenset[str]) -> frozenset[str]:
    if _is_adapter(answer):
        return frozenset({ADAPTER_WEIGHTS})
    return shards or frozenset({WEIGHTS})


def read_repository(asked: Asked, seconds: float, *, thorough: bool = False) -> Repository:
    """The repository that was asked for, read within so many seconds.

    Looks for the chat template in files only where `thorough`. Raises Refused (missing, private,
    gated, disabled, no model, no such revision) and HubSilent.
    """
    unknown.refuse(asked.repo_id)
    deadline = Deadline(seconds)
    try:
        return trouble.within(deadline, lambda: _read(asked, deadline, thorough))
    except Refused as refused:
        unknown.note(asked.repo_id, refused)
        raise


def _read(asked: Asked, deadline: Deadline, thorough: bool) -> Repository:
    api = HfApi(endpoint=settings.HF_ENDPOINT, token=False)
    with trouble.complaints(asked, deadline):
        answer = _answer(api, asked, deadline)
        config, config_error = _json(answer, CONFIG, deadline)
        adapter_config = None
        if _is_adapter(answer):
            adapter_config, config_error = _json(answer, ADAPTER_CONFIG, deadline)
        index = _index(answer, deadline)
        shards = _shards(index)
        weights, heads = _weights(answer, index, config or {}, deadline)
        template, template_names = _chat_template(answer, deadline, thorough)
        return Repository(
            **{**vars(answer), "weights": weights},
            config=config,
            config_error=config_error,
            adapter_config=adapter_config,
            shards=shards,
            counted=answer.weights,
            heads=heads,
            weight_digests=_weight_digests(answer, _weight_files(answer, shards)),
            chat_template=template,
            template_names=template_names,
        )


def _json(answer: Answer, name: str, deadline: Deadline) -> tuple[dict[str, Any] | None, str]:
    """The object in a small file, and why there is none; both empty where there is no file."""
    if name not in answer.sizes:
        return None, ""
    text = _read_file(answer, name, MAX_CONFIG_BYTES, deadline)
    return cleaning.json_object(text, MAX_CONFIG_BYTES)


def _answer(api: HfApi, asked: Asked, deadline: Deadline) -> Answer:
    try:
        info, card = _info_and_card(asked, deadline)
    except GatedRepoError:
        raise Refused(trouble.gated(asked.repo_id)) from None
    except RepositoryNotFoundError:
        raise Refused(_not_found(api, asked.repo_id, deadline)) from None
    answer = answer_of(info, card, LONGEST_TEMPLATE)
    if info.gated:
        raise Refused(trouble.gated(answer.repo_id))
    if info.private:
        raise Refused(trouble.missing(answer.repo_id))
    if info.disabled:
        raise Refused(trouble.disabled(answer.repo_id))
    return answer


def _info_and_card(asked: Asked, deadline: Deadline) -> tuple[ModelInfo, object]:
    """What `HfApi.model_info` asks, the card as it is: the client has a class that not all fit."""
    at = f"/revision/{quote(asked.revision, safe='')}" if asked.revision else ""
    response = get_session().get(
        f"{settings.HF_ENDPOINT}/api/models/{asked.repo_id}{at}",
        params={"blobs": True},
        headers=build_hf_headers(token=False),
        timeout=deadline.left(),
    )
    hf_raise_for_status(response)
    told = response.json()
    card = told.pop("cardData", None)
    return ModelInfo(**told), card  # type: ignore[no-untyped-call]


def _not_found(api: HfApi, repo_id: str, deadline: Deadline) -> Problem:
    """Why there is no such model: its owner is missing, or it is a data set or a space."""
    if "/" not in repo_id:
        return trouble.no_owner(repo_id, called(repo_id, deadline.left() / 2))
    for repo_type, kind in (("dataset", "data set"), ("space", "space")):
        try:
            api.repo_info(repo_id, repo_type=repo_type, timeout=deadline.left())
        except GatedRepoError:
            return other_repository(repo_id, kind)
        except RepositoryNotFoundError:
            continue
        return other_repository(repo_id, kind)
    return trouble.missing(repo_id)


def _read_file(answer: Answer, name: str, limit: int, deadline: Deadline) -> bytes:
    """A small file, read without a cache; one byte more than `limit` where it is too large."""
    return _first_bytes(answer, name, limit + 1, deadline, {})


def _head(answer: Answer, name: str, n_bytes: int, deadline: Deadline) -> bytes:
    """The beginning of a large file, of which nothing else is sent."""
    headers = {"Range": f"bytes=0-{n_bytes - 1}", "Accept-Encoding": "identity"}
    return _first_bytes(answer, name, n_bytes, deadline, headers)


def _first_bytes(
    answer: Answer, name: str, n_bytes: int, deadline: Deadline, headers: Mapping[str, str]
) -> bytes:
    """At most so many; nothing of an empty file."""
    url = hf_hub_url(answer.repo_id, name, revision=answer.commit, endpoint=settings.HF_ENDPOINT)
    every = {**build_hf_headers(token=False), **headers}
    content = bytearray()
    with get_session().stream("GET", url, headers=every, timeout=deadline.left()) as response:
        # An empty file has no first byte: the range that was asked for cannot be served.
        if response.status_code == 416:
            return b""
        hf_raise_for_status(response)
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) >= n_bytes:
                break
            deadline.left()
    return bytes(content[:n_bytes])


def _index(answer: Answer, deadline: Deadline) -> dict[str, Any]:
    """The index of the shards; empty where there is none, or none that can be read."""
    if WEIGHTS in answer.sizes or INDEX not in answer.sizes:
        return {}
    content = _read_file(answer, INDEX, MAX_INDEX_BYTES, deadline)
    return cleaning.json_object(content, MAX_INDEX_BYTES)[0] or {}


def _shards(index: dict[str, Any]) -> frozenset[str]:
    weight_map = index.get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else ()
    # What is no text is no file's name: it stands as one that the repository does not have.
    return frozenset(sorted({str(name)[:LONGEST_NAME] for name in names})[:MOST_SHARDS])


def _weight_digests(answer: Answer, names: Collection[str]) -> tuple[str, ...]:
    digests = [answer.digests[name] for name in names if name in answer.digests]
    return tuple(sorted(digests)) if len(digests) == len(names) else ()


def _chat_template(
    answer: Answer, deadline: Deadline, thorough: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The one that transformers takes without being told a name, None where nobody looked; and the
    names of several of which none is the default.

    Where there are files of templates, what the tokenizer's configuration says is passed over.
    """
    told, files = answer.repeated, _template_files(answer)
    if files and "default" not in files:
        return "", tuple(sorted(files))
    if files:
        known = told.get("chat_template_jinja") if files["default"] == TEMPLATE else None
        if isinstance(known, str) and known:
            return known, ()
        if not thorough:
            return None, ()
        content = _read_file(answer, files["default"], MAX_TOKENIZER_BYTES, deadline)
        return cleaning.text(content.decode(errors="replace"), LONGEST_TEMPLATE), ()
    stated = told.get("tokenizer_config")
    if not _template_in(stated)[0]:
        if not thorough:
            return None, ()
        if TOKENIZER not in answer.sizes:
            return "", ()
        content = _read_file(answer, TOKENIZER, MAX_TOKENIZER_BYTES, deadline)
        stated = cleaning.json_object(content, MAX_TOKENIZER_BYTES, LONGEST_TEMPLATE)[0]
    return _template_in(stated)


def _template_files(answer: Answer) -> dict[str, str]:
    """By name the files of templates; a default one among the named comes before the other."""
    files = {"default": TEMPLATE} if TEMPLATE in answer.sizes else {}
    for path in answer.sizes:
        name = path.removeprefix(NAMED_TEMPLATES).removesuffix(".jinja")
        if path == f"{NAMED_TEMPLATES}{name}.jinja" and "/" not in name:
            files[name] = path
    return files


def _template_in(tokenizer: object) -> tuple[str, tuple[str, ...]]:
    """Of several named templates the one called default, else all of them, and their names."""
    template = tokenizer.get("chat_template") if isinstance(tokenizer, dict) else None
    if not isinstance(template, list):
        return template if isinstance(template, str) else "", ()
    named = {
        choice["name"]: choice.get("template")
        for choice in template
        if isinstance(choice, dict) and isinstance(choice.get("name"), str)
    }
    default = named.get("default")
    if isinstance(default, str) and default:
        return default, ()
    return json.dumps(template, sort_keys=True), tuple(sorted(named))


def _weights(
    answer: Answer, index: dict[str, Any], config: dict[str, Any], deadline: Deadline
) -> tuple[Weights | None, dict[str, Weights]]:
    """How many parameters, by the heads of the files, and these heads.

    Of very many files by the Hub's count or the index's total size, where the files can hold that.
    """
    names = _weight_files(answer, _shards(index))
    if not names or not names <= answer.sizes.keys():
        return None, {}
    if len(names) > hub_weights.MOST_HEADS:
        sizes = [answer.sizes[name] for name in names]
        held = sum(size for size in sizes if size is not None)
        tensors = len(index.get("weight_map", ()))
        for counted in (answer.weights, hub_weights.from_index(index, dtype_in(config))):
            if counted is not None and counted.fits(held, tensors):
                return counted, {}
    with ThreadPoolExecutor(HEADS_AT_ONCE) as pool:
        found = pool.map(
            lambda name: hub_weights.in_head(lambda n: _head(answer, name, n, deadline)), names
        )
        heads = dict(zip(names, found, strict=True))
    known = {name: head for name, head in heads.items() if head is not None}
    return hub_weights.together(heads.values()), known


def dtype_in(config: dict[str, Any]) -> str:
    """The precision that a config.json names, in its newer or its older key; else empty."""
    named = config.get("dtype") or config.get("torch_dtype")
    return named.removeprefix("torch.") if isinstance(named, str) else ""


MOST = 5


def called(name: str, seconds: float) -> tuple[str, ...]:
    """The IDs of the most downloaded models with this in their name, found within so many seconds.

    Those called exactly so come first; no answer is as good as none.
    """
    try:
        found = trouble.within(Deadline(seconds), lambda: _search(name, Deadline(seconds)))
    except (HubSilent, Refused):
        return ()
    return tuple(
        sorted(found, key=lambda repo_id: repo_id.partition("/")[2].lower() != name.lower())
    )


def _search(name: str, deadline: Deadline) -> list[str]:
    # Not by the client's own search, which asks again and again where the Hub is in trouble.
    with trouble.complaints(Asked(name, "main"), deadline):
        response = get_session().get(
            f"{settings.HF_ENDPOINT}/api/models",
            params={"search": name, "sort": "downloads", "limit": MOST},
            headers=build_hf_headers(token=False),
            timeout=deadline.left(),
        )
        hf_raise_for_status(response)
        found = [repo_id_of(model["id"]) for model in response.json()[:MOST]]
        return [repo_id for repo_id in found if "/" in repo_id]
