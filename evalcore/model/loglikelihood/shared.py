"""Each context fed once, its continuations after it, by the model's own memory of what it read.

For models whose layers are not attention, or attention of a kind of their own: whatever a model
keeps between two calls (keys and values, states) is copied for each continuation but the last.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evalcore.model.forward.head import Scores, ScoresByRequest
from evalcore.model.forward.plain import Rows, Tokens, scores_of

MEMORIES = ("past_key_values", "cache_params", "state")
"""What models call their memory, in their outputs as in their arguments."""

Family = dict[Tokens, list[int]]
"""The continuations of one context: what each feeds, and the requests that it answers."""


def families_of(sequences: Rows, targets: Rows) -> dict[Tokens, Family]:
    """Requests by context: all that is fed up to the position that predicts the first target."""
    families: dict[Tokens, Family] = defaultdict(dict)
    for request, (sequence, asked) in enumerate(zip(sequences, targets, strict=True)):
        cut = len(sequence) - len(asked) + 1
        families[tuple(sequence[:cut])].setdefault(tuple(sequence[cut:]), []).append(request)
    return families


def n_fed(context: Tokens, family: Family) -> int:
    """Tokens that are computed for a context and its continuations."""
    return len(context) + sum(map(len, family))


@dataclass(frozen=True)
class SharedPath:
    """Scores continuations after contexts that are read once."""

    model: Any
    softmax: torch.dtype = torch.float32

    def scores(self, sequences: Rows, targets: Rows, *, budget: int) -> ScoresByRequest:
        """Scores of each request by its index, whenever `budget` tokens were computed.

        Request i feeds `sequences[i]`, whose last positions predict `targets[i]`. A context is one
        forward pass, however long. Raises ModelError for a model without a memory.
        """
        done: list[tuple[int, Scores]] = []
        computed = 0
        for context, family in families_of(sequences, targets).items():
            done += self._scores(context, family, targets)
            computed += n_fed(context, family)
            if computed >= budget:
                yield done
                done, computed = [], 0
        if done:
            yield done

    @torch.inference_mode()
    def _scores(self, context: Tokens, family: Family, targets: Rows) -> list[tuple[int, Scores]]:
        output = self.model(self._row(context), use_cache=True)
        first = output.logits[0, -1:]
        name = next(
            (memory for memory in MEMORIES if getattr(output, memory, None) is not None), None
        )
        waiting = [fed for fed in family if fed]
        if waiting and name is None:
            raise NotImplementedError("the model keeps nothing between two calls")
        memory = getattr(output, name or "", None)
        done = [
            scored
            for request in family.get((), ())
            for scored in scores_of(
                first, [(request, 0, targets[request][0])], softmax=self.softmax
            )
        ]
        for fed in waiting:
            own = memory if fed is waiting[-1] else copy.deepcopy(memory)
            after = self.model(self._row(fed), use_cache=True, **{str(name): own}).logits[0]
            asked = [
                (request, row, token)
                for request in family[fed]
                for row, token in enumerate(targets[request])
            ]
            done += scores_of(torch.cat([first, after]), asked, softmax=self.softmax)
        return done

    def _row(self, tokens: Tokens) -> Tensor:
        return torch.tensor([tokens], device=self.model.device)
