"""Which texts are written at once: as many as there is memory for as they will likely get.

Where the memory would hold them all at their limits, a text's slot has its final size at once. Else
it grows with the text, so that a task which allows 1,024 tokens takes no more than its texts need.
How long they get is learnt from those of this run: none has ended at first, and each may come to
its limit; later on each is taken to get as long as the mean, or as it is already. Where they get
longer than that together, the youngest are given up, to be read again from their own tokens once
there is room: what is written never takes more memory than it was given.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from evalcore.model.writing.slots import LEAST_OWN, Bank, Entry, Seat, capacity_for

GROWTH = 1.5
"""How many times as many slots as are needed a full bank gets, where there is room."""

LEFT_FREE = 0.1
"""Of the memory, once texts must be given up: else the next step would need it again."""


class Seating:
    """The banks, and who is in them."""

    def __init__(
        self, *, most_rows: int, most_tokens: int, reach: int, least_own: int = LEAST_OWN
    ) -> None:
        """`most_tokens`: of keys and values, in all slots and shared ones; `reach`: of the longest
        text with its prompt; `least_own`: in the smallest slots."""
        self.banks: dict[int, Bank] = {}
        """By capacity."""
        self._most_rows = most_rows
        self._most_tokens = most_tokens
        self._least_own = least_own
        self._whole = most_rows * _rounded(reach, least_own) <= most_tokens
        """Whether there is room for all to come to their limits: then none has to move."""
        self._n_ended = 0
        self._written_of_ended = 0

    @property
    def seats(self) -> list[Seat]:
        """Bank by bank."""
        return [seat for bank in self.banks.values() for seat in bank.seats]

    @property
    def n_texts(self) -> int:
        return sum(len(bank.seats) for bank in self.banks.values())

    def admit(self, waiting: deque[Entry]) -> None:
        """Takes as many texts from the left as there is room for, and one where there is none."""
        if not waiting:
            return
        seats = self.seats
        mean = self._mean(seats)
        tokens = sum(self._likely(seat, mean) for seat in seats)
        entering: dict[int, list[Entry]] = {}
        while waiting and len(seats) < self._most_rows:
            seat = waiting[0].seat
            with_it = tokens + self._likely(seat, mean)
            if seats and with_it + _shared([*seats, seat]) > self._most_tokens:
                break
            slot = self._slot(seat, seat.own + 1)
            entering.setdefault(slot, []).append(waiting.popleft())
            seats.append(seat)
            tokens = with_it
        for capacity, entries in entering.items():
            self._enter(capacity, entries)

    def _mean(self, seats: Iterable[Seat]) -> float:
        """Tokens that a text gets: all that were written to each that ended.

        Of lifetimes without memory this is the likeliest mean when some are not over (Epstein and
        Sobel 1953, Life testing): the shortest texts end first, and their own mean is too low.
        """
        if not self._n_ended:
            return math.inf
        return (self._written_of_ended + sum(seat.written for seat in seats)) / self._n_ended

    def _likely(self, seat: Seat, mean: float) -> int:
        """The slot that a text will likely need."""
        begun = seat.length - seat.written
        end = min(seat.end, max(begun + mean, seat.length + 1))
        return self._slot(seat, math.ceil(end) - seat.own_start)

    def _slot(self, seat: Seat, tokens: int) -> int:
        """The capacity of the slot in which a text has so many tokens of its own."""
        if self._whole:
            return _rounded(seat.end - seat.own_start, self._least_own)
        return capacity_for(tokens, self._least_own)

    def make_room(self) -> list[Seat]:
        """A place for one more token of each text: one that fills its slot goes to a larger one.

        Gives the texts that had to be given up for it.
        """
        if all(seat.own < bank.capacity for bank in self.banks.values() for seat in bank.seats):
            return []
        given_up = self._given_up()
        self._remove({id(seat) for seat in given_up})
        for capacity, bank in sorted(self.banks.items(), reverse=True):
            full = [place for place, seat in enumerate(bank.seats) if seat.own >= capacity]
            if full:
                entries = [bank.entry(place) for place in full]
                self._enter(capacity_for(capacity + 1, self._least_own), entries)
                self._remove({id(entry.seat) for entry in entries}, [capacity])
        if self._spare(1) < 0:  # of slots that were left
            self._fit()
        return given_up

    def _given_up(self) -> list[Seat]:
        """Those with the fewest tokens of their own, where not all have room for one more."""
        staying = sorted(self.seats, key=lambda seat: seat.written)[::-1]
        given_up: list[Seat] = []
        most = float(self._most_tokens)
        tokens = sum(self._slot(seat, seat.own + 1) for seat in staying)
        while len(staying) > 1 and tokens + _shared(staying) > most:
            most = (1 - LEFT_FREE) * self._most_tokens
            given_up.append(staying.pop())
            tokens -= self._slot(given_up[-1], given_up[-1].own + 1)
        return given_up

    def leave(self, places: Iterable[int]) -> None:
        """Those at these places of `seats`, whose texts ended."""
        seats = self.seats
        ended = [seats[place] for place in places]
        self._n_ended += len(ended)
        # The last token of a text is not read any more.
        self._written_of_ended += sum(seat.written + 1 for seat in ended)
        self._remove({id(seat) for seat in ended})

    def _remove(self, leaving: Collection[int], capacities: Sequence[int] | None = None) -> None:
        for capacity in list(self.banks) if capacities is None else capacities:
            bank = self.banks[capacity]
            for place in range(len(bank.seats) - 1, -1, -1):
                if id(bank.seats[place]) in leaving:
                    bank.leave(place)
            if not bank.seats:
                del self.banks[capacity]

    def _enter(self, capacity: int, entries: Sequence[Entry]) -> None:
        bank = self.banks.setdefault(capacity, Bank(capacity))
        needed = len(bank.seats) + len(entries)
        if (more := needed - bank.n_slots) > 0 and self._spare(capacity) < more:
            self._fit()
        spare = self._spare(capacity) - (needed - bank.n_slots)
        bank.enter(entries, slots=needed + max(0, min(spare, int((GROWTH - 1) * needed))))

    def _fit(self) -> None:
        for bank in self.banks.values():
            bank.fit()

    def _spare(self, capacity: int) -> int:
        """Slots of a capacity that there is still memory for."""
        held = sum(bank.capacity * bank.n_slots for bank in self.banks.values())
        return (self._most_tokens - held - _shared(self.seats)) // capacity


def _rounded(tokens: int, least: int) -> int:
    """To a multiple of the smallest slot: texts of nearly equal limits lie in one bank."""
    return -(-tokens // least) * least


def _shared(seats: Iterable[Seat]) -> int:
    """Tokens of what texts share."""
    blocks = {id(block): block for seat in seats for block in seat.blocks}
    return sum(block.end - block.start for block in blocks.values())
