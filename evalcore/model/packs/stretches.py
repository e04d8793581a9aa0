"""The blocks of a pack in few calls of a kernel that takes stretches of any length at once.

An accelerator is asked seldom and for much: a thousand blocks of some rows each would keep it
waiting for a thousand times a dozen small operations, in every layer. Blocks whose rows do not meet
are one *call*: first the own blocks, all of them together; then, as often as blocks lie within
blocks, those in which rows meet their ancestors. The kernel is FlashAttention (Dao 2023), which
PyTorch brings; it takes half precision alone, and no mask. What it cannot do is left to be asked
block by block (`attention.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evalcore.model.packs.prefix import Pack, Piece
from evalcore.model.packs.rectangles import Block, Blocks, blocks_of

LARGEST_HEAD = 256
"""Numbers of a head that the kernel takes at most, and a multiple of these:"""
STEP = 8

OLDEST = (8, 0)
"""Of the compute capabilities that it was built for."""


class Stretches:
    """Places of a pack or of a path, one stretch after another."""

    def __init__(self, stretches: Sequence[tuple[int, int]], device: torch.device) -> None:
        starts, ends = np.array(stretches, np.int64).T
        # Never 1: for rows that are alone in their stretches the kernel lays out heads otherwise.
        self.longest = max(2, int((ends - starts).max()))
        borders = np.concatenate([[0], np.cumsum(ends - starts)])
        self.borders = torch.from_numpy(borders.astype(np.int32)).to(device)
        """(stretches + 1,): where each begins once they are laid side by side."""
        self.places: slice | Tensor
        if (starts[1:] == ends[:-1]).all():
            self.places = slice(int(starts[0]), int(ends[-1]))
        else:
            apart = np.repeat(starts - borders[:-1], ends - starts)
            self.places = torch.from_numpy(apart + np.arange(borders[-1])).to(device)

    def of(self, states: Tensor) -> Tensor:
        """From (1, heads, n, size) to (places, heads, size)."""
        if isinstance(self.places, slice):
            return states[0, :, self.places].transpose(0, 1)
        return states[0].index_select(1, self.places).transpose(0, 1)


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """Blocks whose rows do not meet."""

    rows: Stretches
    keys: Stretches
    inherited: bool = False
    causal: bool = False
    window: int | None = None
    """Of causal ones: how many keys a row sees, its own included."""


@dataclass(frozen=True, eq=False, slots=True)
class Calls:
    """A pack's blocks: what is asked together, and what is left."""

    own: Call | None
    cross: tuple[Call, ...]
    rest: Blocks


def takes(query: Tensor, value: Tensor, softcap: float | None) -> bool:
    """Whether the kernel can answer for such queries and values, where it can be asked at all."""
    size = query.shape[-1]
    return (
        query.device.type == "cuda"
        and torch.version.hip is None
        and query.dtype in (torch.float16, torch.bfloat16)
        and softcap is None
        and value.shape[-1] == size <= LARGEST_HEAD
        and size % STEP == 0
        and torch.cuda.get_device_capability(query.device) >= OLDEST
        and torch.backends.cuda.is_flash_attention_available()
    )


def calls_of(
    pack: Pack, pieces: Sequence[Piece], device: torch.device, *, window: int | None = None
) -> Calls:
    """The calls for a pack, of whose plan these are the pieces; `window` as of `blocks_of`.

    Left are blocks in which the window hides some keys from some rows.
    """
    # Without tiles, which have masks. A run is a stretch of positions, too, so that a window in it
    # needs none.
    own = blocks_of(pack, pieces, tile=0).own
    cross = blocks_of(pack, pieces, window=window, tile=0).cross
    runs = Stretches([block.rows for block in own], device)
    seen_whole = [block for block in cross if block.mask is None]
    return Calls(
        Call(runs, runs, causal=True, window=window),
        tuple(
            Call(
                Stretches([block.rows for block in group], device),
                Stretches([block.keys for block in group], device),
                inherited=group[0].inherited,
            )
            for group in _groups(seen_whole, len(pack.tokens))
        ),
        Blocks((), tuple(block for block in cross if block.mask is not None)),
    )


def _groups(blocks: Iterable[Block], most_keys: int) -> list[list[Block]]:
    """Blocks whose rows do not meet, in as few groups as there are; keys that stretches have in
    common are copied for each, so a group ends before it has more of them than the pack has."""
    groups: list[list[Block]] = []
    n_keys: list[int] = []
    for block in sorted(blocks, key=lambda block: (block.inherited, block.rows)):
        size = block.keys[1] - block.keys[0]
        for number, group in enumerate(groups):
            last = group[-1]
            if (
                last.inherited == block.inherited
                and last.rows[1] <= block.rows[0]
                and n_keys[number] + size <= most_keys
            ):
                group.append(block)
                n_keys[number] += size
                break
        else:
            groups.append([block])
            n_keys.append(size)
    return groups


def answered(
    call: Call, query: Tensor, key: Tensor, value: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """As `attention.softmax_attention`, for the rows of a call."""
    out, logsumexp = flash(call.rows.of(query), call.keys.of(key), call.keys.of(value), call, scale)
    return out.transpose(0, 1)[None], logsumexp[None]


def flash(
    query: Tensor, key: Tensor, value: Tensor, call: Call, scale: float
) -> tuple[Tensor, Tensor]:
    """From (rows, heads, size), (keys, heads of keys, size) and as many values to (rows, heads,
    size) and (heads, rows).

    By the operator behind `torch.nn.attention.varlen.varlen_attn`, whose own arguments change from
    one version of PyTorch to the next.
    """
    out, logsumexp, *_ = torch.ops.aten._flash_attention_forward(
        *(query, key, value, call.rows.borders, call.keys.borders),
        *(call.rows.longest, call.keys.longest),
        *(0.0, call.causal, False),
        scale=scale,
        **({} if call.window is None else {"window_size_left": call.window - 1}),
    )
    return out, logsumexp
