"""A model of `transformers` asked in the plainest way: one row at a time, without a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


class PlainReference:
    """What `evalcore.model.conformance` holds a backend to; shares no code with what is fast."""

    def __init__(self, model: Any, tokenizer: Any, add_bos_token: bool | None) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._add_bos_token = add_bos_token

    def tokens(self, text: str) -> list[int]:
        """A whole text as the tokenizer reads it, with what it adds."""
        stated = self._add_bos_token
        options = {} if stated is None else {"add_special_tokens": stated}
        return list(self._tokenizer(text, **options)["input_ids"])

    @torch.inference_mode()
    def teacher_forced(
        self, tokens: Sequence[int], targets: Sequence[int]
    ) -> tuple[list[float], bool]:
        """Log-probability of each target after what is fed, in float64, and whether each is the
        likeliest token."""
        row = torch.tensor([list(tokens)], device=self._model.device)
        with evaluating(self._model):
            logits = self._model(row, use_cache=False).logits[0, -len(targets) :].double()
        chosen = torch.tensor(list(targets), device=logits.device)
        logprobs = logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
        return logprobs.tolist(), bool((logits.argmax(-1) == chosen).all())


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Dropout and the like are off meanwhile, and then on again where they were."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
