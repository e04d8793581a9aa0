"""One more token for every text that is being written, in one forward pass.

The model is fed one row that has a token of each text, with its position. Each text attends its own
keys and values, in its slot, and those of the prefixes that it shares with others, all texts of a
prefix in one product of matrices without a mask; the parts are merged by their log-sum-exp.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from evalcore.model.loglikelihood.packed import AskedInPasses
from evalcore.model.packs.attention import Pass, Said, hiding, softmax_attention
from evalcore.model.writing.seating import Seating
from evalcore.model.writing.slots import LEAST_OWN, Bank, Entry, Seat, Shared

Places = slice | Tensor


class Decoder:
    """The texts that are being written, and the memory that they need."""

    def __init__(
        self,
        model: Any,
        *,
        most_rows: int,
        most_tokens: int,
        reach: int,
        least_own: int = LEAST_OWN,
    ) -> None:
        """What is not the model's as of `Seating`."""
        self._model = model
        self._seating = Seating(
            most_rows=most_rows, most_tokens=most_tokens, reach=reach, least_own=least_own
        )
        self._asked = AskedInPasses(model)

    @property
    def seats(self) -> list[Seat]:
        """In the order in which `step` takes and gives."""
        return self._seating.seats

    @property
    def n_texts(self) -> int:
        return self._seating.n_texts

    def admit(self, waiting: deque[Entry]) -> None:
        """Takes as many texts from the left as there is room for, and one where there is none."""
        self._seating.admit(waiting)

    def make_room(self) -> list[Seat]:
        """To be called before each step; gives the texts that are written no further for now,
        because there is no memory for all."""
        return self._seating.make_room()

    def leave(self, places: Iterable[int]) -> None:
        """Those at these places of `seats`, whose texts ended."""
        self._seating.leave(places)

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> Tensor:
        """Logits (texts, vocabulary) after one more token of each text.

        Raises NotImplementedError for a model that does not leave all its attention to
        `transformers`.
        """
        positions = [seat.length for seat in self.seats]
        output = self._asked.output(
            self._model,
            DecodingPass(list(self._seating.banks.values())),
            torch.tensor(tokens),
            torch.tensor(positions),
        )
        for seat in self.seats:
            seat.length += 1
            seat.written += 1
        return output.logits[0]  # type: ignore[no-any-return]


