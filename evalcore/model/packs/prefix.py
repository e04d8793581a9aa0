"""Which tokens are computed, and which of them together: each distinct prefix once.

Packs are consecutive runs of at most a budget of tokens of a trie in depth-first preorder, where
every subtree is contiguous. So what a pack needs of earlier ones is a single open path, and keys
and values are kept for nothing else.

Sources: sharing by a radix tree is that of SGLang (Zheng et al. 2023, arXiv 2312.07104), and
planning it over requests that are all known that of BatchLLM (Zheng et al. 2024, arXiv 2412.03594).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np

from evalcore.model.packs.trie import Ints, Trie

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens that the same sequences share: a trie node, or a part of one.

    A node is parted where it is longer than the budget. No piece lies in two packs.
    """

    start: int
    """Where it begins in its pack's tokens."""
    length: int
    end: int
    """Where in the pack's tokens its descendants of the same pack end; they begin after it."""
    depth: int
    """Position in its sequences of its first token."""
    parent: int
    """Index in `Plan.pieces` of the piece that it goes on from; -1 at the root."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """An ancestor in an earlier pack; the pack's tokens up to `end` descend from it."""

    piece: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """What is computed in one forward pass, and what is kept for later ones."""

    tokens: Ints
    """Shape (n,), n at most the budget."""
    positions: Ints
    """Shape (n,): the place of each token in its sequences."""
    pieces: range
    """Of `Plan.pieces`, in depth-first preorder; together they are all of `tokens`, in order."""
    inherited: tuple[Inherited, ...]
    """From the root down; one after the other they are a path without a gap from position 0."""
    rows: Ints
    """Shape (r,): places in `tokens` whose logits are read, ascending, each once."""
    reads: Ints
    """Shape (m, 3): index into `rows`, request, ordinal among the request's scored positions."""
    kept: tuple[int, ...]
    """Pieces of this pack whose keys and values a later pack inherits."""
    freed: tuple[int, ...]
    """Pieces inherited by this pack that no later pack inherits."""
    done: tuple[int, ...]
    """Requests whose last read is in this pack."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Packs in the order in which they are to be computed.

    From one to the next, keys and values of one path are kept, which has fewer tokens than the
    longest sequence; while a pack is computed, also what it will keep of its own tokens. Pieces and
    packs are made when asked for, each time anew, from arrays of four bytes a number.
    """

    pieces: Sequence[Piece]
    packs: Sequence[Pack]
    n_unique: int
    """Tokens computed: the number of distinct prefixes."""


def plan(sequences: Sequence[Sequence[int]], n_scored: Sequence[int], *, budget: int) -> Plan:
    """Packs of at most `budget` tokens in which request i feeds `sequences[i]`.

    The last `n_scored[i]` positions of request i are read. Raises ValueError for a budget below 1,
    an empty sequence, a token outside 0 to 2**32 - 1, and `n_scored[i]` outside 1 to the length.
    """
    if budget < 1:
        raise ValueError(f"a budget of {budget} tokens must be at least 1")
    trie = Trie(sequences, n_scored)
    packs = _Packs(trie, _borders(trie, budget))
    return Plan(
        pieces=_Made(packs.piece, len(packs.pieces.starts)),
        packs=_Made(packs.pack, len(packs.borders) - 1),
        n_unique=len(trie.tokens),
    )


class _Pieces:
    """A trie cut into runs; arrays of shape (pieces,), in preorder."""

    def __init__(self, trie: Trie, borders: Ints) -> None:
        """Cut where sequences part or end, and at `borders`."""
        begins = np.zeros(len(trie.tokens) + 1, bool)
        begins[trie.added_at] = begins[trie.above + 1] = begins[borders] = True
        self.starts: Ints = np.flatnonzero(begins[:-1])
        self.lengths: Ints = np.diff(self.starts, append=len(trie.tokens))
        addition = np.searchsorted(trie.added_at, self.starts, side="right") - 1
        into = self.starts - trie.added_at[addition]
        self.depths: Ints = trie.added_depth[addition] + into
        # Within an addition, a piece goes on from the piece before it.
        above = np.where(into > 0, self.starts - 1, trie.above[addition])
        self.parents: Ints = np.searchsorted(self.starts, above, side="right") - 1
        self.ends = self._subtree_ends()
        """Places where their last descendants end; of a leaf its own end."""

    def _subtree_ends(self) -> Ints:
        ends = (self.starts + self.lengths).tolist()
        for piece, parent in enumerate(self.parents[::-1].tolist(), start=1):
            if parent >= 0:
                ends[parent] = max(ends[parent], ends[-piece])
        return np.array(ends, np.int64)

    def path_to(self, piece: int) -> list[int]:
        """The ancestors of a piece, from the root down."""
        path: list[int] = []
        while (piece := self.parents.item(piece)) >= 0:
            path.append(piece)
        return path[::-1]


