"""Texts that are written together, slot by slot: they are what batches give, or are not written so;
and slots grow with their texts, within the memory that they are given."""

from __future__ import annotations

import random
from collections import deque
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.packs import attention
from evalcore.model.writing import continuous, rehearsal
from evalcore.model.writing.decoding import Decoder, DecodingPass
from evalcore.model.writing.seating import Seating
from evalcore.model.writing.slots import Bank, Entry, Seat, Shared
from evalcore.remarks import remarks_on
from tests import tiny
from tests.evalcore.model.asking import answers_of, load
from tests.evalcore.model.drawn_models import off_by_one, rounding_batches, slightly_off
from tests.evalcore.toys import write_toys

WORDS = ["wood", "table", "river", "Question:", "Which", "is", "of", "the", "Answer", "A.", "3"]
WORDS.append("\n")
HOW = {
    "greedy": {"until": ["\n"], "max_gen_toks": 24},
    "one token": {"until": [], "max_gen_toks": 1},
    "stops at once": {"until": ["a", "e", " ", "o", "t"], "max_gen_toks": 20},
    "sampled": {"until": ["\n\n", "o"], "max_gen_toks": 20, "do_sample": True, "temperature": 0.9},
    "sampled, cut": {
        "until": [],
        "max_gen_toks": 12,
        "temperature": 1.0,
        "top_p": 0.9,
        "top_k": 30,
    },
}


def words(draw, count):
    return " ".join(draw.choice(WORDS) for _ in range(count))


