"""Texts that a model writes about images or sounds, in batches by `generate` of transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evalcore.errors import ModelError
from evalcore.model.base import Answers, Response, told
from evalcore.model.forward.selfcheck import IN_COMPANY, Trial, tried_in_both
from evalcore.model.media import Medium
from evalcore.model.writing.generation import GenerationRequest, Generations
from evalcore.model.writing.own import own_generate
from evalcore.model.writing.plan import Company, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeingRequest(GenerationRequest):
    """A prompt with images or sounds to go on with; `tokens` has those that stand for them."""

    text: str
    """The prompt as the processor takes it."""
    media: tuple[Medium, ...]


Inputs = Callable[[Sequence[SeeingRequest]], Any]
"""All that the model is given of requests in one batch, as tensors, padded on the left."""


class SeeingWriter(Writer):
    """Images and sounds are read when a batch is computed, and are gone when it is."""

    def __init__(
        self, model: Any, tokenizer: Any, *, batch_size: int | None, inputs: Inputs
    ) -> None:
        super().__init__(model, tokenizer, batch_size=batch_size)
        self._inputs_of = inputs
        self._together: bool | None = None
        """Whether prompts with them are read in one batch as each alone."""

    @property
    def execution(self) -> dict[str, Any]:
        alone = self._alone or ("" if self._together is not False else "rows change each other")
        how = {"path": "plain", "step": "one by one" if alone else "in batches"}
        return {**how, "reason": alone, "refused": ""}

    def answers(self, requests: Generations) -> Answers:
        """Raises as `Writer.answers`. What has images or sounds and what has none
        are never in one batch."""
        self._alone = self._rounds or own_generate(self._model)
        for sees in (False, True):
            alike = {
                index: request
                for index, request in requests.items()
                if isinstance(request, SeeingRequest) == sees
            }
            if alike:
                yield from self._in_batches(alike)

    def _inputs(self, requests: Sequence[GenerationRequest], width: int) -> dict[str, Any]:
        seeing = [request for request in requests if isinstance(request, SeeingRequest)]
        if not seeing:
            return super()._inputs(requests, width)
        inputs = self._inputs_of(seeing)
        mask = inputs["attention_mask"].tolist()
        for request, row, kept in zip(seeing, inputs["input_ids"].tolist(), mask, strict=True):
            fed = [token for token, keep in zip(row, kept, strict=True) if keep]
            if tuple(fed) != request.tokens:
                raise ModelError(
                    "its processor reads a prompt otherwise in a batch than alone: state "
                    "--batch_size 1"
                )
        # Cast as lm-evaluation-harness does it: pixels and features are in the
        # model's precision.
        return dict(inputs.to(self._model.device, self._model.dtype))

    def _write(self, requests: Sequence[GenerationRequest]) -> list[Response]:
        return [
            told(response, request.media) if isinstance(request, SeeingRequest) else response
            for request, response in zip(requests, super()._write(requests), strict=True)
        ]

    def _company_of(self, requests: Generations) -> Company:
        """Which rows may share a batch: with images or sounds those that
        were compared with each alone."""
        seeing = [request for request in requests.values() if isinstance(request, SeeingRequest)]
        if not seeing:
            return super()._company_of(requests)
        if self._alone or self._batch_size == 1:
            return "none"
        by_key = list({request.key: request for request in seeing}.values())
        if len(by_key) > 1 and self._together is None:
            # Of other lengths, so that one is padded.
            ordered = sorted(by_key, key=lambda request: len(request.tokens))
            self._together = self._read_as_alone([ordered[0], ordered[-1]])
        return "any" if self._together else "none"

    def _read_as_alone(self, pair: Sequence[SeeingRequest]) -> bool:
        """Whether the model says the same after two prompts in one batch as after each alone."""

        def trial(_: int) -> Trial:
            alone = torch.cat([self._first_logits_of([request]) for request in pair])
            together = self._first_logits_of(pair)
            apart = alone.float().log_softmax(dim=-1) - together.float().log_softmax(dim=-1)
            moved = float(apart.abs().max())
            is_right = moved <= IN_COMPANY.of(self._model)
            return Trial(problem=None if is_right else "rows change each other", largest=moved)

        return tried_in_both(self._model, trial).problem is None

    @torch.inference_mode()
    def _first_logits_of(self, requests: Sequence[SeeingRequest]) -> torch.Tensor:
        width = max(len(request.tokens) for request in requests)
        written = self._model.generate(
            **self._inputs(requests, width),
            max_new_tokens=1,
            do_sample=False,
            pad_token_id=self._pad,
            return_dict_in_generate=True,
            output_logits=True,
        )
        return written.logits[0]  # type: ignore[no-any-return]