def _borders(trie: Trie, budget: int) -> Ints:
    """Places where packs begin, in order, and at last the number of tokens.

    A pack ends before a subtree that fits a pack of its own but not what is left of this one, so
    that what belongs together is computed together. A node that is longer than the budget fills
    what is left, and as many packs as it takes.
    """
    nodes = _Pieces(trie, np.array([], np.int64))
    borders: list[int] = [0] if len(trie.tokens) else []
    each = zip(nodes.starts.tolist(), nodes.lengths.tolist(), nodes.ends.tolist(), strict=True)
    for start, length, end in each:
        left = borders[-1] + budget - start
        if length > budget:
            borders += range(start + left, start + length, budget)
        elif length > left or left < end - start <= budget:
            borders.append(start)
    return np.array([*borders, len(trie.tokens)], np.int64)


class _Packs:
    """What the pieces and packs of a plan are made from."""

    def __init__(self, trie: Trie, borders: Ints) -> None:
        self.borders = borders
        self.pieces = _Pieces(trie, borders)
        self._trie = trie
        self._first_piece = np.searchsorted(self.pieces.starts, borders)
        self._first_read = np.searchsorted(trie.read_place, borders)
        within = np.repeat(np.arange(len(borders) - 1), np.diff(self._first_piece))
        self._within = within.astype(np.int32)
        """Shape (pieces,): the pack that each lies in."""

    def piece(self, index: int) -> Piece:
        pieces, pack = self.pieces, self._within[index]
        begin = int(self.borders[pack])
        return Piece(
            start=int(pieces.starts[index]) - begin,
            length=int(pieces.lengths[index]),
            end=int(min(pieces.ends[index], self.borders[pack + 1])) - begin,
            depth=int(pieces.depths[index]),
            parent=int(pieces.parents[index]),
        )

    def pack(self, index: int) -> Pack:
        trie, pieces = self._trie, self.pieces
        begin, end = self.borders[index : index + 2].tolist()
        first, after = self._first_piece[index : index + 2].tolist()
        inherited = pieces.path_to(first)
        descended = np.minimum(pieces.ends[inherited], end) - begin
        needed = pieces.path_to(after) if after < len(pieces.starts) else []
        own, reads = slice(first, after), slice(*self._first_read[index : index + 2])
        rows, row = np.unique(trie.read_place[reads], return_inverse=True)
        request, ordinal = trie.read_request[reads], trie.read_ordinal[reads]
        last = ordinal == trie.n_scored[request] - 1
        offsets = np.repeat(pieces.depths[own] - pieces.starts[own], pieces.lengths[own])
        return Pack(
            tokens=trie.tokens[begin:end].astype(np.int64),
            positions=np.arange(begin, end) + offsets,
            pieces=range(first, after),
            inherited=tuple(
                Inherited(*each) for each in zip(inherited, descended.tolist(), strict=True)
            ),
            rows=rows.astype(np.int64) - begin,
            reads=np.stack([row, request, ordinal], axis=1).astype(np.int64),
            kept=tuple(piece for piece in needed if piece >= first),
            freed=tuple(piece for piece in inherited if pieces.ends.item(piece) <= end),
            done=tuple(request[last].tolist()),
        )


class _Made(Sequence[T]):
    """A sequence whose items are made when asked for."""

    def __init__(self, make: Callable[[int], T], length: int) -> None:
        self._make = make
        self._indexes = range(length)

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._make(each) for each in self._indexes[index]]
        return self._make(self._indexes[index])
