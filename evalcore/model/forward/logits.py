"""The logits that a model gives of itself, and in which precision."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor


def logits_at(model: Any, tokens: Tensor, places: Tensor) -> Tensor:
    """Logits of shape (rows, len(places), vocabulary) at the given positions of each row."""
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        return model(tokens, use_cache=False, logits_to_keep=places).logits  # type: ignore[no-any-return]
    return model(tokens, use_cache=False).logits[:, places]  # type: ignore[no-any-return]


@torch.inference_mode()
def dtype_of_logits(model: Any) -> torch.dtype:
    """The precision in which a model gives its logits: not every one keeps to that of its weights,
    which is the answer for one that cannot be run."""
    if model.device.type == "meta":
        return model.dtype  # type: ignore[no-any-return]
    first = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    return logits_at(model, first, first[0]).dtype
