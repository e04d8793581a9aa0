"""Slots that grow with their texts, within the memory that they are given."""

from __future__ import annotations

from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.model.writing.seating import Seating
from evalcore.model.writing.slots import Entry, Seat, Shared

LIMIT = 60
"""Tokens that a text may get."""


def value(index, position):
    """What lies at a position of a text, in both of its layers."""
    return float(1000 * index + position)


def stored(index, start, end):
    row = torch.tensor([value(index, position) for position in range(start, end)])
    return [(row[None, None, :, None], row[None, None, :, None])] * 2


def entry(index, length, *, written=0, own_start=0, shared=None, limit=LIMIT):
    seat = Seat(index, length, own_start, shared, length - written + limit, written)
    return Entry(seat, [stored(index, own_start, length)])


def write_one(seating):
    """One more token to each text."""
    for bank in seating.banks.values():
        lengths = torch.tensor([seat.own for seat in bank.seats])
        new = torch.tensor([[[value(seat.index, seat.length)]] for seat in bank.seats])
        for layer in range(2):
            bank.write(layer, lengths, new, new)
    for seat in seating.seats:
        seat.length += 1
        seat.written += 1


def held(seating):
    shared = {block for seat in seating.seats for block in seat.blocks}
    slots = sum(bank.capacity * bank.n_slots for bank in seating.banks.values())
    return slots + sum(block.end - block.start for block in shared)


def check(seating, most_tokens):
    assert held(seating) <= most_tokens or seating.n_texts == 1
    for bank in seating.banks.values():
        for place, seat in enumerate(bank.seats):
            assert seat.own <= bank.capacity
            own = stored(seat.index, seat.own_start, seat.length)[0][0][0]
            for layer in (*bank.keys, *bank.values):
                assert torch.equal(layer[place, :, : seat.own], own)


TEXTS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, LIMIT - 1)), min_size=1, max_size=25)


@settings(deadline=None)  # a busy machine is slow at times
@given(TEXTS, st.integers(1, 1500), st.integers(1, 12), st.integers(1, 8))
def test_every_text_is_written_to_its_end_within_the_memory(texts, most_tokens, rows, least_own):
    """Texts are lengths of a prompt and of what follows; all share what is before position 3."""
    block = Shared(0, 3, stored(0, 0, 3), None)
    waiting = deque(
        entry(index, 3 + prompt, own_start=3, shared=block)
        for index, (prompt, _) in enumerate(texts)
    )
    seating = Seating(
        most_rows=rows, most_tokens=most_tokens, reach=3 + 30 + LIMIT, least_own=least_own
    )
    ended = []
    while len(ended) < len(texts):
        seating.admit(waiting)
        for seat in seating.make_room():
            again = entry(seat.index, seat.length, written=seat.written, own_start=3, shared=block)
            waiting.append(again)
        assert 0 < seating.n_texts <= rows
        check(seating, most_tokens)
        write_one(seating)
        check(seating, most_tokens)
        leaving = [
            place
            for place, seat in enumerate(seating.seats)
            if seat.written == texts[seat.index][1]
        ]
        ended += [seating.seats[place].index for place in leaving]
        seating.leave(leaving)
    assert sorted(ended) == list(range(len(texts)))
    assert not held(seating)


def test_until_a_text_has_ended_each_may_come_to_its_limit():
    seating = Seating(most_rows=99, most_tokens=4 * 64, reach=64)
    waiting = deque(entry(index, 4) for index in range(20))
    seating.admit(waiting)
    assert seating.n_texts == 4


def test_texts_that_end_early_make_room_for_more_than_their_limits_would():
    """Ten tokens each where a thousand are allowed: four at first, and then all that wait."""
    seating = Seating(most_rows=99, most_tokens=4096, reach=1004)
    waiting = deque(entry(index, 4, limit=1000) for index in range(40))
    seating.admit(waiting)
    assert seating.n_texts == 4
    for _ in range(10):
        assert not seating.make_room()
        write_one(seating)
    seating.leave([3])
    seating.admit(waiting)
    assert seating.n_texts > 30


def test_where_there_is_room_for_all_at_their_limits_none_moves():
    seating = Seating(most_rows=3, most_tokens=3 * 128, reach=4 + LIMIT)
    seating.admit(deque(entry(index, 4) for index in range(3)))
    (bank,) = seating.banks.values()
    stored_in = bank.keys[0].data_ptr()
    for _ in range(LIMIT - 1):
        assert not seating.make_room()
        write_one(seating)
    check(seating, 3 * 128)
    assert list(seating.banks.values()) == [bank]
    assert bank.keys[0].data_ptr() == stored_in


def test_the_youngest_are_given_up_and_the_oldest_goes_on():
    seating = Seating(most_rows=9, most_tokens=3 * 64, reach=60)
    for index in range(3):
        seating.admit(deque([entry(index, 50, limit=10)]))
        write_one(seating)
    while not (given_up := seating.make_room()):
        write_one(seating)
    assert [seat.index for seat in given_up] == [2, 1]
    assert [seat.index for seat in seating.seats] == [0]


@pytest.mark.parametrize("most_tokens", [1, 64])
def test_one_text_is_written_where_there_is_no_room_for_it(most_tokens):
    seating = Seating(most_rows=9, most_tokens=most_tokens, reach=200)
    seating.admit(deque([entry(0, 100), entry(1, 100)]))
    assert [seat.index for seat in seating.seats] == [0]
