"""A model in half precision, for a moment in float32: what is wrong is then told from rounding.

The weights of half precision are numbers of float32 as well, so the model is the same one; only its
own rounding is gone, which hides a window that is off by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from evalcore.model.faults import reason_of
from evalcore.model.forward.memory import SHARE, free_bytes, release

T = TypeVar("T")

HALF = (torch.bfloat16, torch.float16)


def why_not_in_float32(model: Any) -> str | None:
    """What speaks against it: weights of other kinds, or too little memory beside the model."""
    needed: Counter[torch.device] = Counter()
    for tensor in _tensors(model):
        if tensor.dtype in HALF:
            needed[tensor.device] += tensor.numel() * torch.float32.itemsize
        elif tensor.is_floating_point() and tensor.dtype.itemsize < torch.float32.itemsize:
            return f"its weights are {str(tensor.dtype).removeprefix('torch.')}"
    for device, size in needed.items():
        if size > SHARE * free_bytes(device):
            return f"the memory of {device} does not hold it beside the model"
    return None


def tried_in_float32(model: Any, trial: Callable[[], T]) -> tuple[T | None, str]:
    """What a trial finds meanwhile; None, and why, where the model cannot be put into float32."""
    if why_not := why_not_in_float32(model):
        return None, why_not
    try:
        with in_float32(model):
            return trial(), ""
    except torch.OutOfMemoryError:
        return None, "out of memory"
    except Exception as error:  # the model itself is not for it
        return None, reason_of(error)


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Meanwhile what the model holds in half precision is float32; then it is as it was, to the
    very tensors. Raises torch.OutOfMemoryError."""
    before = [(tensor, tensor.data) for tensor in _tensors(model) if tensor.dtype in HALF]
    try:
        for tensor, data in before:
            tensor.data = data.float()
        yield
    finally:
        for tensor, data in before:
            tensor.data = data
        if before:
            release(before[0][0].device)


def _tensors(model: Any) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()
