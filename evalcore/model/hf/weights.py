"""Which weights an initialised model has now: in a training loop they change under our feet."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import xxhash


def weights_digest(model: Any) -> str:
    """SHA-256 over the names, types, shapes and checksums of all weights, and of what switches an
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
    for name, module in model.named_modules():
        if hasattr(module, "disable_adapters"):
            switches = (module.disable_adapters, module.active_adapters)
            total.update(f"{name}: {switches} {getattr(module, 'scaling', None)}/".encode())
    return total.hexdigest()


def _checksum(weight: torch.Tensor) -> str:
    flat = weight.detach().cpu().contiguous().reshape(-1)
    content: Any = flat.view(torch.uint8).numpy()
    return xxhash.xxh3_128_hexdigest(content)
