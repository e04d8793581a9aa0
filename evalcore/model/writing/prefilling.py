"""Prompts, read in packs: each distinct prefix once, up to the logits of each one's next token.

A text that is being written attends its whole prompt at every token. Keys and values of a prefix
that several prompts share need be read once for all of them, as one product of matrices (Hydragen,
Juravsky et al. 2024, arXiv 2402.05099); but each such block is a call of its own in every layer at
every token. So a prefix is a block where this saves more than the call costs, and what is left of
the prompt is copied to where the text's own keys and values will be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evalcore.model.forward.head import rows_at_once
from evalcore.model.forward.last_step import way_to_logits
from evalcore.model.loglikelihood.packed import PackRunner
from evalcore.model.packs.attention import KeysAndValues, joined
from evalcore.model.packs.prefix import Pack, Plan, plan
from evalcore.model.writing.slots import Entry, Seat, Shared

Layers = list[KeysAndValues]


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


class Prefill:
    """The prompts of one run, in the order of their trie."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        *,
        budget: int,
        to_come: Sequence[int],
        through_head: bool,
        least_saved: int = LEAST_SAVED,
    ) -> None:
        """`budget`: tokens in one forward pass; `to_come`: those that each prompt's text will have
        more at most; `through_head` as of `PackedPath`. Raises ValueError as `prefix.plan`."""
        self._model = model
        self._to_come = to_come
        self._through_head = through_head
        self._lengths = [len(prompt) for prompt in prompts]
        self._plan = plan(prompts, [1] * len(prompts), budget=budget)
        self._runner = PackRunner(model, self._plan)
        self._sharing = Sharing(self._plan, self._ends(), least_saved=least_saved)
        self._texts_to_come = list(self._sharing.texts_below)
        self._blocks: dict[int, Shared] = {}

    def _ends(self) -> list[tuple[int, int]]:
        """By prompt, the piece of its last token and its number of tokens."""
        pieces = self._plan.pieces
        last = [0] * len(self._lengths)
        for pack in self._plan.packs:
            by_place = [index for index in pack.pieces for _ in range(pieces[index].length)]
            for row, request, _ in pack.reads.tolist():
                last[request] = by_place[pack.rows[row]]
        return list(zip(last, self._lengths, strict=True))

    def starts(self) -> Iterator[tuple[list[Entry], Tensor]]:
        """Prompts as they are read, by their index, with the logits (prompts, vocabulary) of what
        comes next.

        Raises NotImplementedError for a model that cannot be computed in packs.
        """
        for pack in self._plan.packs:
            yield from self._run(pack)

    @torch.inference_mode()
    def _run(self, pack: Pack) -> Iterator[tuple[list[Entry], Tensor]]:
        layers = {above.piece: self._runner.kept[above.piece] for above in pack.inherited}
        output = self._runner.run(pack, keep=pack.pieces if pack.done else ())
        for piece in pack.pieces:
            if piece in self._runner.kept:
                layers[piece] = self._runner.kept[piece]
                if piece not in pack.kept:
                    del self._runner.kept[piece]
        if not pack.done:
            return
        states = output.last_hidden_state
        at_once = rows_at_once(self._model.get_output_embeddings().weight.shape[0])
        for first in range(0, len(pack.reads), at_once):
            rows, requests, _ = pack.reads[first : first + at_once].T
            places = torch.from_numpy(pack.rows[rows]).to(states.device)
            with way_to_logits(self._model, output, through_head=self._through_head) as to_logits:
                logits = to_logits(states[0, places])
            yield [self._start(int(request), layers) for request in requests], logits

    def _start(self, index: int, layers: dict[int, Layers]) -> Entry:
        share = self._sharing.of(index)
        shared = None
        for stretch in share.blocks:
            if stretch.piece not in self._blocks:
                parts = self._parts(share.path, stretch.start, stretch.end, layers)
                whole = [joined(layer) for layer in zip(*parts, strict=True)]
                self._blocks[stretch.piece] = Shared(stretch.start, stretch.end, whole, shared)
            shared = self._blocks[stretch.piece]
        for piece in share.path:
            self._texts_to_come[piece] -= 1
            if not self._texts_to_come[piece]:
                self._blocks.pop(piece, None)
        own = self._parts(share.path, share.own_start, self._lengths[index], layers)
        length = self._lengths[index]
        seat = Seat(index, length, share.own_start, shared, length + self._to_come[index])
        return Entry(seat, own)

    def _parts(
        self, path: Sequence[int], start: int, end: int, layers: dict[int, Layers]
    ) -> list[Layers]:
        """Keys and values of the positions [start, end) of a path."""
        parts = []
        for index in path:
            piece = self._plan.pieces[index]
            first = max(0, start - piece.depth)
            last = min(piece.length, end - piece.depth)
            if first < last:
                parts.append(
                    [
                        (key[:, :, first:last], value[:, :, first:last])
                        for key, value in layers[index]
                    ]
                )
        return parts
