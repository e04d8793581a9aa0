"""Which rows of a pack attend which keys: the attention of a tree, in a few rectangles.

A token attends itself and its ancestors. As one mask that would be a square over the whole pack,
nearly all of it empty. It is cut into blocks instead, each one call of an attention operator:

- a *run* is a chain of pieces, each the first child of the one before, so that it lies in the pack
  as one stretch: plain causal attention;
- a *tile* holds small subtrees that lie side by side: one masked call for all of them;
- what hangs off a run sideways attends the run's stretch down to where it branches off, without a
  mask; and so does every row the path to the pack's first token that earlier packs computed.

Each row is in one run or tile (an *own* block). The blocks in which it meets the rest of its
ancestors (*cross* blocks) are merged into that one by their log-sum-exp (`attention.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evalcore.model.packs.prefix import Inherited, Pack, Piece

TILE, TILE_GPU = 64, 512
"""Most rows of a tile on a CPU and on an accelerator: larger ones compute more that the mask hides,
smaller ones cost calls, of which an accelerator could do a hundred small ones' work in one."""

WINDOW_ROWS = 512
"""Most rows of a block with a window, so that its mask stays small and few hidden keys are read."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows and keys of one call: stretches of the pack's tokens, the last not included."""

    rows: tuple[int, int]
    keys: tuple[int, int]
    """Of inherited keys these are positions in the sequence, which begins with them."""
    inherited: bool = False
    causal: bool = False
    """Rows and keys are one stretch, and each row sees what is not after it."""
    mask: NDArray[np.bool_] | None = None
    """(rows, keys): whether the row sees the key. None: each sees all, or what `causal` says."""


@dataclass(frozen=True, slots=True)
class Blocks:
    own: tuple[Block, ...]
    """They cover each row of the pack once, and each row sees at least itself."""
    cross: tuple[Block, ...]


def blocks_of(
    pack: Pack, pieces: Sequence[Piece], *, window: int | None = None, tile: int = TILE
) -> Blocks:
    """The blocks of a pack, of whose plan these are the pieces.

    With a `window` a row sees that many positions, its own included; `tile` has the most rows of a
    tile.
    """
    own, cross = _tree_blocks([pieces[index] for index in pack.pieces], tile)
    cross += _inherited_blocks(pack.inherited, pieces)
    if window is None or int(pack.positions.max()) < window:
        return Blocks(tuple(own), tuple(cross))
    return Blocks(
        tuple(
            part for block in own for part in _own_in_window(block, pack.positions, window, tile)
        ),
        tuple(part for block in cross for part in _cross_in_window(block, pack.positions, window)),
    )


@dataclass(slots=True)
class _Branching:
    """A piece of a run, for those of its descendants that are not in the run."""

    run_start: int
    body_end: int
    rows_start: int
    rows_end: int


def _tree_blocks(pieces: Sequence[Piece], most_rows: int) -> tuple[list[Block], list[Block]]:
    """Own and cross blocks among the pieces of one pack, given in depth-first order."""
    own: list[Block] = []
    branchings: list[_Branching] = []
    tile: list[Piece] = []
    tile_end = run_start = run_end = 0

    def close_tile() -> None:
        if tile:
            own.append(_tile(tile, tile_end))
            tile.clear()

    def close_run() -> None:
        if run_end > run_start:
            own.append(Block((run_start, run_end), (run_start, run_end), causal=True))

    for piece in pieces:
        if tile and piece.start < tile_end:
            tile.append(piece)
        elif piece.end - piece.start <= most_rows:
            close_run()
            run_start = run_end
            if tile and piece.end - tile[0].start > most_rows:
                close_tile()
            tile.append(piece)
            tile_end = piece.end
        else:
            close_tile()
            first_child = run_end > run_start and piece.start < branchings[-1].rows_end
            if first_child:
                branchings[-1].rows_start = piece.end
            else:
                close_run()
                run_start = piece.start
            run_end = piece.start + piece.length
            branchings.append(_Branching(run_start, run_end, run_end, piece.end))
    close_tile()
    close_run()
    cross = [
        Block((branching.rows_start, branching.rows_end), (branching.run_start, branching.body_end))
        for branching in branchings
        if branching.rows_start < branching.rows_end
    ]
    return own, cross


def _tile(pieces: Sequence[Piece], end: int) -> Block:
    start = pieces[0].start
    rows = (start, end)
    if len(pieces) == 1:
        return Block(rows, rows, causal=True)
    mask = np.zeros((end - start, end - start), np.bool_)
    for piece in pieces:
        mask[piece.start - start : piece.end - start, piece.start - start :][:, : piece.length] = (
            True
        )
    return Block(rows, rows, mask=np.tril(mask))


def _inherited_blocks(inherited: Sequence[Inherited], pieces: Sequence[Piece]) -> list[Block]:
    """What earlier packs computed is the path to the first token: key i of it is at position i.

    The deeper a piece of the path, the fewer rows descend from it; each row gets one block.
    """
    blocks: list[Block] = []
    position = 0
    for branching in inherited:
        position += pieces[branching.piece].length
        if blocks and blocks[-1].rows[1] == branching.end:
            blocks.pop()
        elif blocks:
            blocks[-1] = replace(blocks[-1], rows=(branching.end, blocks[-1].rows[1]))
        blocks.append(Block((0, branching.end), (0, position), inherited=True))
    return blocks


def _own_in_window(
    block: Block, positions: NDArray[np.int64], window: int, tile: int
) -> Iterator[Block]:
    start, stop = block.rows
    if block.mask is not None:
        at = positions[start:stop]
        yield replace(block, mask=block.mask & (at[:, None] - at[None, :] < window))
    elif stop - start <= window:
        yield block
    else:
        step = min(max(window, tile), WINDOW_ROWS)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            oldest = max(start, first - window + 1)
            distance = np.arange(first, last)[:, None] - np.arange(oldest, last)[None, :]
            mask = (distance >= 0) & (distance < window)
            yield Block((first, last), (oldest, last), mask=mask)


def _cross_in_window(block: Block, positions: NDArray[np.int64], window: int) -> Iterator[Block]:
    first_key, last_key = block.keys
    # The keys of a block are one path, so their positions follow each other.
    ahead = 0 if block.inherited else int(positions[first_key]) - first_key
    for first in range(*block.rows, WINDOW_ROWS):
        last = min(first + WINDOW_ROWS, block.rows[1])
        at = positions[first:last]
        oldest = max(first_key, int(at.min()) - window + 1 - ahead)
        if oldest >= last_key:
            continue
        mask = at[:, None] - (np.arange(oldest, last_key) + ahead)[None, :] < window
        yield replace(
            block,
            rows=(first, last),
            keys=(oldest, last_key),
            mask=None if mask.all() else mask,
        )
