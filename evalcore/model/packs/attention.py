"""Attention over one pack of a prefix tree, for any model that asks `transformers` for attention.

The function is registered in `transformers`' table of attention functions. What it is handed is all
that a model says of its attention: queries, keys and values as they are after the position
embedding, and numbers such as scale, window or soft cap. There is no mask, nor a need of one: which
rows see which keys follows from the pack (`rectangles.py`).

Exact, not approximate: the softmax over a union of key sets follows from the softmaxes over the
sets and their log-sum-exps (online softmax, Milakov and Gimelshein 2018; over shared prefixes:
Hydragen, Juravsky et al. 2024).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.model.packs import stretches
from evalcore.model.packs.prefix import Pack, Plan
from evalcore.model.packs.rectangles import TILE, TILE_GPU, Block, blocks_of
from evalcore.model.packs.stretches import Call, Calls

NAME = "evalcore_packed"
"""Under which `transformers` knows the attention of a pack."""

HARMLESS = frozenset({"position_ids", "use_cache", "output_attentions", "output_hidden_states"})
"""What models pass on to their attention function and what does not change its answer."""

SCORES_AT_ONCE, SCORES_AT_ONCE_GPU = 1 << 22, 1 << 25
"""Scores (row, key, head) that the eager way holds at a time: 16 and 128 MiB in float32."""

KeysAndValues = tuple[Tensor, Tensor]
"""Of one layer: (1, heads of keys, tokens, size) and (1, heads of keys, tokens, size of values)."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a layer says of its attention besides queries, keys and values."""

    scale: float
    window: int | None
    softcap: float | None
    sinks: Tensor | None
    """A score for each head, which takes part in the softmax and adds nothing to the sum."""


class Pass:
    """A forward pass whose layers are answered one after another, the same in each pass."""

    def __init__(self) -> None:
        self.calls = 0
        """How many layers have asked for attention so far."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, said: Said) -> Tensor:
        """Of one layer: from (1, heads, n, size) to (1, n, heads, size of values)."""
        raise NotImplementedError


class AttentionPass(Pass):
    """One forward pass over one pack: what its attention reads, and what it leaves behind."""

    def __init__(
        self,
        plan: Plan,
        pack: Pack,
        *,
        inherited: Sequence[Sequence[KeysAndValues]] = (),
        keep: Collection[int] = (),
    ) -> None:
        """`inherited` has the layers of each piece of `pack.inherited`, by depth; `keep` names the
        pieces of the pack whose keys and values are wanted."""
        super().__init__()
        self.kept: dict[int, list[KeysAndValues]] = {piece: [] for piece in keep}
        """Piece to its layers, in the order in which they asked."""
        self._plan = plan
        self._pack = pack
        self._inherited = inherited
        self._calls: dict[tuple[int | None, bool, torch.device], Calls] = {}
        """By the window, whether `stretches` takes such heads, and where the layer lies."""
        self._masks: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, said: Said) -> Tensor:
        n = len(self._pack.tokens)
        if query.shape[0] != 1 or query.shape[2] != n or key.shape[2] != n:
            raise NotImplementedError(f"attention over other rows than the pack's {n}")
        self._keep(key, value)
        path = joined([piece[layer] for piece in self._inherited] or [(key, value)])
        calls = self._calls_of(query, value, said)
        wide = torch.promote_types(query.dtype, torch.float32)
        # Laid out as the model wants it back, so that turning the heads inwards copies nothing.
        out = query.new_empty((1, n, query.shape[1], value.shape[3]), dtype=wide).transpose(1, 2)
        logsumexp = query.new_empty((1, query.shape[1], n), dtype=wide)

        def asked(call: Call) -> tuple[Tensor, Tensor]:
            return stretches.answered(
                call, query, *(path if call.inherited else (key, value)), said.scale
            )

        def answer(block: Block) -> tuple[Tensor, Tensor]:
            keys, values = path if block.inherited else (key, value)
            stretch = slice(*block.keys)
            return softmax_attention(
                query[:, :, slice(*block.rows)],
                keys[:, :, stretch],
                values[:, :, stretch],
                scale=said.scale,
                causal=block.causal,
                hidden=self._hidden(block, query),
                softcap=said.softcap,
            )

        if calls.own is not None:
            part, part_logsumexp = asked(calls.own)
            out.copy_(part)
            logsumexp.copy_(part_logsumexp)
        for block in calls.rest.own:
            rows = slice(*block.rows)
            out[:, :, rows], logsumexp[:, :, rows] = answer(block)
        for call in calls.cross:
            places = call.rows.places
            # Views where the places are one stretch, copies where they are not.
            some, some_logsumexp = out[:, :, places], logsumexp[:, :, places]
            _merge(some, some_logsumexp, *asked(call))
            if not isinstance(places, slice):
                out[:, :, places], logsumexp[:, :, places] = some, some_logsumexp
        for block in calls.rest.cross:
            rows = slice(*block.rows)
            _merge(out[:, :, rows], logsumexp[:, :, rows], *answer(block))
        if said.sinks is not None:
            out *= torch.sigmoid(logsumexp - said.sinks.to(wide).reshape(1, -1, 1)).unsqueeze(-1)
        return out.transpose(1, 2).to(query.dtype)

    def _calls_of(self, query: Tensor, value: Tensor, said: Said) -> Calls:
        fused = stretches.takes(query, value, said.softcap)
        name = said.window, fused, query.device
        if name not in self._calls:
            of_pack = self._pack, self._plan.pieces
            if fused:
                calls = stretches.calls_of(*of_pack, query.device, window=said.window)
            else:
                tile = TILE if query.device.type == "cpu" else TILE_GPU
                calls = Calls(None, (), blocks_of(*of_pack, window=said.window, tile=tile))
            self._calls[name] = calls
        return self._calls[name]

    def _keep(self, key: Tensor, value: Tensor) -> None:
        for index, layers in self.kept.items():
            piece = self._plan.pieces[index]
            stretch = slice(piece.start, piece.start + piece.length)
            layers.append((key[:, :, stretch].clone(), value[:, :, stretch].clone()))

    def _hidden(self, block: Block, query: Tensor) -> Tensor | None:
        """The block's mask as what is added to the scores: 0, or minus infinity where hidden."""
        if block.mask is None:
            return None
        name = (id(block.mask), query.dtype, query.device)
        if name not in self._masks:
            self._masks[name] = hiding(~torch.from_numpy(block.mask).to(query.device), query)
        return self._masks[name]


