"""What the Hub says of a model: metadata and two small files, never code, never weights.

One deadline covers all requests of a reading. Requests carry no token: what an anonymous visitor
of the Hub cannot read is not evaluated.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
from django.conf import settings
from huggingface_hub import HfApi, ModelInfo, hf_hub_url
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
    parse_ratelimit_headers,
)

from leaderboard.model_id import Asked, other_repository
from leaderboard.problem import Problem, Refused

MAX_CONFIG_BYTES = 2**20
MAX_INDEX_BYTES = 32 * 2**20
MAX_WEIGHT_BYTES = 2**60
MAX_READINGS = 16
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
STORED_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}

_free_readings = threading.BoundedSemaphore(MAX_READINGS)
Answer = TypeVar("Answer")


class HubSilent(Exception):
    """The Hub gave no usable answer: nothing is known of the model."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        self.problem = Problem("model", code, message, remedy)
        super().__init__(str(self.problem))


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
    licence: str


class Deadline:
    """A point in time that several requests share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left. Raises HubSilent where none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise _too_slow(self.seconds)
        return left


def read_repository(asked: Asked, seconds: float) -> Repository:
    """The repository that was asked for, read within so many seconds.

    Raises Refused (missing, private, gated, disabled, no model, no such revision) and HubSilent.
    """
    deadline = Deadline(seconds)
    return _within(deadline, lambda: _read(asked, deadline))


def _read(asked: Asked, deadline: Deadline) -> Repository:
    api = HfApi(endpoint=settings.HF_ENDPOINT, token=False)
    with _complaints(asked, deadline):
        info = _model_info(api, asked, deadline)
        files = frozenset(sibling.rfilename for sibling in info.siblings or ())
        commit = str(info.sha)
        config, config_error = None, ""
        if CONFIG in files:
            text = _read_file(info.id, commit, CONFIG, MAX_CONFIG_BYTES, deadline)
            config, config_error = _parse_config(text)
        index = _index(info, files, deadline)
        return Repository(
            repo_id=info.id,
            commit=commit,
            files=files,
            config=config,
            config_error=config_error,
            weights=_weights(api, info, files, index, config or {}, deadline),
            shards=_shards(index),
            licence=str(info.card_data.get("license") or "")[:100] if info.card_data else "",
        )


def _model_info(api: HfApi, asked: Asked, deadline: Deadline) -> ModelInfo:
    try:
        info = api.model_info(asked.repo_id, revision=asked.revision, timeout=deadline.left())
    except GatedRepoError:
        raise Refused([_gated(asked.repo_id)]) from None
    except RepositoryNotFoundError:
        raise Refused([_not_found(api, asked.repo_id, deadline)]) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_sense(error) from error
    if info.gated:
        raise Refused([_gated(info.id)])
    if info.private:
        raise Refused([_missing(info.id)])
    if info.disabled:
        raise Refused([_disabled(info.id)])
    if not re.fullmatch(r"[0-9a-f]{40}", info.sha or ""):
        raise _no_sense(ValueError(f"{info.sha!r} is no commit"))
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
    return _missing(repo_id)


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


def _parse_config(text: bytes) -> tuple[dict[str, Any] | None, str]:
    if len(text) > MAX_CONFIG_BYTES:
        return None, f"it is larger than {MAX_CONFIG_BYTES:,} bytes"
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


@contextmanager
def _complaints(asked: Asked, deadline: Deadline) -> Iterator[None]:
    """The client's errors as what they mean to the submitter."""
    try:
        yield
    except GatedRepoError:
        raise Refused([_gated(asked.repo_id)]) from None
    except RepositoryNotFoundError:
        raise Refused([_missing(asked.repo_id)]) from None
    except RevisionNotFoundError:
        raise Refused([_no_revision(asked)]) from None
    except DisabledRepoError:
        raise Refused([_disabled(asked.repo_id)]) from None
    except RemoteEntryNotFoundError as error:
        raise _no_sense(error) from error
    except HfHubHTTPError as error:
        raise _answered_with(error) from error
    except httpx2.TimeoutException as error:
        raise _too_slow(deadline.seconds) from error
    except (httpx2.HTTPError, OfflineModeIsEnabled) as error:
        raise HubSilent(
            "hub_down",
            f"The Hub at {settings.HF_ENDPOINT} cannot be reached ({error}).",
            "Try again in a few minutes.",
        ) from error


def _within(deadline: Deadline, question: Callable[[], Answer]) -> Answer:
    """Ask in a thread of its own: a time limit of a request does not end a trickling answer."""
    if not _free_readings.acquire(timeout=deadline.left()):
        raise _too_slow(deadline.seconds)
    future: Future[Answer] = Future()

    def ask() -> None:
        try:
            future.set_result(question())
        except BaseException as error:
            future.set_exception(error)
        finally:
            _free_readings.release()

    threading.Thread(target=ask, name="hub", daemon=True).start()
    try:
        return future.result(timeout=deadline.left())
    except TimeoutError:
        raise _too_slow(deadline.seconds) from None


def _missing(repo_id: str) -> Problem:
    return Problem(
        "model",
        "unknown_model",
        f"There is no model {repo_id} on the Hub, or it is private.",
        "Check the spelling on its page; a private model has to be made public first.",
    )


def _gated(repo_id: str) -> Problem:
    return Problem(
        "model",
        "gated",
        f"{repo_id} is gated: its files are only for people whom its authors have let in.",
        "Submit a model that anyone can download, so that others can check the scores.",
    )


def _disabled(repo_id: str) -> Problem:
    return Problem(
        "model",
        "disabled",
        f"The Hub has disabled {repo_id}.",
        "Its authors can ask the Hub why; submit another model.",
    )


def _no_revision(asked: Asked) -> Problem:
    return Problem(
        "revision",
        "unknown_revision",
        f"{asked.repo_id} has no branch, tag or commit “{asked.revision}”.",
        "Leave the field empty for the main branch, or copy the name from the model's page.",
    )


def _too_slow(seconds: float) -> HubSilent:
    return HubSilent(
        "hub_slow", f"The Hub did not answer within {seconds:g} s.", "Try again in a minute."
    )


def _no_sense(error: Exception) -> HubSilent:
    return HubSilent(
        "hub_error",
        f"The Hub's answer could not be read ({type(error).__name__}: {str(error)[:200]}).",
        "Try again in a few minutes.",
    )


def _answered_with(error: HfHubHTTPError) -> HubSilent:
    status = error.response.status_code
    if status != 429:
        return HubSilent(
            "hub_error",
            f"The Hub answered with an error ({status}).",
            "Try again in a few minutes.",
        )
    limit = parse_ratelimit_headers(error.response.headers)
    wait = f"{limit.reset_in_seconds} s" if limit else "a minute"
    return HubSilent(
        "hub_busy", "The Hub takes no more requests from us for now (429).", f"Try again in {wait}."
    )