def contexts(seed=0):
    """Some share 40 words, some half of these, some nothing; from none to 90 words long."""
    draw = random.Random(seed)
    shared, half = words(draw, 40), words(draw, 20)
    return [
        *(shared + " " + words(draw, draw.choice([1, 5, 20])) for _ in range(9)),
        *(half + " " + words(draw, draw.choice([1, 9])) for _ in range(4)),
        *(words(draw, draw.choice([0, 1, 3, 9, 50])) for _ in range(6)),
        shared,
        half,
        half,
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def folder(architecture):
        if architecture not in made:
            made[architecture] = tiny.make(
                tmp_path_factory.mktemp(architecture), architecture=architecture, positions=384
            )
        return made[architecture]

    return folder


def requests_of(how, asked=None, repeats=1):
    asked = contexts() if asked is None else asked
    return [Request("generate_until", prompt, generation=how, repeats=repeats) for prompt in asked]


def said(answers):
    return [(answer.text, answer.token_ids, answer.finish_reason) for answer in answers]


def check_as_in_batches(folder, how):
    requests = requests_of(how, repeats=2)
    model = load(folder)
    together = answers_of(model, requests)
    assert {answer.path for answer in together} == {"packed"}
    assert said(together) == said(answers_of(load(folder, path="plain"), requests))
    return model.execution["generate_until"]


@pytest.mark.parametrize(
    ("architecture", "how"),
    [*(("llama", how) for how in HOW), ("mistral", "greedy"), ("gemma2", "sampled")],
)
def test_texts_are_those_that_batches_give(folders, architecture, how):
    done = check_as_in_batches(folders(architecture), HOW[how])
    assert (done["path"], done["halvings"]) == ("packed", 0)
    assert "nats from the model's own answers" in done["reason"]


def test_texts_leave_and_others_take_their_places(folders, monkeypatch):
    """With three slots, packs of forty tokens and room for few keys."""
    at_most = []
    step = Decoder.step

    def counted(decoder, tokens):
        at_most.append(len(tokens))
        return step(decoder, tokens)

    expected = said(answers_of(load(folders("mistral")), requests_of(HOW["greedy"])))
    monkeypatch.setattr(Decoder, "step", counted)
    monkeypatch.setattr(continuous, "ROWS_CPU", 3)
    monkeypatch.setattr(continuous, "token_budget", lambda model, longest: 40)
    assert said(answers_of(load(folders("mistral")), requests_of(HOW["greedy"]))) == expected
    assert max(at_most) == 3
    monkeypatch.setattr(continuous, "SLOT_BYTES_CPU", 1)
    at_most.clear()
    tight = load(folders("mistral"))
    assert said(answers_of(tight, requests_of(HOW["greedy"]))) == expected
    assert max(at_most[rehearsal.FORCED - 1 :]) == 1


@pytest.mark.parametrize(("architecture", "how"), [("llama", "greedy"), ("mistral", "sampled")])
def test_a_text_that_is_given_up_goes_on_where_it_was(folders, architecture, how, monkeypatch):
    """With slots of some ten tokens, in memory for a few texts that are long."""
    given_up = []
    make_room = Seating.make_room

    def counted(seating):
        given_up.append(make_room(seating))
        return given_up[-1]

    requests = requests_of(HOW[how], [*contexts(1), *contexts(2), *contexts(3)], repeats=2)
    expected = said(answers_of(load(folders(architecture), path="plain"), requests))
    monkeypatch.setattr(continuous, "Decoder", partial(Decoder, least_own=8))
    monkeypatch.setattr(Seating, "make_room", counted)
    monkeypatch.setattr(Seating, "_mean", lambda seating, seats: 0.0)  # and no foresight
    model = load(folders(architecture))
    monkeypatch.setattr(continuous.ContinuousWriter, "_slot_tokens", lambda writer: 700)
    answers = answers_of(model, requests)
    assert {answer.path for answer in answers} == {"packed"}
    assert said(answers) == expected
    assert any(given_up)


def test_texts_are_handed_out_while_others_are_written(folders, monkeypatch):
    monkeypatch.setattr(continuous, "SECONDS_PER_PACK", 0.0)
    model = load(folders("llama"))
    encoded = model.encode(requests_of(HOW["sampled"]))
    packs = [[response for _, response in pack] for pack in model.answer(encoded)]
    lengths = [max(len(response.token_ids) for response in pack) for pack in packs]
    assert len(packs) > 3
    assert lengths[0] < lengths[-1]


def test_what_looks_at_the_text_before_is_written_in_batches(folders):
    model = load(folders("llama"))
    penalised = {**HOW["greedy"], "repetition_penalty": 1.3}
    beams = {**HOW["greedy"], "num_beams": 2}
    asked = contexts()[:3]
    answers = answers_of(
        model, [one for how in (penalised, beams, HOW["greedy"]) for one in requests_of(how, asked)]
    )
    assert [answer.path for answer in answers] == ["plain"] * 6 + ["packed"] * 3


def test_a_model_that_keeps_its_attention_to_itself_is_written_in_batches(
    folders, caplog, tmp_path
):
    """And a remark says so once, however many tasks it is true of."""
    model = load(folders("bloom"))
    for _ in range(2):
        answers = answers_of(model, requests_of(HOW["greedy"]))
        assert {answer.path for answer in answers} == {"plain"}
    reason = "the model has 2 layers and asked for attention 0 times"
    assert reason in model.execution["generate_until"]["reason"]
    assert caplog.text.count(reason) == 1
    (done,) = evaluate(model, ["toy_written"], include_path=write_toys(tmp_path))
    (remark,) = [
        remark
        for remark in remarks_on([done.record, done.record])
        if remark.startswith("generate_until requests were computed in batches, not continuously: ")
    ]
    assert "asked for attention 0 times" in remark


def blind_to_one_token(decoding, bank, longest, window, like):
    hidden = beyond(decoding, bank, longest, window, like).clone()
    hidden[..., 0] = float("-inf")
    return hidden


def without_window(decoding, bank, longest, window, like):
    return beyond(decoding, bank, longest, None, like)


beyond = DecodingPass._beyond


def forgetful(bank, place):
    found = right_entry(bank, place)
    return Entry(found.seat, [[(k, v.roll(1, dims=2)) for k, v in part] for part in found.own])


right_entry = Bank.entry


@pytest.mark.parametrize(
    ("architecture", "owner", "name", "broken"),
    [
        ("llama", DecodingPass, "_beyond", blind_to_one_token),
        ("mistral", DecodingPass, "_beyond", without_window),
        ("llama", Bank, "entry", forgetful),
    ],
    ids=["blind to a token", "without window", "changed on its way to a larger slot"],
)
def test_what_is_computed_wrongly_is_seen_and_not_used(
    folders, architecture, owner, name, broken, monkeypatch
):
    requests = requests_of(HOW["greedy"])
    expected = said(answers_of(load(folders(architecture)), requests))
    monkeypatch.setattr(owner, name, broken)
    model = load(folders(architecture))
    answers = answers_of(model, requests)
    assert "a log-probability of" in model.execution["generate_until"]["reason"]
    assert {answer.path for answer in answers} == {"plain"}
    assert said(answers) == expected


@pytest.mark.parametrize(("noise", "path"), [(0.0, "plain"), (1e-3, "packed")])
def test_float32_is_held_to_its_own_noise(folders, noise, path, monkeypatch):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, slightly_off(1e-4))
    model = load(folders("llama"))
    rounding_batches(model._model, noise)
    assert {answer.path for answer in answers_of(model, requests_of(HOW["greedy"]))} == {path}