def hiding(hidden: Tensor, like: Tensor) -> Tensor:
    """What is added to scores: 0, or minus infinity where a key is hidden."""
    added = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    return added.masked_fill_(hidden, float("-inf"))


def joined(pieces: Sequence[KeysAndValues]) -> KeysAndValues:
    """Keys and values of pieces that go on from each other."""
    if len(pieces) == 1:
        return pieces[0]
    keys, values = [key for key, _ in pieces], [value for _, value in pieces]
    return torch.cat(keys, dim=2), torch.cat(values, dim=2)


def softmax_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    causal: bool = False,
    hidden: Tensor | None = None,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of one block and the log-sum-exp of each row's scores.

    Shapes (1, heads, rows, size), (1, heads of keys, keys, size) and (1, heads of keys, keys, size
    of values), where the heads of keys divide the heads; (rows, keys) of `hidden`, added to the
    scores. Gives (1, heads, rows, size of values), and (1, heads, rows) in at least float32. A row
    that sees no key has zeros and a log-sum-exp of minus infinity.
    """
    if query.device.type == "cpu" and softcap is None:
        return _cpu_flash(query, key, value, scale, causal, hidden)
    return _eager(query, key, value, scale, causal, hidden, softcap)


def _cpu_flash(
    query: Tensor, key: Tensor, value: Tensor, scale: float, causal: bool, hidden: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The operator behind `scaled_dot_product_attention`, which gives the log-sum-exp, too.

    It wants heads of one size: zeros at the end of a query, key or value change nothing.
    """
    size, value_size = query.shape[-1], value.shape[-1]
    if value_size < size:
        value = torch.nn.functional.pad(value, (0, size - value_size))
    elif size < value_size:
        query = torch.nn.functional.pad(query, (0, value_size - size))
        key = torch.nn.functional.pad(key, (0, value_size - size))
    out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=hidden, scale=scale
    )
    out = out[..., :value_size]
    if hidden is not None:
        blind = (hidden == float("-inf")).all(dim=-1)
        logsumexp = logsumexp.masked_fill(blind, float("-inf"))
        out = out.masked_fill(blind[:, None], 0.0)
    return out, logsumexp


