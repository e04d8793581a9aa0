"""Scores in packs are those of feeding each request alone, or there are none, in blocks and by the
kernel of a GPU; and the planner computes each distinct prefix once.

The kernel here is one in its place that runs everywhere. The real one wants a GPU:
`python -m bench.gpu` compares it there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.errors import ModelError
from evalcore.model.forward import head
from evalcore.model.loglikelihood.packed import PackedPath
from evalcore.model.packs import attention, stretches
from evalcore.model.packs.prefix import plan
from tests.evalcore.model.drawn_models import (
    VOCABULARY,
    check,
    model_of,
    request,
    scores_of,
    with_greedy_ones,
)

KINDS = ("llama", "mistral", "gemma2", "gpt_oss", "deepseek_v3")
"""Grouped heads, a window in all or some layers, soft caps, sinks and experts, keys and values of
unequal size; further ones are in `test_architectures.py`."""


def questions(model):
    """Shared examples, choices of like and unlike length, single tokens, one answer that begins
    another, one long text; some answers are what the model would say."""
    draw = np.random.default_rng(0)

    def text(least, most):
        return tuple(draw.integers(3, VOCABULARY, int(draw.integers(least, most))).tolist())

    asked = []
    for shots in (text(90, 91), ()):
        for _ in range(4):
            question = shots + text(5, 60)
            answers = [text(1, 12) for _ in range(4)]
            asked += [(question, answer) for answer in [*answers, answers[0] + text(1, 4)]]
        asked += [(question, (letter,)) for letter in range(5, 9)]
    asked.append((text(50, 51), text(150, 151)))
    return with_greedy_ones(model, [request(*pair) for pair in asked])


def packed(model, asked, *, budget=1024, through_head=False):
    return scores_of(PackedPath(model, through_head=through_head), asked, budget=budget)


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


def use_kernel(patch):
    """Puts the kernel in the place of a GPU's; gives the calls of it."""
    calls = []

    def kernel(query, key, value, call, scale):
        calls.append(call)
        return plain_kernel(query, key, value, call, scale)

    def takes(query, value, softcap):
        return softcap is None and value.shape[-1] == query.shape[-1]

    patch.setattr(stretches, "flash", kernel)
    patch.setattr(stretches, "takes", takes)
    return calls


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_kernel", [False, True], ids=["in blocks", "by the kernel"])
def test_each_request_is_scored_as_if_it_were_alone(kind, by_kernel, monkeypatch):
    model = model_of(kind)
    asked = questions(model)
    calls = use_kernel(monkeypatch) if by_kernel else []
    for budget, scores_at_once in ((1024, 1 << 22), (50, 500)):
        monkeypatch.setattr(attention, "SCORES_AT_ONCE", scores_at_once)
        answers = packed(model, asked, budget=budget)
        check(model, asked, answers)
        assert {answer.is_greedy for answer in answers} == {True, False}
    # Soft caps, and heads of unequal size in tests, are not for the kernel.
    assert bool(calls) == (by_kernel and kind not in ("gemma2", "deepseek_v3"))


@pytest.fixture(scope="module")
def windowed():
    """Models whose tokens see all before them, two, or some."""
    return {window: model_of("mistral", sliding_window=window) for window in (None, 3, 24)}


@st.composite
def tries(draw):
    """Sequences over few tokens, so that they share much, and a budget."""
    grown = [draw(st.lists(st.integers(0, 1), min_size=1, max_size=90))]
    for _ in range(draw(st.integers(0, 12))):
        stem = grown[draw(st.integers(0, len(grown) - 1))]
        cut = draw(st.integers(0, len(stem)))
        grown.append(stem[:cut] + draw(st.lists(st.integers(0, 2), min_size=1, max_size=40)))
    return grown, draw(st.integers(12, 400))


ROWS_BEFORE_THOSE_OF_ANOTHER_PATH = [[0] * 3, [0] * 23, [0, 0, 0, 0, 1, 0, 0], [0], [0, 1]]