def test_a_window_that_is_off_by_one_is_found_in_half_precision(folders, monkeypatch):
    """What it moves is less than rounding does, so it is looked for in float32."""

    def quiet():
        model = load(folders("mistral"), dtype="bfloat16")
        with torch.no_grad():
            for layer in model._model.get_decoder().layers:
                layer.self_attn.o_proj.weight.mul_(0.01)
        return model

    right, requests = quiet(), requests_of(HOW["greedy"])
    assert {answer.path for answer in answers_of(right, requests)} == {"packed"}
    assert right.execution["generate_until"]["refused"] == ""
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, off_by_one)
    wrong = quiet()
    before = {name: tensor.clone() for name, tensor in wrong._model.state_dict().items()}
    assert {answer.path for answer in answers_of(wrong, requests)} == {"plain"}
    refused = wrong.execution["generate_until"]["refused"]
    assert refused.startswith("not continuously: a log-probability of")
    for name, tensor in wrong._model.state_dict().items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, before[name])


def test_where_the_memory_is_too_small_fewer_texts_are_written_at_once(folders, monkeypatch):
    step = Decoder.step

    def small(decoder, tokens):
        if len(tokens) > 5:
            raise torch.OutOfMemoryError("no room")
        return step(decoder, tokens)

    requests = requests_of(HOW["sampled"])
    expected = said(answers_of(load(folders("llama")), requests))
    monkeypatch.setattr(Decoder, "step", small)
    model = load(folders("llama"))
    answers = answers_of(model, requests)
    assert said(answers) == expected
    assert {answer.path for answer in answers} == {"packed"}
    how = model.execution["generate_until"]
    assert (how["texts_at_once"], how["halvings"]) == (4, 4)


def test_a_failure_in_use_leaves_the_rest_to_batches(folders, monkeypatch, caplog):
    requests = requests_of(HOW["greedy"])
    expected = said(answers_of(load(folders("llama")), requests))
    step = Decoder.step

    def failing(decoder, tokens):
        if len(tokens) > 2:
            raise ValueError("not in this shape")
        return step(decoder, tokens)

    monkeypatch.setattr(Decoder, "step", failing)
    model = load(folders("llama"))
    assert said(answers_of(model, requests)) == expected
    assert "failed in use: ValueError" in model.execution["generate_until"]["reason"]
    assert "in failing" in caplog.text


# Slots that grow with their texts.

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


def check_seating(seating, most_tokens):
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
        check_seating(seating, most_tokens)
        write_one(seating)
        check_seating(seating, most_tokens)
        leaving = [
            place
            for place, seat in enumerate(seating.seats)
            if seat.written == texts[seat.index][1]
        ]
        ended += [seating.seats[place].index for place in leaving]
        seating.leave(leaving)
    assert sorted(ended) == list(range(len(texts)))
    assert not held(seating)


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


def test_the_youngest_are_given_up_and_the_oldest_goes_on():
    seating = Seating(most_rows=9, most_tokens=3 * 64, reach=60)
    for index in range(3):
        seating.admit(deque([entry(index, 50, limit=10)]))
        write_one(seating)
    while not (given_up := seating.make_room()):
        write_one(seating)
    assert [seat.index for seat in given_up] == [2, 1]
    assert [seat.index for seat in seating.seats] == [0]
