"""One model's weights for several adapters, or several runs: loaded once, and each of them has a
model of its own whose weights are these.

What an adapter adds, replaces or resizes is in its own model; what it writes into the weights
themselves is found out, and they are loaded anew.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import torch

from evalcore.model.forward.selfcheck import is_quantised
from evalcore.model.hf.weights import weights_digest


class SharedWeights:
    """A model without an adapter, for those over its weights that are evaluated one by one."""

    def __init__(self, *, may_change: bool = True) -> None:
        """Without `may_change` nothing is put on them that could write into them, and all their
        bytes need not be read to know that."""
        self._may_change = may_change
        self._model: Any = None
        self._digest = ""
        self.loads = 0
        """How often the weights were read from their files."""

    def model(self, load: Callable[[], Any]) -> Any:
        """A model over the shared weights, as it was loaded; `load` reads them from files.

        Quantised weights, and those that are spread over devices, are read each time: their
        libraries keep a state of their own beside them.
        """
        gc.collect()  # what was made before this one
        if self._model is not None and self._digest_now() != self._digest:
            self._model = None
        if self._model is None:
            loaded = load()
            self.loads += 1
            if is_quantised(loaded) or hasattr(loaded, "hf_device_map"):
                return loaded
            self._model = loaded
            self._digest = self._digest_now()
        return twin(self._model)

    def _digest_now(self) -> str:
        return weights_digest(self._model) if self._may_change else ""


def twin(model: Any) -> Any:
    """A model with modules and parameters of its own, which share the memory of the weights.

    Vectors are copied, which is nothing beside the matrices: adapters train biases in their place.
    """
    memo: dict[int, Any] = {}
    for weight in model.parameters():
        data = weight.data if weight.dim() > 1 else weight.data.clone()
        memo[id(weight)] = torch.nn.Parameter(data, requires_grad=weight.requires_grad)
    return copy.deepcopy(model, memo)
