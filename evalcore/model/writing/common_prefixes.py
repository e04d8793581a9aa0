"""Which prefixes of the prompts are attended by many texts at once, and which each has for itself.

A text that is being written attends its whole prompt at every token. Keys and values of a prefix
that several prompts share need be read once for all of them, as one product of matrices (Hydragen,
Juravsky et al. 2024, arXiv 2402.05099); but each such block is a call of its own in every layer at
every token. So a prefix is a block where this saves more than the call costs, and what is left of
the prompt is copied to where the text's own keys and values will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalcore.model.packs.prefix import Plan

LEAST_SAVED = 128
"""Keys that a block must save, over all its texts, to be one: about what a call costs on a CPU."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Positions [start, end) of a piece's sequences, which end with that piece."""

    piece: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Share:
    """How one prompt is put together."""

    path: tuple[int, ...]
    """Its pieces, from the root down."""
    blocks: tuple[Stretch, ...]
    """From position 0 on, one after another."""
    own_start: int
    """Position from which on the keys and values are the prompt's own."""


class Sharing:
    """The blocks of one plan in which each sequence is read at its last position."""

    def __init__(
        self, plan: Plan, ends: Sequence[tuple[int, int]], *, least_saved: int = LEAST_SAVED
    ) -> None:
        """`ends`: by sequence, the piece in which it ends and its number of tokens."""
        pieces = plan.pieces
        self._parents = [piece.parent for piece in pieces]
        self._depths = [piece.depth for piece in pieces]
        self._stops = [piece.depth + piece.length for piece in pieces]
        self._ends = ends
        below = [0] * len(pieces)
        for piece, _ in ends:
            below[piece] += 1
        goes_on = [False] * len(pieces)
        # A piece comes before those that go on from it, so that one look at each is enough.
        for piece in range(len(pieces) - 1, -1, -1):
            if (parent := self._parents[piece]) >= 0:
                below[parent] += below[piece]
        for piece, parent in enumerate(self._parents):
            if parent >= 0 and below[piece] == below[parent]:
                goes_on[parent] = True
        self._starts = [0] * len(pieces)
        self._is_block = [False] * len(pieces)
        for piece, parent in enumerate(self._parents):
            if parent >= 0:
                above = self._is_block[parent]
                self._starts[piece] = self._stops[parent] if above else self._starts[parent]
            saved = (self._stops[piece] - self._starts[piece]) * (below[piece] - 1)
            self._is_block[piece] = not goes_on[piece] and saved >= max(1, least_saved)
        self.texts_below = below
        """By piece: sequences that go through it or end in it."""

    def of(self, sequence: int) -> Share:
        last, length = self._ends[sequence]
        path = []
        piece = last
        while piece >= 0:
            path.append(piece)
            piece = self._parents[piece]
        path.reverse()
        # Of the piece in which a sequence ends the rest is not its own.
        blocks = tuple(
            Stretch(piece, self._starts[piece], self._stops[piece])
            for piece in path
            if self._is_block[piece] and self._stops[piece] <= length
        )
        return Share(tuple(path), blocks, blocks[-1].end if blocks else 0)
