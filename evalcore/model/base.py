"""What the engine asks of a language model, and what it gets back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from evalcore.digest import digest_of

SCORING_VERSION = 1
"""Raised when the same request would be given another number by a change of ours."""

RequestKind = Literal["loglikelihood"]


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the model: how likely is `continuation` after `context`?"""

    kind: RequestKind
    context: str
    continuation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """A request as the model reads it.

    `tokens` is what is fed (context and continuation without the last token, cut from the left to
    the model's length); the last `len(targets)` positions predict `targets`.
    """

    key: str
    tokens: tuple[int, ...]
    targets: tuple[int, ...]
    n_context_tokens: int
    n_truncated: int

    @staticmethod
    def key_of(tokens: Sequence[int], targets: Sequence[int]) -> str:
        """SHA-256 of everything in the request that can change its answer."""
        return digest_of(
            {"kind": "loglikelihood", "tokens": list(tokens), "targets": list(targets)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The model's answer to one request; loglikelihoods in nats."""

    key: str
    kind: RequestKind
    loglikelihood: float
    is_greedy: bool
    token_ids: tuple[int, ...]
    token_logprobs: tuple[float, ...]
    n_context_tokens: int
    n_truncated: int
    text: str | None = None
    finish_reason: Literal["stop", "eos", "length"] | None = None
    path: Literal["packed", "shared", "plain"] = "plain"


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The pins of a loaded model."""

    repository: str
    commit: str | None
    """Commit of the Hub repository; None for a local folder, whose weights nobody can fetch."""
    files_digest: str | None
    """SHA-256 of a local folder's configuration and weights; None where a commit names them."""
    architecture: str
    parameters: int
    dtype: str
    max_length: int
    tokenizer_digest: str
    bos_policy: str
    """Which special tokens the tokenizer adds: its own default, always or never."""
    prefix_token: int
    """Token that stands for an empty context (BOS, else EOS)."""
    truncation_policy: str = "left"
    softmax_dtype: str = "float32"
    adapter: str | None = None
    quantisation: str | None = None
    special_tokens: Mapping[str, tuple[str, int] | None] = field(default_factory=dict)
    """Text and id of bos, eos and pad, as the tokenizer names them."""
    device: str = "cpu"

    @property
    def model_key(self) -> str:
        """SHA-256 of what makes this model's answers its own (not of where it runs)."""
        own = asdict(self)
        for pin in ("architecture", "parameters", "special_tokens", "device"):
            del own[pin]
        return digest_of({**own, "scoring_version": SCORING_VERSION})

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "model_key": self.model_key}


class LM(Protocol):
    """A model that scores continuations."""

    @property
    def info(self) -> ModelInfo: ...

    def encode(self, requests: Sequence[Request]) -> list[EncodedRequest]:
        """Requests as token ids, in the order given. Raises ModelError for what it cannot read."""
        ...

    def answer(self, requests: Sequence[EncodedRequest]) -> Iterator[list[tuple[int, Response]]]:
        """Answers in packs as they are computed, each with its index in `requests`."""
        ...