class DecodingPass(Pass):
    """What the attention of one forward pass reads, and where it writes."""

    def __init__(self, banks: Sequence[Bank]) -> None:
        super().__init__()
        self._banks = banks
        seats = [seat for bank in banks for seat in bank.seats]
        self._n_texts = len(seats)
        self._positions = [seat.length for seat in seats]
        self._lengths: dict[int, Tensor] = {}
        self._hidden: dict[tuple[int, int | None], Tensor] = {}
        self._shared = _texts_of_blocks(seats)
        self._positions_below = [
            [seat.length for seat in seats if any(held is block for held in seat.blocks)]
            for block, _ in self._shared
        ]
        """Of the texts of each block."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, said: Said) -> Tensor:
        if query.shape[0] != 1 or query.shape[2] != self._n_texts:
            raise NotImplementedError(f"attention of other rows than {self._n_texts} texts")
        n_heads, n_kept = query.shape[1], key.shape[1]
        # Heads that share keys are rows of one product: (heads of keys, their heads, texts, size).
        grouped = query[0].reshape(n_kept, n_heads // n_kept, *query.shape[2:])
        outs, logsumexps, first = [], [], 0
        for bank in self._banks:
            texts = slice(first, first + len(bank.seats))
            first = texts.stop
            lengths = self._lengths_of(bank, query)
            bank.write(
                layer, lengths, key[0, :, texts].transpose(0, 1), value[0, :, texts].transpose(0, 1)
            )
            longest = 1 + max(seat.length - seat.own_start for seat in bank.seats)
            out, logsumexp = softmax_attention(
                grouped[:, :, texts].permute(2, 0, 1, 3),
                bank.keys[layer][: len(bank.seats), :, :longest],
                bank.values[layer][: len(bank.seats), :, :longest],
                scale=said.scale,
                hidden=self._beyond(bank, longest, said.window, query),
                softcap=said.softcap,
            )
            outs.append(out.flatten(1, 2))
            logsumexps.append(logsumexp.flatten(1, 2))
        merged, total = torch.cat(outs), torch.cat(logsumexps)
        for number, (block, places) in enumerate(self._shared):
            nearest = min(self._positions_below[number])
            if said.window is not None and block.end <= nearest - said.window + 1:
                continue
            hidden = self._out_of_window(number, block, places, said.window, query)
            keys, values = block.layers[layer]
            rows = grouped[:, :, places]
            out, logsumexp = softmax_attention(
                rows.flatten(1, 2)[None],
                keys,
                values,
                scale=said.scale,
                hidden=None if hidden is None else hidden.repeat(rows.shape[1], 1),
                softcap=said.softcap,
            )
            n_texts = rows.shape[2]
            out = out.reshape(n_heads, n_texts, -1).transpose(0, 1)
            logsumexp = logsumexp.reshape(n_heads, n_texts).transpose(0, 1)
            before = total[places]
            share = torch.sigmoid(logsumexp - before).unsqueeze(-1)
            merged[places] = torch.lerp(
                merged[places], out.to(merged.dtype), share.to(merged.dtype)
            )
            total[places] = torch.logaddexp(before, logsumexp)
        if said.sinks is not None:
            merged = merged * torch.sigmoid(total - said.sinks.to(total.dtype)).unsqueeze(-1)
        return merged[None].to(query.dtype)

    def _lengths_of(self, bank: Bank, like: Tensor) -> Tensor:
        """(texts,): tokens in the slot of each text of the bank before this one."""
        if bank.capacity not in self._lengths:
            lengths = [seat.length - seat.own_start for seat in bank.seats]
            self._lengths[bank.capacity] = torch.tensor(lengths, device=like.device)
        return self._lengths[bank.capacity]

    def _beyond(self, bank: Bank, longest: int, window: int | None, like: Tensor) -> Tensor:
        """(texts, 1, 1, longest), added to the scores: hides what is no token of the text, and
        what its window has left."""
        name = (bank.capacity, window)
        if name not in self._hidden:
            lengths = self._lengths_of(bank, like)[:, None]
            places = torch.arange(longest, device=like.device)[None]
            hidden = places > lengths
            if window is not None:
                hidden |= places <= lengths - window
            self._hidden[name] = hiding(hidden, like)[:, None, None]
        return self._hidden[name]

    def _out_of_window(
        self, number: int, block: Shared, places: Places, window: int | None, like: Tensor
    ) -> Tensor | None:
        """(texts, keys), added to the scores; None where all is seen."""
        # Told without the tensors: an accelerator would be waited for, in every layer.
        if window is None or max(self._positions_below[number]) - window + 1 <= block.start:
            return None
        name = (-1 - number, window)
        if name not in self._hidden:
            positions = torch.tensor(self._positions, device=like.device)[places][:, None]
            keys = torch.arange(block.start, block.end, device=like.device)[None]
            self._hidden[name] = hiding(keys <= positions - window, like)
        return self._hidden[name]


def _texts_of_blocks(seats: Sequence[Seat]) -> list[tuple[Shared, Places]]:
    """Each block with the places of its texts, as a slice where they are neighbours."""
    members: dict[int, tuple[Shared, list[int]]] = {}
    for place, seat in enumerate(seats):
        for block in seat.blocks:
            members.setdefault(id(block), (block, []))[1].append(place)
    found: list[tuple[Shared, Places]] = []
    for block, places in members.values():
        if places[-1] - places[0] == len(places) - 1:
            found.append((block, slice(places[0], places[-1] + 1)))
        else:
            device = block.layers[0][0].device
            found.append((block, torch.tensor(places, device=device)))
    return found
