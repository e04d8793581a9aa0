"""Models that are asked row by row: quantised ones whose answers would depend on what else is
computed with a row, or on the order in which its numbers are added up.

LLM.int8() of bitsandbytes keeps some columns of what a layer takes in 16 bits: those in which any
token of the pass is above a threshold; and where torchao scales by tensor, the largest number of a
pass is the scale of all. So rows of a batch, and tokens that follow, decide how coarsely the others
are computed. And where layers round what goes through them to a few bits, the last bit of a number
in float32 decides between two steps that are far apart: a faster way that adds in another order
would be off by a hundredth of a nat here and there, on few requests and perhaps on none of those
that a check tries. In half precision such steps are everywhere, and the check's tolerances are made
for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

ROUNDED_BY_TORCHAO = ("act_quant_kwargs", "activation_quantization")
"""Attributes of torchao's weights that say that what they are multiplied with is rounded, too."""


def why_alone(model: Any) -> str | None:
    """Why each row is computed alone; None where it need not be."""
    highest = max((float(state.threshold) for state in _int8_states(model)), default=0.0)
    if highest > 0:
        return (
            "its 8-bit layers choose by all that is computed together what they keep in 16 bits "
            f"(llm_int8_threshold {highest:g})"
        )
    if any(_scaled_by_all(module) for module in model.modules()):
        return (
            "its layers scale what goes through them by the largest number of all that is computed "
            "together"
        )
    if model.dtype.itemsize < torch.float32.itemsize:
        return None
    if any(_rounds(module) for module in model.modules()):
        return "its quantised layers round what goes through them, and the rest is in float32"
    return None


@contextmanager
def each_token_alone(model: Any) -> Iterator[None]:
    """Meanwhile no token's rounding depends on others, and what else they see shows."""
    before = [(state, state.threshold) for state in _int8_states(model)]
    by_tensor = [
        (how, how.granularity)
        for how in (
            module.weight.act_quant_kwargs for module in model.modules() if _scaled_by_all(module)
        )
    ]
    try:
        for state, _ in before:
            state.threshold = 0.0
        for how, _ in by_tensor:
            how.granularity = _by_row()
        yield
    finally:
        for state, threshold in before:
            state.threshold = threshold
        for how, granularity in by_tensor:
            how.granularity = granularity


def _by_row() -> Any:
    from torchao.quantization import PerRow

    return PerRow()


def _scaled_by_all(module: Any) -> bool:
    """Whether a layer of torchao rounds by one scale for a whole pass, found anew in each."""
    weight = getattr(module, "weight", None)
    if getattr(weight, "act_quant_scale", None) is not None:  # found once, when it was quantised
        return False
    granularity = getattr(getattr(weight, "act_quant_kwargs", None), "granularity", None)
    return type(granularity).__name__ == "PerTensor"


def _rounds(module: Any) -> bool:
    """Whether a layer computes in fewer bits than float32 has."""
    weight = getattr(module, "weight", None)
    if any(getattr(weight, name, None) is not None for name in ROUNDED_BY_TORCHAO):
        return True
    if _of_bitsandbytes(module):
        if hasattr(getattr(module, "state", None), "threshold"):
            return True
        on_cpu = isinstance(weight, torch.Tensor) and weight.device.type == "cpu"
        computed = getattr(module, "compute_dtype", None) or torch.float32
        in_bfloat16 = on_cpu and getattr(module, "support_avx512bf16_for_cpu", False)
        return bool(in_bfloat16 or computed.itemsize < torch.float32.itemsize)
    return False


def _int8_states(model: Any) -> Iterator[Any]:
    for module in model.modules():
        state = getattr(module, "state", None)
        if _of_bitsandbytes(module) and hasattr(state, "threshold"):
            yield state


def _of_bitsandbytes(module: Any) -> bool:
    return type(module).__module__.partition(".")[0] == "bitsandbytes"
