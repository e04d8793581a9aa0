"""Scores in packs are those of feeding each request alone, or there are none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.errors import ModelError
from evalcore.model.forward import head
from evalcore.model.loglikelihood.packed import PackedPath, PackRunner
from evalcore.model.packs import attention, rectangles
from evalcore.model.packs.prefix import plan

VOCABULARY = 211

LLAMA = {
    "hidden_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ALL_HEADS = LLAMA | {"num_key_value_heads": 4}
EXPERTS = LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2}
GEMMA = LLAMA | {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 16}
GPT2 = {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 512}

MODELS = {
    "llama": LLAMA,
    "mistral": LLAMA | {"sliding_window": 24},
    "qwen2": LLAMA | {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    "gemma2": GEMMA | {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "gemma3_text": GEMMA | {"num_hidden_layers": 7},
    "phi": ALL_HEADS,
    "granite": LLAMA | {"logits_scaling": 2.0, "attention_multiplier": 0.3},
    "cohere": LLAMA | {"logit_scale": 0.5, "use_qk_norm": True},
    "gpt_neox": ALL_HEADS,
    "gpt2": GPT2,
    "gpt_bigcode": GPT2 | {"multi_query": True},
    "mixtral": EXPERTS | {"sliding_window": 24},
    "gpt_oss": EXPERTS | {"head_dim": 16, "sliding_window": 24, "num_hidden_layers": 4},
    "deepseek_v3": ALL_HEADS
    | {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16}
    | {"v_head_dim": 12, "n_routed_experts": 4, "n_group": 1, "topk_group": 1}
    | {"num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1},
}
"""Grouped heads, windows in some or all layers, soft caps, sinks, experts, learned positions, keys
and values of unequal size, logits that are scaled behind the head."""

OTHERS = {
    "gptj": GPT2 | {"rotary_dim": 8},
    "bloom": {"hidden_size": 48, "n_layer": 3, "n_head": 4},
    "falcon": {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4},
    "mamba": {"hidden_size": 48, "num_hidden_layers": 3, "state_size": 8},
    "jamba": LLAMA | {"num_experts": 2, "mamba_d_state": 4, "use_mamba_kernels": False},
    "llama4_text": EXPERTS | {"head_dim": 16, "attention_chunk_size": 16},
}
"""Attention of their own, a recurrent state, chunks: what packs cannot compute."""


def model_of(kind, sizes, *, vocabulary=VOCABULARY):
    """Random weights, with biases and norms far enough from nothing that each part counts."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **sizes, vocab_size=vocabulary)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            if weight.ndim < 2:
                weight += 0.2 * noise
            elif "embed" in name or "wte" in name:
                weight.copy_(noise)
            else:
                weight.copy_(noise * 0.6 / weight.shape[-1] ** 0.5)
    return model


def questions(model):
    """Sequences and targets: shared examples, choices of like and unlike length, single tokens,
    one answer that begins another, one long text; some answers are what the model would say."""
    draw = np.random.default_rng(0)

    def text(least, most):
        return draw.integers(3, VOCABULARY, int(draw.integers(least, most))).tolist()

    asked = []
    for shots in (text(90, 91), []):
        for _ in range(4):
            question = shots + text(5, 60)
            answers = [text(1, 12) for _ in range(4)]
            asked += [(question, answer) for answer in [*answers, answers[0] + text(1, 4)]]
        asked += [(question, [letter]) for letter in range(5, 9)]
    asked.append((text(50, 51), text(150, 151)))
    asked += [(question, said_by(model, question, 3)) for question, _ in asked[::5]]
    return [q + a[:-1] for q, a in asked], [a for _, a in asked]


@torch.inference_mode()
def said_by(model, tokens, count):
    said = []
    for _ in range(count):
        said.append(
            int(model(torch.tensor([tokens + said]), use_cache=False).logits[0, -1].argmax())
        )
    return said


@torch.inference_mode()
def one_by_one(model, sequences, targets):
    answers = []
    for tokens, wanted in zip(sequences, targets, strict=True):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0, -len(wanted) :]
        logprobs = logits.float().log_softmax(-1)
        greedy = bool((logprobs.argmax(-1) == torch.tensor(wanted)).all())
        answers.append((logprobs[range(len(wanted)), wanted].tolist(), greedy))
    return answers


def packed(model, sequences, targets, *, budget=1024, through_head=False):
    answers = [None] * len(sequences)
    path = PackedPath(model, through_head=through_head)
    for done in path.scores(sequences, targets, budget=budget):
        for index, scores in done:
            assert answers[index] is None
            answers[index] = (list(scores.logprobs), scores.is_greedy)
    return answers