def _eager(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    causal: bool,
    hidden: Tensor | None,
    softcap: float | None,
) -> tuple[Tensor, Tensor]:
    """Attention in plain operations, some rows at a time.

    Scores are float32 from the start, as they are inside a fused kernel: rounded to half precision
    they would be off by more than all else that it rounds. Heads that share keys are rows of one
    product, so that no keys are copied for them.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    n, heads, rows, size = query.shape
    n_kept, n_keys = key.shape[1:3]
    sharing = n, n_kept, heads // n_kept
    grouped = query.to(wide).view(*sharing, rows, size)
    turned = key.to(wide).transpose(2, 3)
    most = SCORES_AT_ONCE if query.device.type == "cpu" else SCORES_AT_ONCE_GPU
    step = max(1, most // (n * heads * n_keys))
    parts, logsumexps = [], []
    for first in range(0, rows, step):
        asking = grouped[:, :, :, first : first + step].flatten(2, 3)
        # (sequences, heads of keys, heads that share them, rows, keys); all that follows in place.
        scores = (asking @ turned).view(*sharing, -1, n_keys).mul_(scale)
        if softcap is not None:
            scores.div_(softcap).tanh_().mul_(softcap)
        if hidden is not None:
            some = hidden if hidden.shape[-2] == 1 else hidden[..., first : first + step, :]
            scores += some.unsqueeze(-3)
        if causal:
            later = torch.ones(scores.shape[3:], dtype=torch.bool, device=scores.device)
            scores.masked_fill_(later.triu_(first + 1), float("-inf"))
        logsumexp = scores.logsumexp(dim=-1)
        # Of a row that sees no key every score is minus infinity, whose weight is zero.
        base = logsumexp.masked_fill(logsumexp == float("-inf"), 0.0)
        weights = scores.sub_(base.unsqueeze(-1)).exp_().to(value.dtype)
        part = (weights.flatten(2, 3) @ value).view(*sharing, -1, value.shape[3])
        parts.append(part.flatten(1, 2))
        logsumexps.append(logsumexp.flatten(1, 2))
    if len(parts) == 1:
        return parts[0], logsumexps[0]
    return torch.cat(parts, dim=2), torch.cat(logsumexps, dim=2)


def _merge(out: Tensor, logsumexp: Tensor, part: Tensor, part_logsumexp: Tensor) -> None:
    """Take another block's answer for the same rows into `out` and `logsumexp`, in place."""
    share = torch.sigmoid(part_logsumexp - logsumexp).unsqueeze(-1)
    out.lerp_(part.to(out.dtype), share)
    torch.logaddexp(logsumexp, part_logsumexp, out=logsumexp)


_current: ContextVar[Pass | None] = ContextVar("attention of a pass", default=None)
"""The forward pass under way. Not every architecture hands keywords of ours down to its layers."""


@contextmanager
def during(one: Pass) -> Iterator[None]:
    """In this thread and meanwhile, the registered function answers for this pass."""
    token = _current.set(one)
    try:
        yield
    finally:
        _current.reset(token)


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What `transformers` calls in each layer; its arguments have the names used there.

    Raises NotImplementedError for whatever might change the answer and is not known here: a wrong
    answer would look like any other.
    """
    one = _current.get()
    if one is None:
        raise NotImplementedError("attention of a pack, asked outside of a pass over one")
    unknown = sorted(
        name for name, what in others.items() if what is not None and name not in HARMLESS
    )
    if attention_mask is not None:
        unknown.append("attention_mask")
    if dropout:
        unknown.append("dropout")
    if is_causal is False or (is_causal is None and not getattr(module, "is_causal", True)):
        unknown.append("attention that is not causal")
    if getattr(getattr(module, "config", None), "attention_chunk_size", None) is not None:
        unknown.append("attention_chunk_size")
    if unknown:
        raise NotImplementedError(f"{type(module).__name__} asks for {', '.join(unknown)}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer, one.calls = one.calls, one.calls + 1
    said = Said(scale, sliding_window, softcap, s_aux)
    return one.attend(layer, query, key, value, said), None


ALL_ATTENTION_FUNCTIONS.register(NAME, packed_attention)
