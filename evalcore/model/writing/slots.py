"""Where the keys and values of texts that are being written lie: slots that grow with them.

A bank has slots of one capacity, so that all its texts are attended in one call; a text lies in the
bank whose capacity is the next above what it has, and what lies beyond its length is hidden. Slots
in use are the first ones: where a text leaves, the last one moves in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from evalcore.model.packs.attention import KeysAndValues

LEAST_OWN = 64
"""Tokens in the smallest slots; the next ones have twice as many, and so on."""


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
    end: int
    """What its length can come to."""
    written: int = 0
    """How many of its tokens are no prompt's."""

    @property
    def own(self) -> int:
        """Tokens in the slot."""
        return self.length - self.own_start

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


def capacity_for(tokens: int, least: int = LEAST_OWN) -> int:
    """Of the smallest slot that holds so many."""
    capacity = least
    while capacity < tokens:
        capacity *= 2
    return capacity


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

    def enter(self, entries: Sequence[Entry], *, slots: int) -> None:
        """`slots`: how many there shall be from now on, if there are fewer than are needed."""
        if len(self.seats) + len(entries) > self.n_slots:
            first = entries[0]
            like = first.own[0] if first.own else first.seat.shared.layers  # type: ignore[union-attr]
            self._resize(slots, like)
        for entry in entries:
            place, start = len(self.seats), 0
            self.seats.append(entry.seat)
            for part in entry.own:
                end = start + part[0][0].shape[2]
                for layer, (key, value) in enumerate(part):
                    self.keys[layer][place, :, start:end] = key[0]
                    self.values[layer][place, :, start:end] = value[0]
                start = end

    def entry(self, place: int) -> Entry:
        """The text in this slot, to enter another one."""
        seat, one = self.seats[place], slice(place, place + 1)
        pairs = zip(self.keys, self.values, strict=True)
        return Entry(seat, [[(k[one, :, : seat.own], v[one, :, : seat.own]) for k, v in pairs]])

    def fit(self) -> None:
        """No more slots than texts."""
        if self.n_slots > len(self.seats):
            self._resize(len(self.seats), list(zip(self.keys, self.values, strict=True)))

    def _resize(self, slots: int, like: Sequence[KeysAndValues]) -> None:
        used = len(self.seats)
        for mine, which in ((self.keys, 0), (self.values, 1)):
            for layer, pair in enumerate(like):
                heads, size = pair[which].shape[1], pair[which].shape[3]
                # Zeros: what is hidden counts nothing only if it is a number.
                other = pair[which].new_zeros((slots, heads, self.capacity, size))
                if layer < len(mine):
                    other[:used] = mine[layer][:used]
                    mine[layer] = other
                else:
                    mine.append(other)

    def leave(self, place: int) -> None:
        last = self.seats.pop()
        if place < len(self.seats):
            self.seats[place] = last
            for mine in (*self.keys, *self.values):
                mine[place, :, : last.own] = mine[len(self.seats), :, : last.own]
        if not self.seats:
            self.keys.clear()
            self.values.clear()

    def write(self, layer: int, lengths: Tensor, key: Tensor, value: Tensor) -> None:
        """Puts (texts, heads of keys, size) behind what each text has, which is `lengths`."""
        texts = torch.arange(len(lengths), device=lengths.device)
        self.keys[layer][texts, :, lengths] = key
        self.values[layer][texts, :, lengths] = value