def furthest(ours, theirs):
    """The largest difference of a loglikelihood, in units of what is allowed."""
    return max(
        abs(sum(our) - sum(their)) / (1e-4 + 1e-6 * abs(sum(their)))
        for (our, _), (their, _) in zip(ours, theirs, strict=True)
    )


def flags(answers):
    return [greedy for _, greedy in answers]


@pytest.mark.parametrize("kind", MODELS)
def test_each_request_is_scored_as_if_it_were_alone(kind):
    model = model_of(kind, MODELS[kind])
    sequences, targets = questions(model)
    expected = one_by_one(model, sequences, targets)
    assert any(flags(expected))
    assert not all(flags(expected))
    for budget in (1024, 50):
        answers = packed(model, sequences, targets, budget=budget)
        assert furthest(answers, expected) <= 1
        assert flags(answers) == flags(expected)


@pytest.mark.parametrize("budget", [1, 7, 64, 300, 10_000])
def test_the_budget_changes_no_score_and_no_pass_is_larger(budget):
    model = model_of("llama", LLAMA)
    sequences, targets = questions(model)
    sizes = []
    model.base_model.register_forward_pre_hook(
        lambda _, __, given: sizes.append(given["input_ids"].numel()), with_kwargs=True
    )
    answers = packed(model, sequences, targets, budget=budget, through_head=True)
    assert max(sizes) <= budget
    assert sum(sizes) == plan(sequences, [len(t) for t in targets], budget=budget).n_unique
    assert furthest(answers, one_by_one(model, sequences, targets)) <= 1


def test_keys_and_values_are_kept_while_a_later_pack_needs_them():
    model = model_of("llama", LLAMA)
    sequences, targets = questions(model)
    todo = plan(sequences, [len(target) for target in targets], budget=50)
    runner = PackRunner(model, todo)
    most = 0
    for pack in todo.packs:
        runner.run(pack)
        most = max(most, sum(todo.pieces[piece].length for piece in runner.kept))
        layers = {len(layers) for layers in runner.kept.values()}
        assert layers <= {model.config.num_hidden_layers}
    assert 0 < most < max(map(len, sequences))
    assert runner.kept == {}


@pytest.mark.parametrize("harm", ["siblings seen", "examples unseen", "positions ignored"])
def test_a_broken_attention_shows_in_the_scores(harm, monkeypatch):
    model = model_of("llama", LLAMA)
    sequences, targets = questions(model)
    expected = one_by_one(model, sequences, targets)
    whole = attention.blocks_of

    def broken(pack, pieces, **options):
        right = whole(pack, pieces, **options)
        every = (0, len(pack.tokens))
        if harm == "siblings seen":
            return rectangles.Blocks((rectangles.Block(every, every, causal=True),), ())
        return rectangles.Blocks(right.own, ())

    if harm == "positions ignored":
        monkeypatch.setattr(model.base_model.rotary_emb, "inv_freq", torch.zeros(6))
    else:
        monkeypatch.setattr(attention, "blocks_of", broken)
    assert furthest(packed(model, sequences, targets), expected) > 100


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_that_packs_cannot_compute_gets_no_scores(kind):
    model = model_of(kind, OTHERS[kind])
    with pytest.raises((NotImplementedError, TypeError)):
        packed(model, [[5, 6, 7], [5, 6, 8, 9]], [[4], [4, 5]])


def test_a_model_that_goes_past_its_base_is_read_through_its_head_only():
    sizes = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "ffn_dim": 64}
    model = model_of("opt", sizes | {"word_embed_proj_dim": 48, "max_position_embeddings": 512})
    sequences, targets = questions(model)
    answers = packed(model, sequences, targets, through_head=True)
    assert furthest(answers, one_by_one(model, sequences, targets)) <= 1
    with pytest.raises(NotImplementedError, match="asks its base 0 times"):
        packed(model, sequences, targets, through_head=False)


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
    model = model_of("llama", LLAMA)
    sequences, targets = questions(model)
    before = model.config._attn_implementation
    for _ in PackedPath(model, through_head=False).scores(sequences, targets, budget=99):
        assert model.config._attn_implementation == before
        assert "forward" not in vars(model.base_model)
    with torch.no_grad():
        model.get_output_embeddings().weight[7] = float("nan")
    with pytest.raises(ModelError, match="not a number"):
        packed(model, sequences, targets)
    assert model.config._attn_implementation == before
    assert "forward" not in vars(model.base_model)


