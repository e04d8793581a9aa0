"""Models that answer text with text or numbers and keep their tokens to themselves.

Whatever has the three methods of lm-evaluation-harness's `LM` class can be evaluated: an adapter
for a service, a model of one's own, a recorded table of answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any
from uuid import uuid4

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import Answers, ChatTemplate, EncodedRequest, ModelInfo, Request, Response
from evalcore.model.capabilities import Capabilities
from evalcore.model.media import digests_of, said_of
from evalcore.model.unsaid import unsaid

REQUESTS_PER_PACK = 512
"""Requests that such a model is given at once: what a crash can lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest(EncodedRequest):
    """A request that stays text, and which of its repeats it is."""

    request: Request
    repeat: int


def response_of(asked: TextRequest, answer: Any) -> Response:
    """A response from what lm-evaluation-harness's methods return for a request of that kind.

    The tokens of a text are its UTF-8 bytes. Raises ModelError for an answer of another form.
    """
    request = asked.request
    loglikelihood, is_greedy, text = 0.0, True, None
    match request.kind, answer:
        case "loglikelihood", (int() | float() as loglikelihood, is_greedy):
            pass
        case "loglikelihood_rolling", int() | float():
            loglikelihood = answer
        case "generate_until", str():
            text = answer
        case _:
            raise ModelError(
                f"its answer to a {request.kind} request is {answer!r}: expected "
                f"{EXPECTED[request.kind]}"
            )
    if loglikelihood != loglikelihood:
        raise ModelError(f"its answer to a {request.kind} request is not a number (NaN)")
    rolling = request.kind == "loglikelihood_rolling"
    images, sounds = said_of(request.media)
    return Response(
        key=asked.key,
        kind=request.kind,
        loglikelihood=float(loglikelihood),
        is_greedy=bool(is_greedy),
        token_ids=(),  # it has a tokenizer of its own, or none
        token_logprobs=(float(loglikelihood),) if rolling else (),
        n_context_tokens=0,
        n_truncated=0,
        text=text,
        finish_reason=None if text is None else "stop",
        images=images,
        sounds=sounds,
    )


EXPECTED = {
    "loglikelihood": "(loglikelihood, whether it is the greedy continuation)",
    "loglikelihood_rolling": "a loglikelihood",
    "generate_until": "a text",
}


@dataclass
class Instance:
    """A request under the names that lm-evaluation-harness gives its parts."""

    request_type: str
    doc: Mapping[str, Any] | None
    arguments: Any
    idx: int
    metadata: tuple[str | None, int | None, int | None] = (None, None, None)
    """The task's name, the document's row, and how often the model is asked."""
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)

    @property
    def task_name(self) -> str | None:
        return self.metadata[0]

    @property
    def doc_id(self) -> int | None:
        return self.metadata[1]

    @property
    def repeats(self) -> int | None:
        return self.metadata[2]

    @property
    def args(self) -> tuple[Any, ...]:
        return self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)


OF_TEXTS = partial(
    Capabilities, tokens_in=False, tokens_out=False, prompt_logprobs=False, greedy=None
)
"""What such a model can be asked, but for what it says itself."""


class TextBackend:
    """A model of which nothing is known but who it is."""

    def __init__(self, name: str, identity: str) -> None:
        """Two of the same `identity` share their answers in a journal."""
        self._name = name
        self._identity = identity

    @cached_property
    def info(self) -> ModelInfo:
        return ModelInfo(
            repository=self._name,
            commit=None,
            files_digest=digest_of(self._identity),
            architecture=self._name,
            parameters=0,
            dtype="unknown",
            max_length=2**31 - 1,
            tokenizer_digest=digest_of(self._identity),
            bos_policy="unknown",
            prefix_token=0,
        )

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Nobody can tell whether such a model samples, so each repeat of a generation is its
        own."""
        encoded: list[EncodedRequest] = []
        for request in requests:
            texts = replace(request, images=(), sounds=()).arguments
            asked: dict[str, Any] = {"kind": request.kind, "text": list(texts)}
            asked |= digests_of(request.media)
            for repeat in range(request.repeats):
                if request.kind == "generate_until":
                    asked |= {"seed": seed, "repeat": repeat}
                encoded.append(TextRequest(key=digest_of(asked), request=request, repeat=repeat))
        return encoded


class TextLM(TextBackend):
    """Any object with `loglikelihood`, `loglikelihood_rolling` and `generate_until`, or some."""

    def __init__(self, lm: Any) -> None:
        self._lm = lm
        name = type(lm).__name__
        # An object that does not say who it is shares its answers with nobody.
        super().__init__(name, str(getattr(lm, "model_identity", None) or f"{name}-{uuid4()}"))
        self.capabilities = OF_TEXTS(
            backend=self._name,
            loglikelihood=hasattr(lm, "loglikelihood"),
            rolling=hasattr(lm, "loglikelihood_rolling"),
            generate=hasattr(lm, "generate_until"),
            chat="text" if hasattr(lm, "apply_chat_template") else None,
            # lm-evaluation-harness's word for either.
            images=bool(getattr(lm, "MULTIMODAL", False)),
            sounds=bool(getattr(lm, "MULTIMODAL", False)),
            max_length_known=False,
        )

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError for a method that is not there, or an answer of the wrong form."""
        asked = [
            (i, request) for i, request in enumerate(requests) if isinstance(request, TextRequest)
        ]
        asked.sort(key=lambda pair: pair[1].request.kind)
        for kind, of_kind in groupby(asked, key=lambda pair: pair[1].request.kind):
            waiting = list(of_kind)
            for start in range(0, len(waiting), REQUESTS_PER_PACK):
                yield self._answer_pack(kind, waiting[start : start + REQUESTS_PER_PACK])

    def _answer_pack(
        self, kind: str, pack: Sequence[tuple[int, TextRequest]]
    ) -> list[tuple[int, Response]]:
        method = getattr(self._lm, kind, None)
        if method is None:
            raise ModelError(f"{self._name} has no method {kind}, which the task needs")
        once = (None, None, 1)
        asked = [Instance(kind, None, request.request.arguments, 0, once) for _, request in pack]
        answers = list(method(asked))
        if len(answers) != len(pack):
            raise ModelError(f"{self._name}.{kind} gave {len(answers)} answers to {len(pack)}")
        return [
            (index, response_of(request, answer))
            for (index, request), answer in zip(pack, answers, strict=True)
        ]

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        """Raises ModelError where the object cannot write a conversation."""
        apply = getattr(self._lm, "apply_chat_template", None)
        if apply is None:
            raise ModelError(f"{self._name} has no method apply_chat_template")

        left_out: Counter[str] = Counter()

        def render(messages: Sequence[Mapping[str, str]], answer_begins: bool) -> str:
            turns = [dict(message) for message in messages]
            written = str(apply(turns, add_generation_prompt=answer_begins))
            left_out.update(unsaid(messages, written))
            return written

        template = getattr(self._lm, "chat_template", None)
        text = template(name or True) if callable(template) else template
        return ChatTemplate(
            text=str(text or ""), name=name, render=render, left_out=lambda: dict(left_out)
        )
