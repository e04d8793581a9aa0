"""Texts whose thinking is ended after so many tokens, where `generate` of transformers writes them.

Source of the idea: budget forcing, Muennighoff et al. 2025 (s1: Simple test-time scaling), section
3.1: what ends the thinking is put where the budget is used up, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor, StoppingCriteria

from evalcore.model.base import Response
from evalcore.model.writing.ending import StopRule, Text, response_of
from evalcore.model.writing.generation import GenerationRequest


def written_within_budget(
    requests: Sequence[GenerationRequest],
    tokenizer: Any,
    ends: frozenset[int],
    generate: Callable[[StoppingCriteria, LogitsProcessor], Any],
) -> list[Response]:
    """Texts of one plan that has a budget. `generate` writes a batch of them, each a row, until all
    are at an end; its processor has the last word on what is next."""
    plan = requests[0].plan
    rule = StopRule(tokenizer, plan)
    texts = [Text(rule, ends, plan.most_tokens) for _ in requests]
    generate(_TextsEnd(texts), _Due(texts))
    return [
        response_of(
            request,
            text.tokens,
            stopped_after=text.stopped_after,
            ends=ends,
            tokenizer=tokenizer,
            path="plain",
        )
        for request, text in zip(requests, texts, strict=True)
    ]


class _TextsEnd(StoppingCriteria):
    """Ends each row as its text ends by the rules of those that are written continuously."""

    def __init__(self, texts: Sequence[Text]) -> None:
        """One for each row, still empty; they have their tokens when all is written."""
        self._texts = texts
        self._over = [False] * len(texts)

    def __call__(self, input_ids: Tensor, scores: Any, **_options: Any) -> Tensor:  # noqa: ARG002
        for place, token in enumerate(input_ids[:, -1].tolist()):
            if not self._over[place]:
                self._over[place] = self._texts[place].take(token)
        return torch.tensor(self._over, device=input_ids.device)


class _Due(LogitsProcessor):
    """Leaves a row the one token that is due in its text, where one is."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self._texts = texts

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002
        for place, text in enumerate(self._texts):
            if (token := text.due) is not None:
                scores = scores.clone()
                scores[place] = -torch.inf
                scores[place, token] = 0.0
        return scores