def test_models_in_two_threads_do_not_meet():
    models = [model_of("llama", LLAMA), model_of("gpt2", GPT2)]
    asked = [questions(model) for model in models]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda n: packed(models[n], *asked[n], budget=40), range(2)))
    for model, (sequences, targets), answer in zip(models, asked, answers, strict=True):
        assert furthest(answer, one_by_one(model, sequences, targets)) <= 1


@st.composite
def tries(draw):
    """Sequences over few tokens, so that they share much, and a budget."""
    grown = [draw(st.lists(st.integers(0, 1), min_size=1, max_size=90))]
    for _ in range(draw(st.integers(0, 12))):
        stem = grown[draw(st.integers(0, len(grown) - 1))]
        cut = draw(st.integers(0, len(stem)))
        grown.append(stem[:cut] + draw(st.lists(st.integers(0, 2), min_size=1, max_size=40)))
    return grown, draw(st.integers(1, 400))


@settings(max_examples=150, deadline=None)
@given(tries(), st.none() | st.integers(1, 60), st.sampled_from([0, 1, 16, 64, 512]))
def test_each_row_sees_itself_and_its_ancestors_in_the_window_once(trie, window, tile):
    sequences, budget = trie
    todo = plan(sequences, [1] * len(sequences), budget=budget)
    for pack in todo.packs:
        found = rectangles.blocks_of(pack, todo.pieces, window=window, tile=tile)
        check_sight(todo, pack, window, found)


def check_sight(todo, pack, window, found):
    n, deepest = len(pack.tokens), int(pack.positions[0])
    owned = np.zeros(n, int)
    seen = np.zeros((n, deepest + n), int)
    for block in (*found.own, *found.cross):
        size = (block.rows[1] - block.rows[0], block.keys[1] - block.keys[0])
        mask = np.ones(size, bool) if block.mask is None else block.mask
        ahead = 0 if block.inherited else deepest
        keys = slice(block.keys[0] + ahead, block.keys[1] + ahead)
        seen[slice(*block.rows), keys] += np.tril(mask) if block.causal else mask
    for block in found.own:
        owned[slice(*block.rows)] += 1
    expected = np.zeros_like(seen)
    for index in pack.pieces:
        piece = todo.pieces[index]
        below, own = slice(piece.start, piece.end), slice(piece.start, piece.start + piece.length)
        expected[below, deepest + own.start : deepest + own.stop] = 1
        expected[own, deepest + own.start : deepest + own.stop] = np.tri(piece.length)
    for above in pack.inherited:
        piece = todo.pieces[above.piece]
        expected[: above.end, piece.depth : piece.depth + piece.length] = 1
    if window is not None:
        positions = np.concatenate([np.arange(deepest), pack.positions])
        expected[pack.positions[:, None] - positions[None, :] >= window] = 0
    assert (owned == 1).all()
    assert (seen == expected).all()


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_a_model_in_half_precision_are_not_rounded_to_it(dtype):
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, 40, 64).to(dtype) for heads in (8, 2, 2))
    options = {"scale": 0.25, "softcap": 50.0, "causal": True}
    exact = attention.softmax_attention(query.double(), key.double(), value.double(), **options)
    out, logsumexp = attention.softmax_attention(query, key, value, **options)
    assert float((logsumexp - exact[1]).abs().max()) < 1e-4
    assert float((out - exact[0]).abs().max()) < 2 * torch.finfo(dtype).eps


def test_attention_some_rows_at_a_time_is_attention(monkeypatch):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 4, 9, 8), torch.randn(3, 2, 9, 8), torch.randn(3, 2, 9, 6)
    options = {"scale": 0.3, "softcap": 5.0, "causal": True}
    whole = attention.softmax_attention(query, key, value, **options)
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", 3 * 4 * 9 * 2)  # two rows
    for ours, theirs in zip(
        attention.softmax_attention(query, key, value, **options), whole, strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_an_accelerator_is_asked_seldom_about_many_short_questions():
    sequences = [[1, 2, question, *range(3, 20)] for question in range(3, 103)]
    todo = plan(sequences, [1] * len(sequences), budget=4096)
    usual, on_gpu = (
        rectangles.blocks_of(todo.packs[0], todo.pieces, tile=tile)
        for tile in (rectangles.TILE, rectangles.TILE_GPU)
    )
    assert len(usual.own) > 20
    assert len(on_gpu.own) <= 5


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