@settings(max_examples=40, deadline=None)
@given(
    tries(),
    st.sampled_from([None, 3, 24]),
    st.sampled_from([0, 1, 16, 64, 512]),
    st.booleans(),
    st.integers(1, 130),
)
@example((ROWS_BEFORE_THOSE_OF_ANOTHER_PATH, 24), None, 64, True, 130)
def test_each_token_sees_itself_and_those_before_it_in_the_window(
    windowed, trie, window, tile, by_kernel, n_scored
):
    """However its sequences branch off one another, and however many of their tokens are scored."""
    sequences, budget = trie
    asked = []
    for tokens in sequences:
        begins = max(1, len(tokens) - n_scored)
        asked.append(request(tuple(tokens[:begins]), (*tokens[begins:], 7)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "TILE", tile)
        if by_kernel:
            use_kernel(patch)
        answers = packed(windowed[window], asked, budget=budget)
    check(windowed[window], asked, answers)


def n_unique(asked):
    """How many distinct prefixes there are."""
    return len({one.tokens[: end + 1] for one in asked for end in range(len(one.tokens))})


@pytest.mark.parametrize("budget", [5, 300, 10_000])
def test_the_budget_changes_no_score_and_no_pass_is_larger(budget):
    model = model_of("llama")
    asked = questions(model)
    sizes = []
    hook = model.base_model.register_forward_pre_hook(
        lambda _, __, given: sizes.append(given["input_ids"].numel()), with_kwargs=True
    )
    answers = packed(model, asked, budget=budget, through_head=True)
    hook.remove()
    assert max(sizes) <= budget
    assert sum(sizes) == n_unique(asked)
    check(model, asked, answers)


@pytest.mark.parametrize("kind", ["bloom", "mamba", "llama4_text"])
def test_a_model_that_packs_cannot_compute_gets_no_scores(kind):
    """Attention of its own, a recurrent state, chunks."""
    asked = [request((5, 6, 7), (4,)), request((5, 6, 8), (9, 4))]
    with pytest.raises((NotImplementedError, TypeError)):
        packed(model_of(kind), asked)


def test_a_model_that_goes_past_its_base_is_read_through_its_head_only():
    model = model_of("opt")
    asked = questions(model)
    check(model, asked, packed(model, asked, through_head=True))
    with pytest.raises(NotImplementedError, match="asks its base 0 times"):
        packed(model, asked, through_head=False)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"attention_mask": torch.zeros(1, 1, 2, 2)}, "attention_mask"),
        ({"position_bias": torch.zeros(1, 4, 2, 2)}, "position_bias"),
        ({"chunk_size": 16}, "chunk_size"),
        ({"dropout": 0.1}, "dropout"),
        ({"is_causal": False}, "not causal"),
    ],
)
def test_an_argument_that_may_change_the_attention_is_refused(arguments, name):
    todo = plan([[5, 6]], [1], budget=8)
    states = torch.zeros(1, 4, 2, 16)
    given = {"attention_mask": None, **arguments}
    with (
        attention.during(attention.AttentionPass(todo, todo.packs[0])),
        pytest.raises(NotImplementedError, match=name),
    ):
        attention.packed_attention(torch.nn.Module(), states, states, states, **given)
    with pytest.raises(NotImplementedError, match="outside"):
        ALL_ATTENTION_FUNCTIONS[attention.NAME](None, states, states, states, None)


def test_the_model_is_left_as_it_was_even_by_a_pass_that_fails():
    model = model_of("llama")
    asked = questions(model)
    before = model.config._attn_implementation

    def check_left():
        assert model.config._attn_implementation == before
        assert "forward" not in vars(model.base_model)

    sequences, targets = [one.tokens for one in asked], [one.targets for one in asked]
    for _ in PackedPath(model, through_head=False).scores(sequences, targets, budget=99):
        check_left()
    with torch.no_grad():
        model.get_output_embeddings().weight[7] = float("nan")
    with pytest.raises(ModelError, match="not a number"):
        packed(model, asked)
    check_left()


def test_models_in_two_threads_do_not_meet():
    models = [model_of("llama"), model_of("gpt2")]
    asked = [questions(model) for model in models]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda n: packed(models[n], asked[n], budget=40), range(2)))
    for model, requests, answer in zip(models, asked, answers, strict=True):
        check(model, requests, answer)


def test_the_ways_to_attention_agree_and_a_row_that_sees_nothing_has_no_weight():
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 6)
    hidden = torch.zeros(9, 5).masked_fill(torch.rand(9, 5) < 0.4, float("-inf"))
    hidden[3] = float("-inf")
    fast = attention.softmax_attention(query, key, value, scale=0.3, hidden=hidden)
    plain = attention.softmax_attention(query, key, value, scale=0.3, hidden=hidden, softcap=1e6)
    for ours, theirs in zip(fast, plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    out, logsumexp = fast
    assert (out[:, :, 3] == 0).all()
    assert (logsumexp[:, :, 3] == float("-inf")).all()


def test_scores_of_a_model_in_half_precision_are_not_rounded_to_it():
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, 40, 64).bfloat16() for heads in (8, 2, 2))
    options = {"scale": 0.25, "softcap": 50.0, "causal": True}
    exact = attention.softmax_attention(query.double(), key.double(), value.double(), **options)
    out, logsumexp = attention.softmax_attention(query, key, value, **options)
    assert float((logsumexp - exact[1]).abs().max()) < 1e-4
    assert float((out - exact[0]).abs().max()) < 2 * torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("bias", [True, False])
