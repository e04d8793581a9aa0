"""What a GPU's kernel is asked of a pack, with a kernel in its place that runs everywhere.

The real one wants a GPU: `python -m bench.gpu` compares it there.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalcore.model.packs import attention, stretches
from evalcore.model.packs.prefix import plan
from evalcore.model.packs.rectangles import Block, Blocks
from tests.evalcore.model.loglikelihood.test_packed import (
    MODELS,
    check_sight,
    flags,
    furthest,
    model_of,
    one_by_one,
    packed,
    questions,
    tries,
)

CPU = torch.device("cpu")


def plain_kernel(query, key, value, call, scale):
    """Stretch by stretch; what is between them is not read."""
    outs, logsumexps = [], []
    rows, keys = (of.borders.tolist() for of in (call.rows, call.keys))
    assert (rows[-1], keys[-1]) == (len(query), len(key))
    for (first, last), (oldest, newest) in zip(pairwise(rows), pairwise(keys), strict=True):
        assert last - first <= call.rows.longest
        assert newest - oldest <= call.keys.longest
        states = query[first:last], key[oldest:newest], value[oldest:newest]
        ago = torch.arange(last - first)[:, None] - torch.arange(newest - oldest)[None]
        hidden = (ago < 0) & call.causal
        if call.window is not None:
            assert call.causal
            hidden |= ago >= call.window
        out, logsumexp = attention.softmax_attention(
            *(of.transpose(0, 1)[None] for of in states),
            scale=scale,
            hidden=attention.hiding(hidden, query),
        )
        outs.append(out[0].transpose(0, 1))
        logsumexps.append(logsumexp[0])
    return torch.cat(outs), torch.cat(logsumexps, dim=1)


@pytest.fixture
def taken(monkeypatch):
    """How many calls there were."""
    asked = []

    def kernel(query, key, value, call, scale):
        asked.append(call)
        return plain_kernel(query, key, value, call, scale)

    monkeypatch.setattr(stretches, "flash", kernel)
    monkeypatch.setattr(
        stretches,
        "takes",
        lambda query, value, softcap: softcap is None and value.shape[-1] == query.shape[-1],
    )
    return asked


@pytest.mark.parametrize("kind", MODELS)
def test_each_request_is_scored_as_if_it_were_alone(kind, taken):
    model = model_of(kind, MODELS[kind])
    sequences, targets = questions(model)
    expected = one_by_one(model, sequences, targets)
    for budget in (1024, 50):
        answers = packed(model, sequences, targets, budget=budget)
        assert furthest(answers, expected) <= 1
        assert flags(answers) == flags(expected)
    # Soft caps, and heads of unequal size in tests, are not for the kernel.
    assert bool(taken) == (kind not in ("gemma2", "deepseek_v3"))


ROWS_BEFORE_THOSE_OF_ANOTHER_PATH = [[0] * 3, [0] * 23, [0, 0, 0, 0, 1, 0, 0], [0], [0, 1]]


@settings(max_examples=150, deadline=None)
@given(tries(), st.none() | st.integers(1, 60))
@example((ROWS_BEFORE_THOSE_OF_ANOTHER_PATH, 24), None)
def test_each_row_sees_itself_and_its_ancestors_in_the_window_once(trie, window):
    sequences, budget = trie
    todo = plan(sequences, [1] * len(sequences), budget=budget)
    for pack in todo.packs:
        calls = stretches.calls_of(pack, todo.pieces, CPU, window=window)
        for call in (calls.own, *calls.cross):
            rows = [row for piece in pieces_of(call.rows) for row in piece]
            assert len(rows) == len({*rows})
        for call in calls.cross:
            pieces = pieces_of(call.keys)
            assert len(pieces) == 1 or sum(map(len, pieces)) <= len(pack.tokens)
        asked = [
            Block(*rows_and_keys, inherited=call.inherited, mask=seen(call, *rows_and_keys))
            for call in (calls.own, *calls.cross)
            for rows_and_keys in zip(borders_of(call.rows), borders_of(call.keys), strict=True)
        ]
        own = [*asked[: len(calls.own.rows.borders) - 1], *calls.rest.own]
        cross = [*asked[len(calls.own.rows.borders) - 1 :], *calls.rest.cross]
        check_sight(todo, pack, window, Blocks(tuple(own), tuple(cross)))


def seen(call, rows, keys):
    """Which rows of a stretch see which keys of theirs, as the kernel is told."""
    mask = np.ones((rows[1] - rows[0], keys[1] - keys[0]), np.bool_)
    if call.causal:
        mask = np.tril(mask)
    return mask if call.window is None else np.triu(mask, 1 - call.window)


def borders_of(of):
    return [(piece[0], piece[-1] + 1) for piece in pieces_of(of)]


def pieces_of(of):
    """The places of each stretch."""
    places = of.places
    everything = torch.arange(places.stop)[places] if isinstance(places, slice) else places
    return [tuple(everything[first:last].tolist()) for first, last in pairwise(of.borders.tolist())]


def test_layers_on_several_devices_are_each_asked_on_their_own(monkeypatch):
    def kernel(query, key, value, call, scale):
        places = [of.places for of in (call.rows, call.keys) if torch.is_tensor(of.places)]
        asked = (query, key, value, call.rows.borders, call.keys.borders, *places)
        assert len({of.device for of in asked}) == 1
        return torch.empty_like(query), query.new_empty(query.shape[1], len(query))

    monkeypatch.setattr(stretches, "flash", kernel)
    monkeypatch.setattr(stretches, "takes", lambda *_: True)
    todo = plan([[1, 2, 3], [1, 2, 4], [1, 5]], [1] * 3, budget=100)
    of_pack = attention.AttentionPass(todo, todo.packs[0])
    said = attention.Said(1.0, None, None, None)
    n = len(todo.packs[0].tokens)
    for layer, device in enumerate(("cpu", "meta", "cpu")):  # that of shapes stands for another
        states = torch.randn(1, 4, n, 8, device=device)
        found = of_pack.attend(layer, states, states, states, said)
        assert (found.device.type, found.shape) == (device, (1, n, 4, 8))


def test_many_questions_with_choices_are_few_calls(taken):
    model = model_of("llama", MODELS["llama"])
    draw = torch.Generator().manual_seed(0)
    asked = []
    for _ in range(40):
        question, *answers = (
            torch.randint(3, 200, (size,), generator=draw).tolist() for size in (30, 5, 6, 7, 4)
        )
        asked += [(question, answer) for answer in answers]
    sequences, targets = [q + a[:-1] for q, a in asked], [a for _, a in asked]
    answers = packed(model, sequences, targets, budget=100_000)
    assert furthest(answers, one_by_one(model, sequences, targets)) <= 1
    layers = model.config.num_hidden_layers
    assert len(taken) <= 4 * layers  # 40 questions of four answers: some 160 blocks in a layer
