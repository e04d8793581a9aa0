"""Models behind servers that complete a prompt: `local-completions` and `openai-completions`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Self

from evalcore.errors import ModelError
from evalcore.model.base import (
    Answers,
    ChatTemplate,
    EncodedRequest,
    Mode,
    ModelInfo,
    Request,
    Response,
)
from evalcore.model.capabilities import Capabilities
from evalcore.model.hf.whole_texts import scored
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.asked import (
    Prompted,
    ScoredText,
    SentTexts,
    Writing,
    check_kinds,
    with_limit,
)
from evalcore.model.servers.client import OPENAI
from evalcore.model.servers.identity import info_of, key_of, started
from evalcore.model.servers.probe import Findings, Probe
from evalcore.model.servers.reading import reader_of_server
from evalcore.model.servers.scoring import Manner
from evalcore.model.servers.served import choices_of
from evalcore.model.servers.writing import (
    OF_SERVERS,
    ending_of,
    payload_of,
    response_by_text,
    response_by_tokens,
)
from evalcore.model.writing.generation import GenerationRequest

WITHOUT_TOKENIZER: dict[str, Any] = {
    "loglikelihood": False,
    "rolling": False,
    "tokens_in": False,
    "tokens_out": False,
    "prompt_logprobs": False,
    "greedy": None,
    "chat": None,
    "max_length_known": False,
    "why_not": "without a tokenizer nobody can tell where a continuation begins: state "
    "tokenizer=ORG/NAME",
}
"""What is left of a model of which only texts are known."""


class LocalCompletions:
    """A model behind a server of OpenAI's interface for completions.

    With a tokenizer it is asked for loglikelihoods and texts, without one for texts alone.
    """

    default_url = ""
    example = "http://localhost:8000/v1/completions"
    """An address as it is stated."""
    needs_key = False
    variable = "OPENAI_API_KEY"
    dialect = OPENAI
    manners: Sequence[Manner] = ()
    """In which it says how likely a prompt is, where not in those of OpenAI's interface."""
    known: Collection[str] = OF_SERVERS
    """Generation arguments that it takes."""

    capabilities = Capabilities(
        backend="local-completions",
        loglikelihood=True,
        rolling=True,
        generate=True,
        tokens_in=True,
        tokens_out=True,
        prompt_logprobs=True,
        greedy="rank",
        chat="text",
        max_length_known=True,
    )

    def __init__(
        self,
        arguments: Arguments,
        *,
        batch_size: int | None = None,
        mode: Mode = "compat",
        weights: bool = True,
    ) -> None:
        """Meets the server and tries it (`probe`) before anything is asked of it.

        `batch_size`: prompts in one request, by default one. Without `weights` no server is asked
        anything. Raises ModelError for a server that is not what is stated, InfraError for one
        that is down.
        """
        backend = self.capabilities.backend
        secret = key_of(self.variable, backend, needed=self.needs_key and weights)
        url = arguments.base_url or self.default_url
        self._arguments = arguments
        self._batch_size = batch_size or 1
        self._service, self._served = started(
            arguments, url, secret, self.example, meets=weights, dialect=self.dialect
        )
        self._reader = (
            reader_of_server(arguments, self._served, mode, known=self.known, met=weights)
            if arguments.reads_tokens
            else None
        )
        self._writing = Writing(
            eos=arguments.eos_string,
            think_end=arguments.think_end_token,
            known=self.known,
            mode=mode,
        )
        self._findings = self._tried() if weights and self._reader else UNTRIED
        self.capabilities = self._capabilities()

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,  # noqa: ARG003  # the server's own matter
        mode: Mode = "compat",
        weights: bool = True,
    ) -> Self:
        return cls(Arguments.of(arguments), batch_size=batch_size, mode=mode, weights=weights)

    @classmethod
    def capabilities_of(cls, arguments: Mapping[str, Any]) -> Capabilities:
        """Before a server is asked anything."""
        if Arguments.of(arguments).reads_tokens:
            return cls.capabilities
        return replace(cls.capabilities, **WITHOUT_TOKENIZER)

    def _tried(self) -> Findings:
        assert self._reader is not None  # noqa: S101
        arguments = self._arguments
        tokenizer = arguments.tokenizer or arguments.model
        as_tokens = arguments.tokenized_requests
        return Probe(
            self._service, self._reader, tokenizer, as_tokens=as_tokens, manners=self.manners
        ).findings()

    def _capabilities(self) -> Capabilities:
        if self._reader is None:
            return replace(type(self).capabilities, **WITHOUT_TOKENIZER)
        found = self._findings
        scores = found.manner is not None or found is UNTRIED
        return replace(
            type(self).capabilities,
            loglikelihood=scores,
            rolling=scores,
            prompt_logprobs=scores,
            greedy="rank" if scores else None,
            tokens_in=self._arguments.tokenized_requests,
            tokens_out=found.shows_tokens,
            why_not=found.why_not,
        )

    @property
    def reads_ahead(self) -> bool:
        return self._reader is None or self._reader.reads_ahead

    @property
    def info(self) -> ModelInfo:
        pins = None if self._reader is None else self._reader.pins
        return info_of(self.capabilities.backend, self._arguments, self._served, pins)

    @property
    def execution(self) -> dict[str, Any]:
        """What the answers say that they are of, and how many requests were sent again."""
        how = self._service.execution
        manner = self._findings.manner
        scoring = {} if manner is None else {"loglikelihood": {**how, "path": manner.name}}
        return {**scoring, "generate_until": how}

    def token_texts(self, tokens: Sequence[int]) -> list[str | None]:
        return [None] * len(tokens) if self._reader is None else self._reader.token_texts(tokens)

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        if self._reader is None:
            raise ModelError("without a tokenizer there is no chat template: state tokenizer=…")
        return self._reader.chat_template(name)

    def encode(self, requests: Sequence[Request], *, seed: int = 1234) -> list[EncodedRequest]:
        """Raises ModelError also for what no text is read as, where texts are sent."""
        seed = seed if self._arguments.seed is None else self._arguments.seed
        stated = [with_limit(request, self._arguments.max_gen_toks) for request in requests]
        if self._reader is None:
            check_kinds(stated, self.capabilities.backend)
            return [
                encoded
                for request in stated
                for encoded in self._writing.of(request, request.context, seed=seed)
            ]
        found = self._reader.encode(stated, seed=seed)
        if self._arguments.tokenized_requests:
            return found
        each = [request for request in stated for _ in range(request.repeats)]
        sent = SentTexts(self._reader)
        return [sent.of(request, encoded) for request, encoded in zip(each, found, strict=True)]

    def answer(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises ModelError and InfraError by whose fault it is that there is no answer."""
        yield from scored(requests, self._score)
        writing = [
            (place, request)
            for place, request in enumerate(requests)
            if isinstance(request, GenerationRequest)
        ]
        yield from self._write(writing)

    def _score(self, requests: Sequence[EncodedRequest]) -> Answers:
        manner = self._findings.manner
        if not requests:
            return
        if manner is None:  # a task of one's own code may ask for them unannounced
            raise ModelError(f"it answers no loglikelihoods: {self._findings.why_not}")
        batches = [*_batches(range(len(requests)), self._batch_size)]

        def body(places: Sequence[int]) -> dict[str, Any]:
            asked = [requests[place] for place in places]
            starts = [len(_tokens(request)) - len(request.targets) for request in asked]
            return manner.body([_whole(request) for request in asked], starts)

        def read(batch: int, answer: Mapping[str, Any]) -> list[tuple[int, Response]]:
            asked = [(place, requests[place]) for place in batches[batch]]
            return [
                (place, _response(request, manner.read(choice, _tokens(request), len(targets))))
                for (place, request), choice in zip(
                    asked, choices_of(answer, len(asked)), strict=True
                )
                for targets in (request.targets,)
            ]

        for pack in self._service.ask_all(map(body, batches), read):
            yield [answered for _, answers in pack for answered in answers]

    def _write(self, requests: Sequence[tuple[int, GenerationRequest]]) -> Answers:
        """Texts that are asked for in the same way may share a request."""
        if not requests:
            return
        shows = {"return_token_ids": True} if self._findings.shows_tokens else {}
        payloads = [
            json.dumps({**payload_of(request.plan, request.torch_seed), **shows}, sort_keys=True)
            for _, request in requests
        ]
        alike = groupby(range(len(requests)), key=payloads.__getitem__)
        batches = [batch for _, same in alike for batch in _batches([*same], self._batch_size)]

        def body(places: Sequence[int]) -> dict[str, Any]:
            prompts = [_prompt(requests[place][1]) for place in places]
            payload: dict[str, Any] = json.loads(payloads[places[0]])
            return {"prompt": prompts if len(prompts) > 1 else prompts[0], **payload}

        def read(batch: int, answer: Mapping[str, Any]) -> list[tuple[int, Response]]:
            asked = [requests[place] for place in batches[batch]]
            return [
                (place, self._written(request, choice))
                for (place, request), choice in zip(
                    asked, choices_of(answer, len(asked)), strict=True
                )
            ]

        for pack in self._service.ask_all(map(body, batches), read):
            yield [answered for _, answers in pack for answered in answers]

    def _written(self, request: GenerationRequest, choice: Mapping[str, Any]) -> Response:
        if self._reader is None or not self._findings.shows_tokens:
            return response_by_text(request, choice.get("text"), ending_of(choice))
        tokenizer = self._reader.tokenizer
        ends = frozenset(filter(None, [tokenizer.eos_token_id]))
        return response_by_tokens(request, choice, tokenizer, ends)


class OpenAICompletions(LocalCompletions):
    """The same at OpenAI's own address."""

    default_url = "https://api.openai.com/v1/completions"
    needs_key = True
    capabilities = replace(LocalCompletions.capabilities, backend="openai-completions")


UNTRIED = Findings(shows_tokens=False, manner=None)


def _whole(request: EncodedRequest) -> str | list[int]:
    """A loglikelihood as it is sent."""
    return request.text if isinstance(request, ScoredText) else _tokens(request)


def _tokens(request: EncodedRequest) -> list[int]:
    return [*request.tokens, *request.targets[-1:]]


def _prompt(request: GenerationRequest) -> Any:
    return request.prompt if isinstance(request, Prompted) else list(request.tokens)


def _response(request: EncodedRequest, said: Sequence[tuple[float, bool]]) -> Response:
    logprobs = tuple(logprob for logprob, _ in said)
    return Response(
        key=request.key,
        kind="loglikelihood",
        loglikelihood=float(sum(logprobs)),
        is_greedy=all(is_top for _, is_top in said),
        token_ids=request.targets,
        token_logprobs=logprobs,
        n_context_tokens=request.n_context_tokens,
        n_truncated=request.n_truncated,
    )


def _batches(places: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(places), size):
        yield places[start : start + size]
