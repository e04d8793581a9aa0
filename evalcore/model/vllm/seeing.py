"""Prompts with images, scored and written by vLLM: it is given the text and the images as we show
them, reads them by its own copy of the model's processor, and must come to the tokens that we read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from evalcore.errors import ModelError
from evalcore.model.base import Answers, EncodedRequest, Response, told
from evalcore.model.forward.head import Scores, response_of
from evalcore.model.loglikelihood.seeing import SeeingPair
from evalcore.model.media import Medium
from evalcore.model.vllm.asking import after, said_within
from evalcore.model.vllm.engine import Asked, Engine, Prompt
from evalcore.model.vllm.scoring import VllmScorer
from evalcore.model.vllm.writing import VllmWriter
from evalcore.model.writing.ending import Text
from evalcore.model.writing.generation import GenerationRequest
from evalcore.model.writing.seeing import SeeingRequest

Shown = Callable[[Sequence[Medium]], list[Any]]
"""The images of Pillow that a model sees."""

AT_ONCE = 64
"""Prompts with images that vLLM has before it has answered: it holds all their pixels."""


class SeeingVllmWriter(VllmWriter):
    """Texts about images, and others."""

    at_once = AT_ONCE

    def __init__(
        self,
        engine: Engine,
        tokenizer: Any,
        configured: Any,
        defaults: Mapping[str, Any],
        shown: Shown,
    ) -> None:
        super().__init__(engine, tokenizer, configured, defaults)
        self._shown = shown

    def _prompt(self, request: GenerationRequest) -> Prompt:
        if isinstance(request, SeeingRequest):
            return prompt_of(request.text, self._shown(request.media))
        return super()._prompt(request)

    def _check(self, request: GenerationRequest, output: Any) -> None:
        check_read(output, request.tokens)

    def _response(self, request: GenerationRequest, text: Text) -> Response:
        response = super()._response(request, text)
        return told(response, request.media) if isinstance(request, SeeingRequest) else response


class SeeingVllmScorer:
    """Continuations of prompts with images, each prompt by itself; the rest by the scorer of
    texts."""

    def __init__(self, engine: Engine, texts: VllmScorer, shown: Shown) -> None:
        self._engine = engine
        self._texts = texts
        self._shown = shown
        self._saw = False

    @property
    def execution(self) -> dict[str, Any]:
        if not self._saw:
            return self._texts.execution
        reason = "prompts with images"
        return {"path": "plain", "step": "each prompt by itself", "reason": reason, "refused": ""}

    def answers(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises as `VllmScorer.answers`."""
        plain = [i for i, request in enumerate(requests) if not isinstance(request, SeeingPair)]
        if plain:
            for pack in self._texts.answers([requests[index] for index in plain]):
                yield [(plain[number], response) for number, response in pack]
        for number, output in self._engine.outputs(self._asked(requests), within=True):
            request = requests[number]
            if isinstance(request, SeeingPair):
                self._saw = True
                yield [(number, _scored(request, output))]

    def _asked(self, requests: Sequence[EncodedRequest]) -> Iterator[Asked]:
        for number, request in enumerate(requests):
            if isinstance(request, SeeingPair):
                # The last target is read, too, and what comes after it is of no interest.
                wanted = after(request.targets[-1:], within=True, reuse=False)
                yield number, prompt_of(request.text, self._shown(request.media)), wanted


def _scored(request: SeeingPair, output: Any) -> Response:
    whole = (*request.tokens, request.targets[-1])
    check_read(output, whole)
    places = range(len(whole) - len(request.targets), len(whole))
    said = said_within(output, places, whole)
    scores = Scores(tuple(logprob for logprob, _ in said), all(greedy for _, greedy in said))
    return told(response_of(request, scores, torch.float32), request.media)


def prompt_of(text: str, images: Sequence[Any]) -> Prompt:
    return {"prompt": text, "multi_modal_data": {"image": list(images)}}


def check_read(output: Any, tokens: Sequence[int]) -> None:
    """Raises ModelError where vLLM reads a prompt otherwise than the model's own processor."""
    read = list(output.prompt_token_ids or ())
    if read != list(tokens):
        raise ModelError(
            f"vLLM reads a prompt as {len(read)} tokens which the model's own processor reads as "
            f"other {len(tokens)}, so it would be asked something else: evaluate with --model "
            "hf-multimodal"
        )
