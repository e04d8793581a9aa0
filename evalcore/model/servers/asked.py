"""Requests whose prompt is sent as it is written: as a text, or as messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Mode, Request
from evalcore.model.hf.reading import Reader
from evalcore.model.writing.generation import LIMITS, GenerationRequest, RollingRequest, plan_of

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


class SentTexts:
    """Makes texts of encoded requests, for a server that reads them as our tokenizer does.

    A text is sent only where it is read as just the tokens of the request: what is cut, or begins
    within a text, is written as its tokens spell it, which not every row of tokens is read from.
    """

    def __init__(self, reader: Reader) -> None:
        """The server puts a BOS before every text where our tokenizer does; that was tried."""
        self._tokenizer = reader.tokenizer
        bos = self._tokenizer.bos_token_id
        self._begun_by = [bos] if bos is not None and reader.encoder.text("a")[:1] == [bos] else []
        prefix = reader.encoder.prefix_token
        self._prefix = prefix, self._spelled([prefix])

    def of(self, request: Request, encoded: EncodedRequest) -> EncodedRequest:
        """Raises ModelError for what no text is read as."""
        if isinstance(encoded, RollingRequest):
            windows = (self._scored(one, self._spelled(_whole(one))) for one in encoded.windows)
            return replace(encoded, windows=tuple(windows))
        if isinstance(encoded, GenerationRequest):
            tokens, text = encoded.tokens, request.context or self._prefix[1]
            sent = self._sent(self._spelled(tokens) if encoded.n_truncated else text, tokens)
            return Prompted(**{name: getattr(encoded, name) for name in _FIELDS}, prompt=sent)
        text = request.context + request.continuation
        if not request.context and encoded.tokens[:1] == self._prefix[:1]:
            text = self._prefix[1] + request.continuation.removeprefix(self._prefix[1])
        return self._scored(
            encoded, self._spelled(_whole(encoded)) if encoded.n_truncated else text
        )

    def _scored(self, encoded: EncodedRequest, text: str) -> ScoredText:
        return ScoredText(
            key=encoded.key,
            tokens=encoded.tokens,
            targets=encoded.targets,
            n_context_tokens=encoded.n_context_tokens,
            n_truncated=encoded.n_truncated,
            text=self._sent(text, _whole(encoded)),
        )

    def _spelled(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode([*tokens], clean_up_tokenization_spaces=False))

    def _sent(self, text: str, tokens: Sequence[int]) -> str:
        """The text, without the BOS that the server puts before it. Raises ModelError where it
        would not be read as the tokens."""
        begun_by = self._begun_by
        sent = text.removeprefix(self._tokenizer.bos_token) if begun_by else text
        read = [*begun_by, *self._tokenizer(sent, add_special_tokens=False)["input_ids"]]
        if read != [*tokens]:
            why = (
                "the server puts a BOS before every text, and this one begins within another"
                if begun_by and read[1:] == [*tokens]
                else f"the text of its tokens ({sent[:40]!r} …) is read as other tokens"
            )
            raise ModelError(
                f"a prompt cannot be sent as a text, as tokenized_requests=False has it: {why}: "
                "leave it out, or take fewer examples or shorter texts"
            )
        return sent


def _whole(request: EncodedRequest) -> tuple[int, ...]:
    """What a server is sent of a loglikelihood: also the last token."""
    return (*request.tokens, *request.targets[-1:])


_FIELDS = ("key", "tokens", "targets", "n_context_tokens", "n_truncated", "plan")


def check_kinds(requests: Sequence[Request], backend: str) -> None:
    """Raises ModelError where something else than a generation is asked of who only writes."""
    if any(request.kind != "generate_until" for request in requests):
        raise ModelError(
            f"{backend} answers no loglikelihood request here: choose tasks that generate (the "
            "style `generate`)"
        )
