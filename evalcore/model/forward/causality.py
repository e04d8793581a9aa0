"""Whether what a model says of a position depends on what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from evalcore.model.forward.plain import logits_at

NOISE, NOISE_HALF = 1e-2, 1.0
"""Nats by which rounding may move any token's log-probability; sight of what follows moves more."""

PLACES = 32
"""Positions that are compared: the last ones before what follows."""


@torch.inference_mode()
def moved_by_what_follows(model: Any, tokens: Sequence[int], n: int) -> float | None:
    """How far any log-probability after the first `n` tokens moves when the others follow them.

    In nats; None if it is not further than rounding may move it.
    """
    row = torch.tensor([tokens], device=model.device)
    places = torch.arange(max(0, n - PLACES), n, device=row.device)
    alone, within = (
        torch.log_softmax(logits_at(model, fed, places).float(), dim=-1)
        for fed in (row[:, :n], row)
    )
    moved = float((alone - within).abs().max())
    return moved if moved > (NOISE if model.dtype == torch.float32 else NOISE_HALF) else None
