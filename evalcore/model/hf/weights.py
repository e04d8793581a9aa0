"""Which weights an initialised model has now: in a training loop they change under our feet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
import xxhash

MOVED = ("CB", "SCB")
"""Weights and scales of LLM.int8(), which leave the parameter when a layer is first run."""

DEEPEST = 3
"""How many objects stand between a packed weight and the scales of its scales, at most."""


def weights_digest(model: Any) -> str:
    """Which weights a model has now: in a training loop they change under our feet.

    SHA-256 over the names, types, shapes and checksums of all weights, and of what switches an
    adapter on or off.

    All bytes are read each time it is asked: torch's count of writes misses those through `.data`,
    as optimisers and hand-written steps do them, and the answers of the old weights would be taken
    for those of the new. The checksum is XXH3 (128 bits), which is as fast as memory is, where
    SHA-256 is ten times slower; nobody here has a reason to forge weights.
    """
    total = hashlib.sha256()
    checksums: dict[int, str] = {}
    for name, value in sorted(model.state_dict(keep_vars=True).items()):
        if not isinstance(value, torch.Tensor):
            total.update(f"{name}={value!r}/".encode())
            continue
        if id(value) not in checksums:  # tied weights have two names
            checksums[id(value)] = _checksum(value)
        shape = tuple(value.shape)
        total.update(f"{name}/{value.dtype}/{shape}/{checksums[id(value)]}/".encode())
    for switches in _switches(model):
        total.update(switches.encode())
    return total.hexdigest()


def digest_of_quantised(model: Any) -> str:
    """The same of a model with quantised weights: of all tensors that they are made of.

    Not by `state_dict`: to write it bitsandbytes unpacks what it packed for the processor, and
    rounds the scales each time, so that to ask for the weights would change them.
    """
    total = hashlib.sha256()
    for name, module in model.named_modules():
        own: dict[str, torch.Tensor] = {
            **dict(module.named_parameters(recurse=False)),
            **dict(module.named_buffers(recurse=False)),
        }
        state = getattr(module, "state", None)
        for inner in MOVED:
            if isinstance(moved := getattr(state, inner, None), torch.Tensor):
                own[f"state.{inner}"] = moved
        for inner, weight in sorted(own.items()):
            for part, tensor in _parts(f"{name}.{inner}", weight, 0):
                shape = tuple(tensor.shape)
                total.update(f"{part}/{tensor.dtype}/{shape}/{_checksum(tensor)}/".encode())
    for switches in _switches(model):
        total.update(switches.encode())
    return total.hexdigest()


def _switches(model: Any) -> Iterator[str]:
    """What switches an adapter on or off, and how strong it is."""
    for name, module in model.named_modules():
        if hasattr(module, "disable_adapters"):
            switches = (module.disable_adapters, module.active_adapters)
            yield f"{name}: {switches} {getattr(module, 'scaling', None)}/"


def _parts(name: str, weight: torch.Tensor, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """A weight as the plain tensors that it is made of: torchao's hold several, bitsandbytes's have
    their scales beside them."""
    if hasattr(weight, "__tensor_flatten__"):
        for inner in weight.__tensor_flatten__()[0]:
            yield from _parts(f"{name}.{inner}", getattr(weight, inner), depth)
        return
    yield name, weight
    yield from _held(name, weight, depth)


def _held(name: str, holder: Any, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among an object's attributes, and among theirs."""
    if depth > DEEPEST or not hasattr(holder, "__dict__"):
        return
    for inner, value in sorted(vars(holder).items()):
        if isinstance(value, torch.Tensor):
            yield from _parts(f"{name}.{inner}", value, depth + 1)
        elif type(value).__module__.partition(".")[0] == "bitsandbytes":
            yield from _held(f"{name}.{inner}", value, depth + 1)


def _checksum(weight: torch.Tensor) -> str:
    flat = weight.detach().cpu().contiguous().reshape(-1)
    content: Any = flat.view(torch.uint8).numpy()
    return xxhash.xxh3_128_hexdigest(content)
