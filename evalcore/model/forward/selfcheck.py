"""Whether a fast way of computing says what the model itself says: how far rounding may move that.

Nothing is concluded from the name of an architecture: each way is tried on requests of the run. A
model in half precision is tried in float32 first, where rounding hides nothing, such as a window
that is off by one: its weights are numbers of float32 as well, so it is the same model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from evalcore.model.faults import set_aside
from evalcore.model.forward.company import each_token_alone
from evalcore.model.forward.logits import logits_at
from evalcore.model.forward.memory import SHARE, end_where_divided, free_bytes, release

HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Tolerance:
    """How far two answers may be apart that should be equal, by the model's precision."""

    float32: float
    half: float

    def of(self, model: Any) -> float:
        """For a model in the precision that it has at the moment."""
        return self.half if is_half(model) else self.float32


NATS, SHARE_OF_IT = Tolerance(1e-4, 0.02), Tolerance(1e-6, 1e-3)
"""Of a loglikelihood that is computed in another way: nats, and that share of it."""

IN_COMPANY = Tolerance(1e-3, 0.5)
"""Nats, of a log-probability where a row is padded, or has company."""

BEFORE_OTHERS = Tolerance(1e-2, 1.0)
"""Nats, of any token's log-probability where others follow; sight of them moves it more."""

COPIES, TIMES_NOISE = 4, 3
"""Three times what a batch of four copies differs by from one is no mistake."""

MOST_NOISE = Tolerance(3e-4, float("inf"))
"""Nats that this may count for: a GPU computes a batch by other products than a row, and over the
layers of a large model even float32 rounds by more than `NATS`; but not by any amount."""

TIMES_IF_EXACT = 4
"""What is right in float32 may be rounded so much farther: only a kernel of its own for half
precision can then be wrong, which shows."""

TIMES_ROUNDING = 2
"""Nor are two steps between neighbouring numbers at a logit: at 20 in bfloat16 one is 0.125."""

LEAST_LIKELY = -25.0
"""Log-probability of a token whose logit says how large they are: some models forbid tokens by a
logit of minus all there is."""

PLACES = 32
"""Positions that are compared where others follow: the last ones before these."""


def is_half(model: Any) -> bool:
    """Whether a model is computed in less than float32."""
    return int(model.dtype.itemsize) < torch.float32.itemsize


def tolerated(model: Any, expected: float, softmax: torch.dtype = torch.float32) -> float:
    """Nats by which a loglikelihood may be off; `softmax` is the precision of the log-softmax."""
    share = SHARE_OF_IT.of(model)
    if softmax != torch.float32:  # both answers are rounded, their parts as their sum
        share += 2 * TIMES_ROUNDING * torch.finfo(softmax).eps
    return NATS.of(model) + share * abs(expected)


def noisy(model: Any, noise: float) -> float:
    """Nats by which an answer may be off, where copies in a batch differ so much from one."""
    return TIMES_NOISE * min(noise, MOST_NOISE.of(model))


def coarseness(logits: Tensor, dtype: torch.dtype) -> float:
    """Nats by which a log-probability may be off that is read off logits (…, vocabulary) which were
    computed in this precision.

    Rounded is the row that all logits are made of, so a small one is off as much as the largest.
    """
    counting = logits.float().log_softmax(dim=-1) > LEAST_LIKELY
    largest = float(logits.float().abs().masked_fill(~counting, 0.0).max())
    return TIMES_ROUNDING * torch.finfo(dtype).eps * largest


@torch.inference_mode()
def moved_by_what_follows(model: Any, tokens: Sequence[int], n: int) -> float | None:
    """How far any log-probability after the first `n` tokens moves when the others follow them.

    In nats; None if it is not further than rounding may move it: a model with quantised weights may
    round what it computes as coarsely as one in half precision.
    """
    row = torch.tensor([tokens], device=model.device)
    places = torch.arange(max(0, n - PLACES), n, device=row.device)
    with each_token_alone(model):
        alone, within = (
            torch.log_softmax(logits_at(model, fed, places).float(), dim=-1)
            for fed in (row[:, :n], row)
        )
    moved = float((alone - within).abs().max())
    most = BEFORE_OTHERS.half if is_quantised(model) else BEFORE_OTHERS.of(model)
    return moved if moved > most else None


def is_quantised(model: Any) -> bool:
    """Whether a model holds weights that `transformers` quantised, or loaded so."""
    return bool(getattr(model, "is_quantized", False))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What trying a way of computing has found."""

    problem: str | None
    largest: float
    """Difference in loglikelihood, in nats."""
    only_rounded: str = ""
    """Why it was not tried in float32, where rounding could hide something."""


T = TypeVar("T", bound=Trial)


def tried_in_both(
    model: Any, trial: Callable[[int], T], in_float32: Callable[[], T] | None = None
) -> T:
    """What a trial finds in float32, and where that is nothing in the model's own precision, in
    which answers may then be so many times farther off as the trial is told.

    `in_float32`: the trial there, where it is another one. Raises torch.OutOfMemoryError.
    """
    if in_float32 is None and not is_half(model):
        return trial(1)
    exact, why_not = _in_float32(model, in_float32 or (lambda: trial(1)))
    if exact is not None and exact.problem is not None:
        return exact
    own = trial(TIMES_IF_EXACT if exact else 1)
    return replace(own, largest=(exact or own).largest, only_rounded=why_not)


def _in_float32(model: Any, trial: Callable[[], T]) -> tuple[T | None, str]:
    """None, and why, where the model cannot be put into float32."""
    if why_not := _why_not_in_float32(model):
        return None, why_not
    try:
        with _widened(model):
            return trial(), ""
    except torch.OutOfMemoryError as problem:
        end_where_divided(problem)
        return None, "out of memory"
    except Exception as error:  # the model itself is not for it
        return None, set_aside("to check a model in float32", error)


def _why_not_in_float32(model: Any) -> str | None:
    """What speaks against it: weights of other kinds, or too little memory beside the model."""
    if is_quantised(model):  # packed weights may be kept in any type, whose numbers mean nothing
        return "its weights are quantised"
    if any(tensor.is_meta for tensor in _tensors(model)):
        return "some of its weights are offloaded"
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


@contextmanager
def _widened(model: Any) -> Iterator[None]:
    """Meanwhile what the model holds in half precision is float32; then it is as it was, to the
    very tensors."""
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
