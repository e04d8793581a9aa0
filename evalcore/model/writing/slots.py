"""Where the keys and values of texts that are being written lie: static slots, in banks.

A bank has slots of one capacity, so that all its texts are attended in one call; a text goes into
the bank whose capacity is the next above what it can come to, and what lies beyond its length is
hidden. Slots in use are the first ones: where a text leaves, the last one moves in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from evalcore.model.packs.attention import KeysAndValues

LEAST_OWN = 64
"""Banks differ in what texts bring along: up to this many tokens, twice as many, and so on."""

GROWTH = 1.5
"""How many times larger a full bank is made, at least."""


@dataclass(eq=False, slots=True)
class Shared:
    """Keys and values that several texts attend: positions [start, end) of their prompts."""

    start: int
    end: int
    layers: list[KeysAndValues]
    above: Shared | None
    """The block before it."""


@dataclass(eq=False, slots=True)
class Seat:
    """A text that is being written."""

    index: int
    """Of the text among all that are to be written."""
    length: int
    """Tokens of which there are keys and values; the position of the next one."""
    own_start: int
    """Position of the first token in the slot."""
    shared: Shared | None

    @property
    def blocks(self) -> Iterator[Shared]:
        """What it shares with others."""
        block = self.shared
        while block is not None:
            yield block
            block = block.above


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """A text that is to enter a slot."""

    seat: Seat
    own: Sequence[list[KeysAndValues]]
    """Keys and values of the positions from `seat.own_start` on: parts, of a layer each."""
    to_come: int
    """Tokens that it will have more at most."""

    @property
    def capacity(self) -> int:
        """Of the slot that it needs."""
        own, width = self.seat.length - self.seat.own_start, LEAST_OWN
        while width < own:
            width *= 2
        return width + self.to_come


@dataclass(eq=False)
class Bank:
    """Slots of one capacity."""

    capacity: int
    seats: list[Seat] = field(default_factory=list)
    """By slot."""
    keys: list[Tensor] = field(default_factory=list)
    """A layer each: (slots, heads of keys, capacity, size)."""
    values: list[Tensor] = field(default_factory=list)

    @property
    def n_slots(self) -> int:
        return len(self.keys[0]) if self.keys else 0

    def slots_for(self, entering: int) -> int:
        """How many slots there are once so many more texts have entered."""
        needed = len(self.seats) + entering
        return self.n_slots if needed <= self.n_slots else max(needed, int(GROWTH * self.n_slots))

    def enter(self, entries: Sequence[Entry]) -> None:
        first = entries[0]
        like = first.own[0] if first.own else first.seat.shared.layers  # type: ignore[union-attr]
        self._make_room(self.slots_for(len(entries)), like)
        for entry in entries:
            place, start = len(self.seats), 0
            self.seats.append(entry.seat)
            for part in entry.own:
                end = start + part[0][0].shape[2]
                for layer, (key, value) in enumerate(part):
                    self.keys[layer][place, :, start:end] = key[0]
                    self.values[layer][place, :, start:end] = value[0]
                start = end

    def _make_room(self, slots: int, like: Sequence[KeysAndValues]) -> None:
        if slots == self.n_slots:
            return
        used = len(self.seats)
        for mine, which in ((self.keys, 0), (self.values, 1)):
            for layer, pair in enumerate(like):
                heads, size = pair[which].shape[1], pair[which].shape[3]
                # Zeros: what is hidden counts nothing only if it is a number.
                wider = pair[which].new_zeros((slots, heads, self.capacity, size))
                if used:
                    wider[:used] = mine[layer][:used]
                    mine[layer] = wider
                else:
                    mine.append(wider)

    def leave(self, place: int) -> None:
        last = self.seats.pop()
        if place < len(self.seats):
            self.seats[place] = last
            filled = last.length - last.own_start
            for mine in (*self.keys, *self.values):
                mine[place, :, :filled] = mine[len(self.seats), :, :filled]
        if not self.seats:
            self.keys.clear()
            self.values.clear()

    def write(self, layer: int, lengths: Tensor, key: Tensor, value: Tensor) -> None:
        """Puts (texts, heads of keys, size) behind what each text has, which is `lengths`."""
        texts = torch.arange(len(lengths), device=lengths.device)
        self.keys[layer][texts, :, lengths] = key
        self.values[layer][texts, :, lengths] = value
