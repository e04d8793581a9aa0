"""How many tokens one forward pass may hold: what memory is free, over what a token needs.

An estimate from above, made once for a model; where it was too high, the device says so and the
budget is halved (`evalcore.model.loglikelihood.scoring`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from evalcore.errors import InfraError

CPU_BYTES = 192 << 20
"""On a CPU passes are kept within this: larger ones leave its caches and are no faster."""

MOST_TOKENS_CPU, MOST_TOKENS = 2048, 32768
"""On a CPU and on an accelerator: what keeps it busy, and is a second's work at most."""

LEAST_TOKENS = 256
"""A pass of fewer tokens is slower than the plain path would be."""

SHARE = 0.5
"""Of the free memory. The rest is for logits, the allocator's gaps and other programs."""

WIDE, NARROW = 4, 12
"""Tensors of a layer that live at once: in the width of its feed-forward part (both gates, their
product, a copy), and in the width of the model (the residual, its norm, queries, keys, values,
rotated ones, the attention's output and the parts it is merged from)."""


def token_budget(model: Any, *, longest: int) -> int:
    """Tokens in one forward pass, while keys and values of a path of `longest` tokens are kept."""
    room = free_bytes(model.device) - longest * path_bytes_per_token(model)
    most = MOST_TOKENS
    if model.device.type == "cpu":
        room, most = min(room, int(CPU_BYTES / SHARE)), MOST_TOKENS_CPU
    return max(LEAST_TOKENS, min(most, int(SHARE * room) // bytes_per_token(model)))


def bytes_per_token(model: Any) -> int:
    """What one token needs while a layer is computed."""
    embeddings = model.get_input_embeddings()
    vocabulary = len(embeddings.weight)
    width = int(getattr(embeddings, "embedding_dim", None) or embeddings.weight.shape[1])
    # Embeddings and heads are read row by row.
    sides = (side for sides in _shapes(model) if vocabulary not in sides for side in sides)
    widest = max(sides, default=width)
    config = model.config.get_text_config()
    experts = int(getattr(config, "num_experts_per_tok", None) or 1)
    return int(model.dtype.itemsize * (WIDE * widest * experts + NARROW * width))


def _shapes(model: Any) -> Iterator[tuple[int, int]]:
    """The two sides of each matrix; layers of experts have a third one.

    The shape of packed weights says nothing, but their layers know what they take and give.
    """
    for module in model.modules():
        sides = getattr(module, "in_features", None), getattr(module, "out_features", None)
        if isinstance(sides[0], int) and isinstance(sides[1], int):
            yield sides[0], sides[1]
            continue
        for weight in module.parameters(recurse=False):
            if weight.dim() > 1 and weight.is_floating_point():
                yield weight.shape[-2], weight.shape[-1]


def path_bytes_per_token(model: Any) -> int:
    """Keys and values of one token in all layers, in full width where heads are not grouped."""
    config = model.config.get_text_config()
    heads = int(getattr(config, "num_attention_heads", None) or 1)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    kept = int(getattr(config, "num_key_value_heads", None) or heads)
    return int(model.dtype.itemsize * 2 * config.num_hidden_layers * kept * size)


def free_bytes(device: torch.device) -> int:
    """Memory that this process could still take on the device; of a model in parts, the least of
    its processes."""
    return _least_of_all(_free_here(device), device)


def _free_here(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch holds without using it is free as well.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    told = Path("/proc/meminfo")
    if told.exists():
        numbers = dict(line.split(":", 1) for line in told.read_text().splitlines())
        return int(numbers["MemAvailable"].split()[0]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def end_where_divided(problem: BaseException) -> None:
    """Raises InfraError where parts of the model lie in other processes: they compute the pass that
    did not fit here and wait for this one, and a smaller one would not be theirs."""
    if distributed.is_available() and distributed.is_initialized():
        raise InfraError(
            f"a process that holds a part of the model ran out of memory: {problem}: divide the "
            "model among more GPUs, or lower --batch_size"
        ) from problem


def _least_of_all(number: int, device: torch.device) -> int:
    """Of what the processes find that hold parts of a model: they must compute the same passes."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return number
    least = torch.tensor([number], device=device)
    distributed.all_reduce(least, op=distributed.ReduceOp.MIN)
    return int(least)


def release(device: torch.device) -> None:
    """Gives back what the allocator holds, so that smaller tensors find room in one piece."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
