"""Texts that are written together, slot by slot, and whether they are what batches give."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.forward import selfcheck
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.packs import attention
from evalcore.model.packs.prefix import plan
from evalcore.model.writing import continuous, rehearsal
from evalcore.model.writing.decoding import Decoder, DecodingPass
from evalcore.model.writing.prefilling import Sharing
from evalcore.model.writing.seating import Seating
from evalcore.model.writing.slots import Bank, Entry
from evalcore.remarks import remarks_on
from tests import tiny
from tests.evalcore.toys import write_toys

WORDS = [
    "wood",
    "table",
    "river",
    "Question:",
    "Which",
    "is",
    "of",
    "the",
    "Answer",
    "A.",
    "3",
    "\n",
]
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
ARCHITECTURES = ["llama", "gpt_neox", "gpt2", "qwen2", "mistral", "gemma2", "opt"]


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


def load(folder, *, dtype="float32", **options):
    stated = Arguments.of({"pretrained": str(folder), "dtype": dtype})
    return HuggingFaceLM(stated, device="cpu", **options)


def requests_of(how, asked=None, repeats=1):
    asked = contexts() if asked is None else asked
    return [Request("generate_until", prompt, generation=how, repeats=repeats) for prompt in asked]


def answers_of(model, requests):
    encoded = model.encode(requests)
    found = dict(pair for pack in model.answer(encoded) for pair in pack)
    return [found[index] for index in range(len(encoded))]


def said(answers):
    return [(answer.text, answer.token_ids, answer.finish_reason) for answer in answers]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_texts_are_those_that_batches_give(folders, architecture, how):
    requests = requests_of(how, repeats=2)
    together = answers_of(load(folders(architecture)), requests)
    assert {answer.path for answer in together} == {"packed"}
    assert said(together) == said(answers_of(load(folders(architecture), path="plain"), requests))


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("how", ["greedy", "sampled"])
def test_a_text_does_not_depend_on_how_many_are_written(folders, how, count):
    model = load(folders("mistral"))
    asked = [*contexts(1), *contexts(2)][:count]
    alone = [answers_of(model, requests_of(HOW[how], [prompt]))[0] for prompt in asked]
    assert said(answers_of(model, requests_of(HOW[how], asked))) == said(alone)


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_texts_leave_and_others_take_their_places(folders, architecture, monkeypatch):
    """With three slots, packs of forty tokens and room for few keys."""
    at_most = []
    step = Decoder.step

    def counted(decoder, tokens):
        at_most.append(len(tokens))
        return step(decoder, tokens)

    expected = said(answers_of(load(folders(architecture)), requests_of(HOW["greedy"])))
    monkeypatch.setattr(Decoder, "step", counted)
    monkeypatch.setattr(continuous, "ROWS_CPU", 3)
    monkeypatch.setattr(continuous, "token_budget", lambda model, longest: 40)
    assert said(answers_of(load(folders(architecture)), requests_of(HOW["greedy"]))) == expected
    assert max(at_most) == 3
    monkeypatch.setattr(continuous, "SLOT_BYTES_CPU", 1)
    at_most.clear()
    tight = load(folders(architecture))
    assert said(answers_of(tight, requests_of(HOW["greedy"]))) == expected
    assert max(at_most[rehearsal.FORCED - 1 :]) == 1


@pytest.mark.parametrize("how", ["greedy", "sampled"])
@pytest.mark.parametrize("architecture", ["llama", "mistral"])
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


@pytest.mark.parametrize("architecture", ["bloom", "mamba"])
def test_a_model_that_keeps_its_attention_to_itself_is_written_in_batches(
    folders, architecture, caplog
):
    model = load(folders(architecture))
    for _ in range(2):
        answers = answers_of(model, requests_of(HOW["greedy"]))
        assert {answer.path for answer in answers} == {"plain"}
    reason = "the model has 2 layers and asked for attention 0 times"
    assert reason in model.execution["generate_until"]["reason"]
    assert caplog.text.count(reason) == 1


def test_the_record_says_how_texts_were_written(folders):
    model = load(folders("llama"))
    answers_of(model, requests_of(HOW["greedy"]))
    how = model.execution["generate_until"]
    assert (how["path"], how["halvings"]) == ("packed", 0)
    assert "nats from the model's own answers" in how["reason"]


def blind_to_one_token(decoding, bank, longest, window, like):
    hidden = beyond(decoding, bank, longest, window, like).clone()
    hidden[..., 0] = float("-inf")
    return hidden


def without_window(decoding, bank, longest, window, like):
    return beyond(decoding, bank, longest, None, like)


beyond = DecodingPass._beyond


@pytest.mark.parametrize(
    ("architecture", "broken"), [("llama", blind_to_one_token), ("mistral", without_window)]
)
def test_wrong_attention_is_seen_and_not_used(folders, architecture, broken, monkeypatch):
    requests = requests_of(HOW["greedy"])
    expected = said(answers_of(load(folders(architecture)), requests))
    monkeypatch.setattr(DecodingPass, "_beyond", broken)
    model = load(folders(architecture))
    answers = answers_of(model, requests)
    assert "a log-probability of" in model.execution["generate_until"]["reason"]
    assert {answer.path for answer in answers} == {"plain"}
    assert said(answers) == expected


def forgetful(bank, place):
    found = entry(bank, place)
    return Entry(found.seat, [[(k, v.roll(1, dims=2)) for k, v in part] for part in found.own])


entry = Bank.entry


def test_a_text_that_changes_on_its_way_to_a_larger_slot_is_seen(folders, monkeypatch):
    requests = requests_of(HOW["greedy"])
    expected = said(answers_of(load(folders("llama")), requests))
    monkeypatch.setattr(Bank, "entry", forgetful)
    model = load(folders("llama"))
    answers = answers_of(model, requests)
    assert "a log-probability of" in model.execution["generate_until"]["reason"]
    assert {answer.path for answer in answers} == {"plain"}
    assert said(answers) == expected


@pytest.mark.parametrize(("noise", "path"), [(0.0, "plain"), (1e-3, "packed")])
def test_float32_is_held_to_its_own_noise(folders, noise, path, monkeypatch):
    """As on a GPU, which computes several rows by other products than one."""

    def slightly_off(module, query, key, value, mask, **said):
        answer, _ = attention.packed_attention(module, query, key, value, mask, **said)
        return answer * (1 + 1e-4), None

    def of_several(_module, given, answer):
        return answer * (1 + noise) if len(given[0]) > 1 else answer

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, slightly_off)
    model = load(folders("llama"))
    model._model.get_decoder().layers[0].mlp.down_proj.register_forward_hook(of_several)
    assert {answer.path for answer in answers_of(model, requests_of(HOW["greedy"]))} == {path}


def off_by_one(module, query, key, value, mask, **said):
    if said.get("sliding_window"):
        said["sliding_window"] += 1
    return attention.packed_attention(module, query, key, value, mask, **said)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_window_that_is_off_by_one_is_found_in_half_precision(folders, dtype, monkeypatch):
    """What it moves is less than rounding does, so it is looked for in float32."""

    def quiet():
        model = load(folders("mistral"), dtype=dtype)
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
        assert tensor.dtype == getattr(torch, dtype)
        assert torch.equal(tensor, before[name])


def test_a_model_that_cannot_be_tried_in_float32_is_tried_as_it_is(folders, monkeypatch):
    """And the record says so."""
    monkeypatch.setattr(selfcheck, "free_bytes", lambda device: 0)
    model = load(folders("llama"), dtype="bfloat16")
    answers_of(model, requests_of(HOW["greedy"]))
    said = "not tried in float32: the memory of cpu does not hold it beside the model"
    assert said in model.execution["generate_until"]["reason"]


def test_why_texts_are_not_written_together_is_among_the_remarks(folders, tmp_path):
    """Once, however many tasks it is true of."""
    toys = write_toys(tmp_path)
    (done,) = evaluate(load(folders("bloom")), ["toy_written"], include_path=toys)
    (remark,) = [
        remark
        for remark in remarks_on([done.record, done.record])
        if remark.startswith("generate_until requests were computed in batches, not continuously: ")
    ]
    assert "asked for attention 0 times" in remark


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


def test_a_failure_in_use_leaves_the_rest_to_batches(folders, monkeypatch):
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


PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=12)


@given(PROMPTS, st.integers(1, 20), st.integers(1, 12))
def test_a_prompt_is_its_blocks_and_then_its_own_tokens(prompts, budget, least_saved):
    """Blocks follow one another from position 0, hold what the prompt begins with, and save what
    they must."""
    planned = plan(prompts, [1] * len(prompts), budget=budget)
    sharing = Sharing(planned, ends_of_prompts(planned, prompts), least_saved=least_saved)
    texts_of_block = {}
    for index, prompt in enumerate(prompts):
        share = sharing.of(index)
        position = 0
        for block in share.blocks:
            assert block.start == position < block.end
            position = block.end
            texts_of_block.setdefault(block, set()).add(tuple(prompt[: block.end]))
        assert share.own_start == position <= len(prompt)
        assert sum(planned.pieces[piece].length for piece in share.path) >= len(prompt)
    for block, beginnings in texts_of_block.items():
        assert len(beginnings) == 1
        below = sharing.texts_below[block.piece]
        assert (block.end - block.start) * (below - 1) >= least_saved


def ends_of_prompts(planned, prompts):
    ends = {}
    for pack in planned.packs:
        for row, request, _ in pack.reads.tolist():
            place = pack.rows[row]
            for index in pack.pieces:
                piece = planned.pieces[index]
                if piece.start <= place < piece.start + piece.length:
                    ends[request] = (index, len(prompts[request]))
    return [ends[index] for index in range(len(prompts))]
