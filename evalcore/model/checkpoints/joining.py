"""How the shards of one weight become the weight.

A matrix is divided by its rows where its outputs are spread over the ranks ("column-parallel" in
Megatron's words, which multiply from the right), by its columns where its inputs are. What is not
divided each rank has a copy of, which should be equal and, in trainings that did not keep them so,
is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from evalcore.errors import ModelError

Parts = Sequence[Tensor]
"""A weight's shards, by rank."""


@dataclass
class Copies:
    """Joins what every rank has a copy of, and remembers which copies differ."""

    differ: dict[str, float] = field(default_factory=dict)
    """Weights whose copies differ, with the largest difference."""

    def one(self, name: str, parts: Parts) -> Tensor:
        """The copy, or the mean of copies that differ, which is not rounded yet."""
        if all(torch.equal(part, parts[0]) for part in parts):
            return parts[0]
        stacked = torch.stack([part.double() for part in parts])
        mean = stacked.mean(dim=0)
        self.differ[name] = float((stacked - mean).abs().max())
        return mean


def rows(parts: Parts) -> Tensor:
    return torch.cat(list(parts), dim=0)


def columns(parts: Parts) -> Tensor:
    return torch.cat(list(parts), dim=1)


def total(parts: Parts) -> Tensor:
    """Where each rank adds its own, before the ranks' results are added up; not rounded yet."""
    if len(parts) == 1:
        return parts[0]
    return torch.stack([part.double() for part in parts]).sum(dim=0)


def joined(where: str, how: Callable[[Parts], Tensor], parts: Parts) -> Tensor:
    """Raises ModelError for shards that cannot be of one weight."""
    for rank, part in enumerate(parts):
        if part.shape != parts[0].shape or part.dtype != parts[0].dtype:
            raise ModelError(
                f"{where}: shards 0 and {rank} do not fit: {_said(parts[0])} and {_said(part)}: "
                "they are not of the same step"
            )
        if not part.is_floating_point():
            raise ModelError(f"{where}: expected numbers with a fraction, got {part.dtype}")
    try:
        return how(parts)
    except (RuntimeError, IndexError) as problem:
        raise ModelError(
            f"{where}: shards of {_said(parts[0])} cannot be joined: the settings are of another "
            "model"
        ) from problem


def heads_apart(weight: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of all heads, from rows that hold the three of each head in turn.

    `weight` has 3 · heads · width rows, ordered (head, q/k/v, width).
    """
    if len(weight) % (3 * heads):
        raise RuntimeError
    by_head = weight.reshape(heads, 3, -1, *weight.shape[1:])
    q, k, v = (by_head[:, which].flatten(0, 1) for which in range(3))
    return q, k, v


def _said(part: Tensor) -> str:
    return f"{' × '.join(map(str, part.shape))} of {str(part.dtype).removeprefix('torch.')}"
