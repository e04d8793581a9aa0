"""Which weights an initialised model has now: in a training loop they change under our feet."""

from __future__ import annotations

import hashlib
from typing import Any

import torch


class WeightsDigest:
    """SHA-256 of a model's weights, computed again when a step has changed one of them."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._of: tuple[tuple[int, int], ...] | None = None
        self._digest = ""

    @property
    def digest(self) -> str:
        # torch counts how often each tensor was written to.
        state = self._model.state_dict(keep_vars=True)
        now = tuple((tensor.data_ptr(), tensor._version) for tensor in state.values())
        if now != self._of:
            self._digest = _digest(state)
            self._of = now
        return self._digest


def _digest(state: dict[str, Any]) -> str:
    total = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        total.update(f"{name}/{tensor.dtype}/{tuple(tensor.shape)}/".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        total.update(memoryview(flat.view(torch.uint8).numpy()))
    return total.hexdigest()
