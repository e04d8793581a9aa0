"""The least work there is: every distinct token once, every needed row of the head once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Work:
    """Of all requests of a workload together."""

    unique: int
    """Nodes of the trie of what is fed: tokens that differ in themselves or in what is before."""
    fed: int
    """Tokens of all requests, each fed on its own."""
    read: int
    """Nodes whose prediction is asked for."""
    depths: int
    """Sum over the nodes of the positions that each attends to, itself included."""

    def operations(self, model: Any) -> float:
        """Floating-point operations: linear layers and attention of the nodes, the head's rows."""
        from torch.nn import Linear

        config = model.config
        head = model.get_output_embeddings()
        linear: int = sum(
            layer.weight.numel()
            for layer in model.modules()
            if isinstance(layer, Linear) and layer is not head
        )
        attended: float = 4 * config.num_hidden_layers * config.hidden_size * self.depths
        rows: int = head.weight.numel()
        return 2.0 * (self.unique * linear + self.read * rows) + attended


def work_of(sequences: Sequence[Sequence[int]], scored: Sequence[int]) -> Work:
    """Of sequences that are fed, of each of which the last so many positions are scored."""
    children: dict[tuple[int, int], int] = {}
    read: set[int] = set()
    depths = 0
    for sequence, count in zip(sequences, scored, strict=True):
        node = 0
        for position, token in enumerate(sequence):
            known = children.get((node, token))
            if known is None:
                known = children[node, token] = len(children) + 1
                depths += position + 1
            node = known
            if position >= len(sequence) - count:
                read.add(node)
    return Work(len(children), sum(map(len, sequences)), len(read), depths)
