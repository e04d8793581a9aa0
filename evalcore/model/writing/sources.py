"""Texts that a model with an encoder writes, in batches by `generate` of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from evalcore.model.base import Answers
from evalcore.model.forward.plain import Rows
from evalcore.model.writing.generation import GenerationRequest, Generations
from evalcore.model.writing.own import own_generate
from evalcore.model.writing.plan import BLIND_TO_PADDING, Writer

FIRST_TOKENS = frozenset(["decoder_start_token_id", "forced_bos_token_id"])
"""Arguments that say how an answer begins, whatever was read."""


class SourceWriter(Writer):
    """A request's `tokens` are the source, and the token with which the decoder begins."""

    blind = BLIND_TO_PADDING | FIRST_TOKENS

    def answers(self, requests: Generations) -> Answers:
        """Raises as `Writer.answers`."""
        if requests:
            self._alone = self._rounds or own_generate(self._model)
            yield from self._in_batches(requests)

    def _padded(self, rows: Rows, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Sources padded on the right: learnt positions are then those of the source alone."""
        sources = [list(row[:-1]) for row in rows]
        ids = [source + [self._pad] * (width - 1 - len(source)) for source in sources]
        mask = [[1] * len(source) + [0] * (width - 1 - len(source)) for source in sources]
        device = self._model.device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _given(self, width: int) -> int:  # noqa: ARG002
        return 1  # the token with which the decoder begins

    def _unsearched(self, request: GenerationRequest) -> int:
        """Compat looks for stops behind as many positions as the source has, as
        lm-evaluation-harness does; the text is cut at its first stop in any case, but one that is
        in a special token alone, as `s` in a forced `<s>`, would end it before that."""
        return len(request.tokens) - 2 if request.plan.mode == "compat" else 0

    def _most(self, request: GenerationRequest) -> int:
        """Tokens of the answer. In compat its limit counts the source as well, and the model's own
        number of new tokens beats it; no answer has more positions than the decoder."""
        plan, room = request.plan, positions_of(self._model.config)
        own = self._model.generation_config.max_new_tokens
        if plan.mode == "compat" and own is not None:
            most = int(own)
        elif plan.max_length is not None:
            most = plan.max_length - 1
        elif plan.mode == "compat":
            most = len(request.tokens) - 1 + plan.max_new_tokens - 1
        else:
            most = plan.max_new_tokens
        return most if room is None else min(most, room)

    def _length(self, requests: Sequence[GenerationRequest]) -> dict[str, int]:
        return {"max_new_tokens": max(map(self._most, requests))}


def positions_of(config: Any) -> int | None:
    """How many positions the decoder has; None where they are computed, and have no end."""
    for name in ("max_decoder_position_embeddings", "max_position_embeddings"):
        if isinstance(length := getattr(config, name, None), int) and length > 0:
            return length
    return None
