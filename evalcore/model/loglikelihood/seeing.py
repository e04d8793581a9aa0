"""How likely texts about images or sounds are: each prompt by itself, in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from evalcore.errors import ModelError
from evalcore.model.base import Answers, EncodedRequest, Response, told
from evalcore.model.forward.head import Scores, response_of
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.media import Medium


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeingPair(EncodedRequest):
    """A context with images or sounds, and a continuation."""

    text: str
    """Both, as the processor takes them."""
    media: tuple[Medium, ...]


class SeeingScorer:
    """What has images or sounds one by one, the rest by the scorer of texts."""

    def __init__(
        self,
        model: Any,
        texts: Scorer,
        *,
        inputs: Callable[[SeeingPair], Any],
        softmax: torch.dtype,
    ) -> None:
        """`inputs`: all that the model is given of a request, as tensors of one row."""
        self._model = model
        self._texts = texts
        self._inputs = inputs
        self._softmax = softmax
        self._saw = False

    @property
    def execution(self) -> dict[str, Any]:
        if not self._saw:
            return self._texts.execution
        reason = "prompts with images or sounds"
        return {"path": "plain", "step": "one by one", "reason": reason, "refused": ""}

    def answers(self, requests: Sequence[EncodedRequest]) -> Answers:
        """Raises as `Scorer.answers`."""
        plain = [i for i, request in enumerate(requests) if not isinstance(request, SeeingPair)]
        for pack in self._texts.answers([requests[index] for index in plain]):
            yield [(plain[number], response) for number, response in pack]
        for index, request in enumerate(requests):
            if isinstance(request, SeeingPair):
                self._saw = True
                yield [(index, self._response(request))]

    @torch.inference_mode()
    def _response(self, request: SeeingPair) -> Response:
        inputs = self._inputs(request)
        row = inputs["input_ids"][0].tolist()
        asked = len(request.targets)
        if tuple(row) != (*request.tokens, request.targets[-1]):
            raise ModelError("its processor reads a prompt otherwise when it is computed")
        given = inputs.to(self._model.device, self._model.dtype)
        try:
            logits = self._model(**given, use_cache=False).logits[0, -asked - 1 : -1]
        except torch.OutOfMemoryError as problem:
            raise ModelError(f"out of memory on {self._model.device}: {problem}") from None
        said = torch.log_softmax(logits, dim=-1, dtype=self._softmax)
        chosen = torch.tensor(request.targets, device=said.device)
        wanted = said.gather(1, chosen[:, None])[:, 0].float()
        scores = Scores(tuple(wanted.tolist()), bool((said.argmax(dim=-1) == chosen).all()))
        response = response_of(request, scores, self._softmax)
        return told(response, request.media)
