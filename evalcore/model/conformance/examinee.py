"""A backend under examination: how it is asked, what it is asked, how near is near enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from evalcore.model.base import LM, EncodedRequest, ModelInfo, Request, RequestKind, Response
from evalcore.model.capabilities import Capabilities
from evalcore.model.refusals import REFUSALS

Answer = tuple[EncodedRequest, Response]
Pair = tuple[float, float, str]
"""A loglikelihood that was found, the one that is expected, and what they are of."""

ABSOLUTE, RELATIVE = 1e-4, 1e-6
"""Nats, and share of a loglikelihood, by which two ways to compute it in float32 may differ."""

ABSOLUTE_HALF, RELATIVE_HALF = 5e-2, 1e-2
"""The same of a model in half precision, whose softmax may be in it, too (bfloat16: 8 bits)."""

CONTEXTS = (
    "Question: Which of these is made of wood?\nAnswer:",
    "The capital of France is",
    "2 + 2 =",
    "Question: Which of these is made of wood?\nAnswer: a table\n\n"
    "Question: Which is wet?\nAnswer:",
)
CONTINUATIONS = (" a table", " a river of some length", " Paris", " été 🙂")
SCORED = (
    *(
        Request("loglikelihood", context, continuation)
        for context in CONTEXTS
        for continuation in CONTINUATIONS
    ),
    Request("loglikelihood", "The answer is ", "4"),
)
"""Contexts that several continuations follow, contexts that begin alike, a space at the end."""

WORD, NEW_TOKENS = " table", 12


class Reference(Protocol):
    """The same model by other means, which the answers of a backend are held to: asked one thing at
    a time, in the plainest way; no code that computes is the backend's."""

    def tokens(self, text: str) -> list[int]:
        """A whole text as the model's tokenizer reads it, with what it adds."""
        ...

    def teacher_forced(
        self, tokens: Sequence[int], targets: Sequence[int]
    ) -> tuple[list[float], bool]:
        """Log-probability of each target, of which the last positions of `tokens` predict one
        each, and whether each is the likeliest."""
        ...


@runtime_checkable
class Referenced(Protocol):
    """A model that brings its own reference."""

    @property
    def reference(self) -> Reference: ...


class Failed(Exception):
    """The backend does not do what it must."""


class NotAsked(Exception):
    """The check does not concern this backend, or cannot be made of it."""


def written(context: str, stops: Sequence[str] = (), tokens: int = NEW_TOKENS) -> Request:
    """A text of the likeliest tokens."""
    arguments: Mapping[str, Any] = {
        "until": list(stops),
        "max_gen_toks": tokens,
        "do_sample": False,
        "temperature": 0.0,
    }
    return Request("generate_until", context, generation=arguments)


class Examinee:
    """A model, and the ways to ask it that all checks share."""

    def __init__(self, model: LM, reference: Reference | None) -> None:
        self.model = model
        self.reference = reference
        self.can: Capabilities = model.capabilities

    @cached_property
    def info(self) -> ModelInfo:
        return self.model.info

    @cached_property
    def is_half(self) -> bool:
        return any(word in (self.info.dtype, self.info.softmax_dtype) for word in HALF)

    def needs(self, *kinds: RequestKind, tokens: bool = False) -> None:
        """Raises NotAsked where it does not answer these, or does not show its tokens."""
        for kind in kinds:
            if not REFUSALS[kind].met(self.can):
                raise NotAsked(f"it states that it answers no {kind} request")
        if tokens and not (self.can.tokens_in and self.can.tokens_out):
            raise NotAsked("it does not show its tokens")

    def known_reference(self) -> Reference:
        """Raises NotAsked where there is none."""
        if self.reference is None:
            raise NotAsked("there is no reference to hold it to")
        return self.reference

    def known_length(self) -> int:
        """How many tokens it reads. Raises NotAsked where it does not say."""
        if not self.can.max_length_known:
            raise NotAsked("it does not say how long a prompt may be")
        return self.info.max_length

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Each request with its answer. Raises Failed where one has none, or one of another."""
        return self.answers(self.model.encode(requests))

    def answers(self, encoded: Sequence[EncodedRequest]) -> list[Answer]:
        found: dict[int, Response] = {}
        for pack in self.model.answer(encoded):
            for place, response in pack:
                if place in found or not 0 <= place < len(encoded):
                    raise Failed(f"request {place} of {len(encoded)} is answered once too often")
                found[place] = response
        if missing := len(encoded) - len(found):
            raise Failed(f"{missing} of {len(encoded)} requests have no answer")
        for place, request in enumerate(encoded):
            if found[place].key != request.key:
                raise Failed(f"the answer to request {place} bears the key of another request")
        return [(request, found[place]) for place, request in enumerate(encoded)]

    def apart(self, pairs: Iterable[Pair]) -> str:
        """How far pairs of loglikelihoods are apart at most, in words.

        Raises Failed for one that is too far apart, or no number.
        """
        absolute, relative = (
            (ABSOLUTE_HALF, RELATIVE_HALF) if self.is_half else (ABSOLUTE, RELATIVE)
        )
        most, count = 0.0, 0
        for found, expected, what in pairs:
            distance = abs(found - expected)
            if not distance <= absolute + relative * abs(expected):
                raise Failed(f"{what}: {found:.6g}, expected {expected:.6g}")
            most, count = max(most, distance), count + 1
        return f"{count} numbers, apart by {most:.1e} nats at most"


def asked_of(
    examinee: Examinee, most_scored: int | None = None, most_written: int | None = None
) -> list[Request]:
    """A few requests of each kind that it answers. Raises NotAsked where there is none."""
    rolling = [Request("loglikelihood_rolling", "", context) for context in CONTEXTS]
    requests = [
        *(SCORED[:most_scored] if examinee.can.loglikelihood else ()),
        *(rolling if examinee.can.rolling else ()),
        *(map(written, CONTEXTS[:most_written]) if examinee.can.generate else ()),
    ]
    if not requests:
        raise NotAsked("it states that it answers nothing")
    return requests


HALF = ("bfloat16", "float16")


def shown(request: Request) -> str:
    """A request in a message."""
    if request.kind == "loglikelihood":
        return f"{request.continuation!r} after {request.context[-30:]!r}"
    return repr((request.context or request.continuation)[-40:])
