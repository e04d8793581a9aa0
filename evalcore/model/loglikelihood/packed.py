"""Loglikelihoods in packs: each distinct prefix of all requests is computed once.

`prefix.py` says which tokens share a forward pass, `attention.py` lets each see its own ancestors
and nothing else, and `head.py` reads the rows that are asked for. The model itself runs unchanged:
it is fed one long row whose position ids say where in its sequence each token stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evalcore.model.forward.head import Scores, ScoresByRequest, read, rows_at_once
from evalcore.model.forward.last_step import way_to_logits
from evalcore.model.forward.plain import Rows
from evalcore.model.packs import attention
from evalcore.model.packs.attention import AttentionPass, KeysAndValues, Pass
from evalcore.model.packs.prefix import Pack, Plan, plan


class AskedInPasses:
    """A model whose layers leave their attention to a pass of ours."""

    def __init__(self, model: Any) -> None:
        self._device = model.get_input_embeddings().weight.device
        self._configurations = configurations_of(model)
        self._layers = int(model.config.get_text_config().num_hidden_layers)

    def output(self, part: Any, one: Pass, tokens: Tensor, positions: Tensor) -> Any:
        """What the model, or its base, says of one row of tokens at these positions.

        Raises NotImplementedError for a model that does not leave all its attention to
        `transformers`.
        """
        with attention_of_packs(self._configurations), attention.during(one):
            output = part(
                input_ids=tokens[None].to(self._device),
                position_ids=positions[None].to(self._device),
                use_cache=False,
            )
        if one.calls != self._layers:
            raise NotImplementedError(
                f"the model has {self._layers} layers and asked for attention {one.calls} times"
            )
        return output


class PackRunner:
    """Runs the packs of one plan, in order; of what it computed it holds what later packs need."""

    def __init__(self, model: Any, plan: Plan) -> None:
        self.kept: dict[int, list[KeysAndValues]] = {}
        """Piece to the keys and values of its tokens, a layer each."""
        self._model = model
        self._plan = plan
        self._asked = AskedInPasses(model)

    @torch.inference_mode()
    def run(self, pack: Pack, *, keep: Collection[int] = ()) -> Any:
        """What the model's base says of the pack: `last_hidden_state` is of shape (1, n, width).

        Pieces of the pack that `keep` names stay in `kept` until the caller takes them out.
        """
        one = AttentionPass(
            self._plan,
            pack,
            inherited=[self.kept[above.piece] for above in pack.inherited],
            keep={*pack.kept, *keep},
        )
        output = self._asked.output(
            self._model.base_model,
            one,
            torch.from_numpy(pack.tokens),
            torch.from_numpy(pack.positions),
        )
        self.kept.update(one.kept)
        for piece in pack.freed:
            del self.kept[piece]
        return output


@dataclass(frozen=True)
class PackedPath:
    """Scores requests in packs."""

    model: Any
    through_head: bool
    """Whether logits are what the output embeddings alone make of hidden rows; else the model's own
    way from hidden rows to logits is taken, with all it does there."""
    softmax: torch.dtype = torch.float32

    def scores(self, sequences: Rows, targets: Rows, *, budget: int) -> ScoresByRequest:
        """Scores of each request, with its index, as soon as its last target is read.

        The last `len(targets[i])` positions of `sequences[i]` predict `targets[i]`. No forward pass
        has more than `budget` tokens. Raises ModelError for a model whose output is not a number,
        NotImplementedError for one that cannot be computed in packs, and ValueError as `plan`.
        """
        counts = [len(tokens) for tokens in targets]
        todo = plan(sequences, counts, budget=budget)
        first = np.concatenate([[0], np.cumsum(counts)])
        tokens = np.fromiter((token for target in targets for token in target), np.int64, first[-1])
        logprobs = np.empty(len(tokens), np.float32)
        greedy = np.empty(len(tokens), np.bool_)
        runner = PackRunner(self.model, todo)
        for pack in todo.packs:
            output = runner.run(pack)
            if not len(pack.rows):
                continue
            row, request, ordinal = pack.reads.T
            places = first[request] + ordinal
            logprobs[places], greedy[places] = self._read(output, pack, row, tokens[places])
            if pack.done:
                yield [
                    (
                        index,
                        Scores(
                            tuple(logprobs[first[index] : first[index + 1]].tolist()),
                            bool(greedy[first[index] : first[index + 1]].all()),
                        ),
                    )
                    for index in pack.done
                ]

    @torch.inference_mode()
    def _read(
        self, output: Any, pack: Pack, rows: NDArray[np.int64], targets: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        states = output.last_hidden_state
        hidden = states[0, torch.from_numpy(pack.rows).to(states.device)]
        embeddings = self.model.get_output_embeddings()
        at_once = rows_at_once(embeddings.weight.shape[0], device=hidden.device.type)
        scored = partial(
            read, hidden, rows=rows, targets=targets, at_once=at_once, softmax=self.softmax
        )
        with way_to_logits(self.model, output, through_head=self.through_head) as to_logits:
            return scored(to_logits)


@contextmanager
def attention_of_packs(configs: Sequence[Any]) -> Iterator[None]:
    """Meanwhile layers with these configurations ask `attention.packed_attention` for attention.

    Set and unset for each pass, so that the model is as it was whenever another has it in hand.
    """
    before = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation = attention.NAME
        yield
    finally:
        for config, name in zip(configs, before, strict=True):
            config._attn_implementation = name


def configurations_of(model: Any) -> list[Any]:
    """Of the model and its parts, the outer before the inner ones, on which setting one acts."""
    found = {
        id(module.config): module.config
        for module in model.modules()
        if hasattr(getattr(module, "config", None), "_attn_implementation")
    }
    return list(found.values())
