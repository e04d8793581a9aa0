"""Each context fed once, its continuations after it, by the model's own memory of what it read.

For models whose layers are not attention, or attention of a kind of their own: whatever a model
keeps between two calls (keys and values, states) is copied for each continuation but the last.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from evalcore.model.forward.head import Scores
from evalcore.model.forward.plain import scores_of

MEMORIES = ("past_key_values", "cache_params", "state")
"""What models call their memory, in their outputs as in their arguments."""

Tokens = tuple[int, ...]


@dataclass(slots=True)
class Family:
    """The continuations of one context: what each feeds, and the requests that it answers."""

    fed: dict[Tokens, list[int]] = field(default_factory=dict)

    @property
    def n_fed(self) -> int:
        return sum(map(len, self.fed))


def families_of(
    sequences: Sequence[Sequence[int]], n_scored: Sequence[int]
) -> dict[Tokens, Family]:
    """Requests by context: all that is fed up to the position that predicts the first target."""
    families: dict[Tokens, Family] = {}
    for request, (sequence, count) in enumerate(zip(sequences, n_scored, strict=True)):
        cut = len(sequence) - count + 1
        family = families.setdefault(tuple(sequence[:cut]), Family())
        family.fed.setdefault(tuple(sequence[cut:]), []).append(request)
    return families


def n_fed_by_families(sequences: Sequence[Sequence[int]], n_scored: Sequence[int]) -> int:
    """Tokens computed on this path."""
    families = families_of(sequences, n_scored)
    return sum(len(context) + family.n_fed for context, family in families.items())


class SharedPath:
    """Scores continuations after contexts that are read once."""

    def __init__(self, model: Any, *, softmax: torch.dtype = torch.float32) -> None:
        self._model = model
        self._softmax = softmax

    def scores(
        self, sequences: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], *, budget: int
    ) -> Iterator[list[tuple[int, Scores]]]:
        """Scores of each request by its index, whenever `budget` tokens were computed.

        Request i feeds `sequences[i]`, whose last positions predict `targets[i]`. A context is one
        forward pass, however long. Raises ModelError for a model without a memory.
        """
        done: list[tuple[int, Scores]] = []
        computed = 0
        for context, family in families_of(sequences, list(map(len, targets))).items():
            done += self._scores(context, family, targets)
            computed += len(context) + family.n_fed
            if computed >= budget:
                yield done
                done, computed = [], 0
        if done:
            yield done

    @torch.inference_mode()
    def _scores(
        self, context: Tokens, family: Family, targets: Sequence[Sequence[int]]
    ) -> list[tuple[int, Scores]]:
        output = self._model(self._row(context), use_cache=True)
        first = output.logits[0, -1:]
        name = next((one for one in MEMORIES if getattr(output, one, None) is not None), None)
        waiting = [fed for fed in family.fed if fed]
        if waiting and name is None:
            raise NotImplementedError("the model keeps nothing between two calls")
        memory = getattr(output, name or "", None)
        done = [
            scored
            for request in family.fed.get((), ())
            for scored in scores_of(
                first, [(request, 0, targets[request][0])], softmax=self._softmax
            )
        ]
        for fed in waiting:
            own = memory if fed is waiting[-1] else copy.deepcopy(memory)
            after = self._model(self._row(fed), use_cache=True, **{str(name): own}).logits[0]
            asked = [
                (request, row, token)
                for request in family.fed[fed]
                for row, token in enumerate(targets[request])
            ]
            done += scores_of(torch.cat([first, after]), asked, softmax=self._softmax)
        return done

    def _row(self, tokens: Tokens) -> Tensor:
        return torch.tensor([tokens], device=self._model.device)