def test_log_probabilities_are_the_same_in_slabs_of_the_vocabulary(bias):
    torch.manual_seed(0)
    linear = torch.nn.Linear(16, 9_000, bias=bias)
    hidden = 3 * torch.randn(700, 16)
    rows, targets = np.arange(1_400) % 700, np.random.default_rng(0).integers(0, 9_000, 1_400)
    with torch.inference_mode():
        likeliest = linear(hidden).argmax(-1).numpy()
        targets[:600] = likeliest[:600]
        expected = linear(hidden).log_softmax(-1)[rows, targets]
        for way in (linear, lambda some: linear(some)):
            logprobs, greedy = head.read(hidden, way, rows, targets, at_once=64)
            torch.testing.assert_close(torch.from_numpy(logprobs), expected, atol=1e-5, rtol=1e-6)
            assert (greedy == (likeliest[rows] == targets)).all()


def test_of_equal_logits_the_first_of_the_vocabulary_is_the_likeliest():
    linear = torch.nn.Linear(4, 5_000_000)
    with torch.inference_mode():
        linear.weight.zero_()
        linear.bias.fill_(float("-inf"))
        linear.bias[[1_500_000, 1_500_001, 4_900_000]] = 2.0
        tokens = np.array([1_500_000, 1_500_001, 4_900_000])
        logprobs, greedy = head.read(
            torch.zeros(1, 4), linear, np.zeros(3, np.int64), tokens, at_once=1
        )
    assert greedy.tolist() == [True, False, False]
    np.testing.assert_allclose(logprobs, -np.log(3), rtol=1e-6)


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


# The planner.


@st.composite
def branching(draw):
    """Sequences that branch off one another anywhere, and what is scored of each."""
    sequences: list[list[int]] = []
    for _ in range(draw(st.integers(1, 12))):
        begun = draw(st.sampled_from(sequences)) if sequences and draw(st.booleans()) else []
        shared = begun[: draw(st.integers(0, len(begun)))]
        own = draw(st.lists(st.integers(0, 2), min_size=0 if shared else 1, max_size=8))
        sequences.append(shared + own)
    return sequences, [draw(st.integers(1, len(sequence))) for sequence in sequences]


budgets = st.integers(1, 30)


def subtrees(made):
    """Tokens of each piece with all its descendants."""
    sizes = [piece.length for piece in made.pieces]
    for index in range(len(sizes) - 1, -1, -1):
        if (parent := made.pieces[index].parent) >= 0:
            sizes[parent] += sizes[index]
    return sizes


def peak_kept(made):
    """Most tokens kept from one pack to the next."""
    kept: set[int] = set()
    peak = 0
    for pack in made.packs:
        kept = (kept | set(pack.kept)) - set(pack.freed)
        peak = max(peak, sum(made.pieces[piece].length for piece in kept))
    return peak


@given(branching(), budgets)
def test_each_distinct_prefix_is_computed_once_and_each_position_is_read(asked, budget):
    made = plan(*asked, budget=budget)
    assert all(1 <= len(pack.tokens) <= budget for pack in made.packs)
    assert sum(len(pack.reads) for pack in made.packs) == sum(asked[1])
    prefixes = {tuple(each[: end + 1]) for each in asked[0] for end in range(len(each))}
    assert sum(len(pack.tokens) for pack in made.packs) == made.n_unique == len(prefixes)
    last = {row[1]: index for index, pack in enumerate(made.packs) for row in pack.reads.tolist()}
    done = [(i, index) for index, pack in enumerate(made.packs) for i in pack.done]
    assert sorted(done) == sorted(last.items())


@given(branching(), budgets)
def test_packs_keep_what_later_ones_need_and_are_as_full_as_can_be(asked, budget):
    """No subtree is cut that would fit."""
    made = plan(*asked, budget=budget)
    assert peak_kept(made) < max(map(len, asked[0]))
    sizes = subtrees(made)
    assert all(sizes[piece] > budget for pack in made.packs for piece in pack.kept)
    for pack, following in pairwise(made.packs):
        assert len(pack.tokens) + sizes[following.pieces.start] > budget


@pytest.mark.parametrize("budget", [100, 10_000])
def test_a_trie_of_a_thousand_branchings_in_depth_is_planned(budget):
    path = list(range(1100))
    sequences = [[*path[:end], 2000] for end in range(1, 1100)]
    made = plan(sequences, [2] * len(sequences), budget=budget)
    assert made.n_unique == 1099 + 1099
    assert sum(len(pack.tokens) for pack in made.packs) == made.n_unique


@pytest.mark.parametrize(
    ("sequences", "n_scored", "budget", "complaint"),
    [
        ([[1]], [1], 0, "budget of 0 tokens"),
        ([[1], []], [1, 1], 8, "request 1 scores 1 of 0"),
        ([[1]], [0], 8, "request 0 scores 0 of 1"),
        ([[1]], [2], 8, "request 0 scores 2 of 1"),
        ([[-1]], [1], 8, "not a number from 0"),
        ([[1], [2]], [1], 8, "shorter"),
    ],
)
def test_what_cannot_be_planned_is_refused(sequences, n_scored, budget, complaint):
    with pytest.raises(ValueError, match=complaint):
        plan(sequences, n_scored, budget=budget)
