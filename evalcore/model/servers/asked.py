"""Requests whose prompt is sent as it is written: as a text, or as messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Mode, Request
from evalcore.model.writing.generation import LIMITS, GenerationRequest, plan_of

Prompt = str | list[dict[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText(EncodedRequest):
    """A loglikelihood whose context and continuation are sent as one text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted(GenerationRequest):
    """A generation whose prompt is sent as it is."""

    prompt: Prompt


def with_limit(request: Request, max_gen_toks: int | None) -> Request:
    """The request; where it does not say how long an answer may be, with what the caller says."""
    given = request.generation or {}
    if request.kind != "generate_until" or max_gen_toks is None or any(map(given.get, LIMITS)):
        return request
    return replace(request, generation={**given, LIMITS[0]: max_gen_toks})


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How generations are read where no tokenizer is at hand: their prompts are not."""

    eos: str | None
    think_end: str | None
    known: Collection[str]
    """Generation arguments that may be sent."""
    mode: Mode

    def of(self, request: Request, prompt: Prompt, *, seed: int) -> list[Prompted]:
        """Each as often as it is repeated. An answer that is not sampled has one key."""
        plan = plan_of(
            request.generation or {},
            eos=self.eos,
            think_end=self.think_end,
            known=self.known,
            mode=self.mode,
        )
        asked: dict[str, Any] = {
            "kind": "generate_until",
            "prompt": prompt,
            "plan": plan.as_json(),
        }
        drawn = [{"seed": seed, "repeat": repeat} for repeat in range(request.repeats)]
        return [
            Prompted(
                key=digest_of({**asked, **draw} if plan.sampled else asked),
                plan=plan,
                prompt=prompt,
            )
            for draw in drawn
        ]


@dataclass(frozen=True, kw_only=True)
class SentTexts:
    """Makes texts of encoded requests, for a server that reads them as our tokenizer did."""

    bos: str | None
    """Which the server puts before every text by itself; None where it puts none."""
    prefix: tuple[int, str]
    """What stands for an empty context."""

    def of(self, request: Request, encoded: EncodedRequest) -> EncodedRequest:
        """Raises ModelError for a prompt that is cut, which only tokens can be at just the place
        where it must be."""
        if encoded.n_truncated:
            raise ModelError(
                f"a prompt is {encoded.n_truncated} tokens too long, and a text cannot be cut at a "
                "token: leave tokenized_requests=False out, or take fewer examples"
            )
        if isinstance(encoded, GenerationRequest):
            return Prompted(
                **{name: getattr(encoded, name) for name in _FIELDS},
                prompt=self._sent(request.context or self.prefix[1]),
            )
        text = request.context + request.continuation
        if not request.context and encoded.tokens[:1] == self.prefix[:1]:
            text = self.prefix[1] + request.continuation.removeprefix(self.prefix[1])
        return ScoredText(
            key=encoded.key,
            tokens=encoded.tokens,
            targets=encoded.targets,
            n_context_tokens=encoded.n_context_tokens,
            text=self._sent(text),
        )

    def _sent(self, text: str) -> str:
        return text if self.bos is None else text.removeprefix(self.bos)


_FIELDS = ("key", "tokens", "targets", "n_context_tokens", "n_truncated", "plan")


def check_kinds(requests: Sequence[Request], backend: str) -> None:
    """Raises ModelError where something else than a generation is asked of who only writes."""
    if any(request.kind != "generate_until" for request in requests):
        raise ModelError(
            f"{backend} answers no loglikelihood request here: choose tasks that generate (the "
            "style `generate`)"
        )
