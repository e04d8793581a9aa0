"""Which way a model is computed: right on every architecture, and told why."""

from __future__ import annotations

import json
import logging
import random
from dataclasses import asdict

import pytest
import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.forward.selfcheck import PLACES, coarseness
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.loglikelihood.probes import Run
from evalcore.model.loglikelihood.scoring import Scorer
from evalcore.model.packs import attention
from evalcore.record import RunRecord
from evalcore.remarks import remarks_on
from tests import tiny
from tests.evalcore.toys import write_toys
from tests.hub import ROOT

DEMO = ROOT / "demo" / "content" / "models" / "plumbline-demo"

VOCABULARY, WINDOW = 200, 24

GROUPED = {"num_key_value_heads": 2}
LAYERS = {"layer_types": ["conv", "full_attention"]}
ARCHITECTURES = {
    "llama": {**GROUPED, "attention_bias": True},
    "gpt_neox": {},
    "gpt2": {},
    "mistral": {**GROUPED, "sliding_window": WINDOW},
    "qwen2": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 16},
    "gemma": {**GROUPED, "head_dim": 16},
    "gemma2": {**GROUPED, "head_dim": 16, "sliding_window": WINDOW},
    "gemma3_text": {**GROUPED, "head_dim": 16, "sliding_window": WINDOW},
    "phi": {},
    "phi3": GROUPED,
    "olmo2": {},
    "granite": {**GROUPED, "logits_scaling": 3.0},
    "cohere": {**GROUPED, "logit_scale": 0.3},
    "stablelm": {**GROUPED, "use_qkv_bias": True},
    "starcoder2": {**GROUPED, "use_bias": True},
    "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "gpt_oss": {
        **GROUPED,
        "head_dim": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
    },
    "gptj": {"rotary_dim": 8, "n_inner": 128},
    "gpt_neo": {
        "attention_types": [[["global", "local"], 1]],
        "num_layers": 2,
        "num_heads": 4,
        "window_size": WINDOW,
    },
    "bloom": {},
    "falcon": {"alibi": True, "new_decoder_architecture": False},
    "mamba2": {"state_size": 16, "head_dim": 32, "num_heads": 4, "n_groups": 1},
    "rwkv": {"attention_hidden_size": 64},
    "lfm2": {**GROUPED, **LAYERS},
    "mamba": {"state_size": 8},
    "jamba": {
        **GROUPED,
        "mamba_d_state": 8,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "num_experts": 2,
    },
    "recurrent_gemma": {
        "lru_width": 64,
        "attention_window_size": WINDOW,
        "num_key_value_heads": 1,
        "block_types": ["recurrent", "attention"],
    },
}
"""Attention in many forms, states, experts; windows that the requests below leave."""

PACKED = ("llama", "gpt_neox", "gpt2")
"""Kinds that must not fall back: most models that people submit are like them."""

WRONG_MEMORY = ("mamba", "jamba")
"""What they keep between two calls loses something where several tokens follow."""


def model_of(architecture, **more):
    """Random weights with some spread, and biases and norms that are not what they begin with."""
    config = AutoConfig.for_model(
        architecture,
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        **ARCHITECTURES[architecture],
        **more,
    )
    model = AutoModelForCausalLM.from_config(config).eval().float()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draw)
            if weight.dim() > 1:
                weight.copy_(noise * (0.5 if VOCABULARY in weight.shape else 0.1))
            elif "bias" in name or "norm" in name:
                weight.add_(0.2 * noise)
    return model


def requests(seed=0, documents=24, longest=25, choices=4):
    """Documents after one introduction, each with choices of one to six tokens."""
    draw = random.Random(seed)

    def some(n):
        return tuple(draw.randrange(2, VOCABULARY) for _ in range(n))

    introduction, found = some(30), []
    for document in range(documents):
        context = introduction[: 30 if document % 3 else 10] + some(draw.randint(5, longest))
        for _ in range(choices):
            found.append(request(context, some(draw.randint(1, 6))))
    return found


def request(context, targets):
    tokens = context + targets[:-1]
    return EncodedRequest(
        key=EncodedRequest.key_of(tokens, targets),
        tokens=tokens,
        targets=targets,
        n_context_tokens=len(context),
    )


def with_greedy_ones(model, asked):
    """Some more of them, whose targets the model itself finds likeliest."""
    found = []
    for scored in asked[::9]:
        context = scored.tokens[: scored.n_context_tokens]
        for _ in range(3):
            with torch.inference_mode():
                context += (int(model(torch.tensor([context])).logits[0, -1].argmax()),)
        found.append(request(context[:-3], context[-3:]))
    return [*asked, *found]


def one_by_one(model, one):
    with torch.inference_mode():
        logits = model(torch.tensor([one.tokens])).logits[0, -len(one.targets) :].double()
    targets = torch.tensor(one.targets)
    total = torch.log_softmax(logits, -1).gather(1, targets[:, None]).sum().item()
    return total, bool((logits.argmax(-1) == targets).all())


def answers_of(scorer, asked):
    found = dict(pair for pack in scorer.answers(asked) for pair in pack)
    return [found[index] for index in range(len(asked))]


def check(model, asked, answers):
    for scored, answer in zip(asked, answers, strict=True):
        total, is_greedy = one_by_one(model, scored)
        assert abs(answer.loglikelihood - total) <= 1e-4 + 1e-6 * abs(total)
        assert answer.is_greedy == is_greedy


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_is_right_or_computed_more_plainly(architecture):
    model = model_of(architecture)
    asked = with_greedy_ones(model, requests())
    scorer = Scorer(model, batch_size=None)
    answers = answers_of(scorer, asked)
    check(model, asked, answers)
    assert any(answer.is_greedy for answer in answers)
    assert {answer.path for answer in answers} == {scorer.execution["path"]}
    if architecture in PACKED:
        assert scorer.execution["path"] == "packed"
    if architecture in WRONG_MEMORY:
        assert scorer.execution["path"] == "plain"
        assert "not by shared contexts: a loglikelihood of" in scorer.execution["reason"]


@pytest.mark.parametrize("name", sorted(path.name for path in DEMO.iterdir()))
def test_the_demos_trained_models_are_right_in_packs(name):
    arguments = Arguments(pretrained=str(DEMO / name), dtype="float32")
    lm = HuggingFaceLM(arguments, device="cpu", path="packed")
    asked = lm.encode(
        [
            Request(
                "loglikelihood", f"Question: {'What is made of wood? ' * (n % 4)}{n}\nAnswer:", end
            )
            for n in range(12)
            for end in (" a table", " the river", " A", " B")
        ]
        + [Request("loglikelihood_rolling", "", "Anna has a dog and a cat. " * 80)]
    )
    answers = answers_of_lm(lm, asked)
    check(lm._model, asked[:-1], answers[:-1])
    total = sum(one_by_one(lm._model, window)[0] for window in asked[-1].windows)
    assert abs(answers[-1].loglikelihood - total) <= 1e-4 + 1e-6 * abs(total)
    assert {answer.path for answer in answers} == {"packed"}


@pytest.mark.parametrize("name", sorted(path.name for path in DEMO.iterdir()))
def test_letters_in_bfloat16_are_scored_in_packs(name):
    """A single logit is stored so coarsely there that one step is more than 0.02 nats."""
    lm = HuggingFaceLM(Arguments(pretrained=str(DEMO / name), dtype="bfloat16"), device="cpu")
    shots = "Question: Who has a dog?\nA. Anna\nB. Ben\nAnswer: A\n\n" * 3
    asked = lm.encode(
        [
            Request(
                "loglikelihood", f"{shots}Question: Where is {n}?\nA. here\nB. there\nAnswer:", end
            )
            for n in range(60)
            for end in (" A", " B")
        ]
    )
    assert {answer.path for answer in answers_of_lm(lm, asked)} == {"packed"}, lm.execution


def answers_of_lm(lm, asked):
    found = dict(pair for pack in lm.answer(asked) for pair in pack)
    return [found[index] for index in range(len(asked))]


def damaged(change):
    """The attention of packs, changed in one respect."""

    def attend(module, query, key, value, mask, **said):
        return change(module, query, key, value, mask, said)

    return attend


def softer(module, query, key, value, mask, said):
    scale = said.pop("scaling", None) or query.shape[-1] ** -0.5
    return attention.packed_attention(module, query, key, value, mask, scaling=0.97 * scale, **said)


def blind_to_the_window(module, query, key, value, mask, said):
    said.pop("sliding_window", None)
    return attention.packed_attention(module, query, key, value, mask, **said)


def quiet_in_one_head(module, query, key, value, mask, said):
    answer, _ = attention.packed_attention(module, query, key, value, mask, **said)
    answer[:, :, 0] *= 0.9
    return answer, None


@pytest.mark.parametrize(
    ("architecture", "damage"),
    [
        ("llama", softer),
        ("llama", quiet_in_one_head),
        ("mistral", blind_to_the_window),
        ("gpt_neox", softer),
    ],
)
def test_attention_that_is_broken_is_found_out(monkeypatch, architecture, damage):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(damage))
    model, asked = model_of(architecture), requests()
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] == "shared"
    assert "not in packs nor" in scorer.execution["reason"] or (
        "not in packs: a loglikelihood" in scorer.execution["reason"]
    )
    with pytest.raises(ModelError, match="cannot be computed as was asked"):
        answers_of(Scorer(model, batch_size=None, path="packed"), asked)


def test_a_window_that_no_earlier_request_left_is_found_when_one_does(monkeypatch):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(blind_to_the_window))
    model = model_of("mistral")
    scorer = Scorer(model, batch_size=None)
    short = [scored for scored in requests(longest=6) if len(scored.tokens) <= WINDOW]
    check(model, short, answers_of(scorer, short))
    assert scorer.execution["path"] == "packed"
    check(model, requests(), answers_of(scorer, requests()))
    assert scorer.execution["path"] == "shared"


def test_positions_that_change_with_the_length_of_a_row_leave_each_row_alone():
    """As in models with two sets of rotary factors: one for rows up to a length, one beyond it."""
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "factor": 8.0,
        "short_factor": [1.0] * 8,
        "long_factor": [4.0] * 8,
        "original_max_position_embeddings": 75,
    }
    model = model_of("phi3", rope_parameters=rope, original_max_position_embeddings=75)
    start = tuple(range(2, 42))
    asked = [
        request(start + scored.tokens[: scored.n_context_tokens], scored.targets)
        for scored in requests()
    ]
    assert any(scored.n_context_tokens <= 75 < len(scored.tokens) for scored in asked)
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["step"] == "one by one"
    assert "changes when" in scorer.execution["reason"]


def test_a_step_that_fails_in_use_gives_way_and_loses_no_answer(monkeypatch):
    model, asked = model_of("llama"), requests()
    calls = iter(range(10**6))

    def failing_late(module, query, key, value, mask, said):
        if next(calls) >= 8:
            raise ValueError("not in this shape")
        return attention.packed_attention(module, query, key, value, mask, **said)

    scorer = Scorer(model, batch_size=None)
    scorer._budget = 128
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(failing_late))
    answers = answers_of(scorer, asked)
    check(model, asked, answers)
    assert {answer.path for answer in answers} == {"packed", "shared"}
    assert "failed in use: ValueError: not in this shape" in scorer.execution["reason"]


def test_a_handful_of_requests_is_not_worth_a_check():
    model, asked = model_of("llama"), requests(documents=1, choices=2)
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] == "plain"
    assert "tokens is too small" in scorer.execution["reason"]
    answers_of(scorer, requests())
    assert scorer.execution["path"] == "packed"


def mixing_rows(model):
    """Each row gets something of the others in its batch, as where a norm is taken over all."""
    layer = model.get_decoder().layers[0]

    def mix(_, __, output):
        return 0.5 * (output + output.mean(dim=0, keepdim=True))

    layer.register_forward_hook(mix)
    return model


@pytest.mark.parametrize("documents", [2, 24])
@pytest.mark.parametrize("path", ["auto", "plain"])
def test_rows_that_influence_each_other_are_fed_one_by_one(monkeypatch, documents, path):
    """Whatever the size of the run; packs, which are rows of their own, are not at hand here."""
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(softer))
    model, asked = mixing_rows(model_of("llama")), requests(documents=documents)
    scorer = Scorer(model, batch_size=None, path=path)
    monkeypatch.setattr("evalcore.model.loglikelihood.ladder.WORTH_SHARING", 0.0)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["step"] == "one by one"
    assert "not in batches: a loglikelihood of" in scorer.execution["reason"]


def test_what_the_check_has_computed_is_not_computed_again():
    """Twice only the few rows that are compared."""
    model, asked = model_of("llama"), requests(documents=20)
    fed, scorer = [], Scorer(model, batch_size=None)
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, inputs: fed.append(inputs[0].numel())
    )
    answers = answers_of(scorer, asked)
    hook.remove()
    check(model, asked, answers)
    run = Run([scored.tokens for scored in asked], [scored.targets for scored in asked])
    of_causality = 3 * PLACES
    assert sum(fed) <= run.n_unique + run.probes.n_tokens + of_causality


def test_the_check_is_a_hundredth_of_a_long_run():
    model, asked = model_of("llama"), requests(documents=500)
    fed = []
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _, inputs: fed.append(inputs[0].numel())
    )
    Scorer(model, batch_size=None)._ladder.choose(
        [scored.tokens for scored in asked], [scored.targets for scored in asked], budget=2048
    )
    hook.remove()
    assert sum(fed) <= 0.01 * sum(len(scored.tokens) for scored in asked)


def test_the_choice_and_its_reason_are_told_once(caplog):
    model = model_of("granite")
    scorer = Scorer(model, batch_size=None)
    with caplog.at_level(logging.INFO, logger="evalcore.model.loglikelihood.ladder"):
        answers_of(scorer, requests())
        answers_of(scorer, requests(seed=1))
    (told,) = caplog.messages
    assert told.startswith("loglikelihoods are computed in packs to the model's end (not in packs:")


def test_the_record_says_which_way_and_why(tmp_path):
    folder = tiny.make(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder)
    (done,) = evaluate(model, ["toy_choice"], include_path=write_toys(tmp_path), bootstrap_iters=0)
    told = RunRecord.of(json.loads(json.dumps(asdict(done.record)))).execution["loglikelihood"]
    assert done.record.paths == {"packed": 36}
    assert (told["path"], told["step"], told["halvings"]) == ("packed", "in packs", 0)
    assert "from the model's own answers" in told["reason"]


def test_a_way_that_failed_by_an_error_of_ours_is_among_the_remarks(monkeypatch, tmp_path, caplog):
    """And a warning in the log, not a line that nobody reads."""

    def fails(*_):
        raise TypeError("an error of ours")

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(fails))
    model = AutoModelForCausalLM.from_pretrained(tiny.make(tmp_path / "model"))
    (done,) = evaluate(model, ["toy_choice"], include_path=write_toys(tmp_path), bootstrap_iters=0)
    (remark,) = remarks_on([done.record, done.record])
    assert remark.startswith("loglikelihood requests were computed ")
    assert "not in packs nor in packs to the model's end: TypeError: an error of ours" in remark
    assert any(record.levelname == "WARNING" for record in caplog.records)


@pytest.mark.parametrize(
    ("wanted", "holds", "path", "halvings"),
    [("auto", 300, "packed", 3), ("auto", 70, "shared", 3), ("plain", 70, "plain", 5)],
    ids=["fewer tokens in a pack", "a plainer way", "smaller batches"],
)
def test_out_of_memory_halves_the_passes_and_is_recorded(wanted, holds, path, halvings):
    """From 2048 tokens on; packs of fewer than 256 are slower than a plainer way."""
    model, asked = model_of("llama"), requests(documents=60)

    def small_device(_, inputs):
        if inputs[0].numel() > holds:
            raise torch.OutOfMemoryError("no room")

    model.get_input_embeddings().register_forward_pre_hook(small_device)
    scorer = Scorer(model, batch_size=None, path=wanted)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] == path
    assert scorer.execution["halvings"] == halvings
    assert scorer.execution["tokens_per_pass"] == 2048 >> halvings


def test_one_row_that_does_not_fit_is_the_models_fault():
    model = model_of("llama")

    def no_device(_, inputs):
        if inputs[0].numel() > 20:
            raise torch.OutOfMemoryError("no room")

    model.get_input_embeddings().register_forward_pre_hook(no_device)
    with pytest.raises(ModelError, match="out of memory on cpu"):
        answers_of(Scorer(model, batch_size=None), requests())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_held_to_its_own_noise(monkeypatch, dtype):
    model, asked = model_of("llama").to(dtype), requests()
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["path"] == "packed"
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(quiet_in_one_head))
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["path"] != "packed"


def rounding_batches(model, by):
    """As a GPU does, which computes several rows by other products than one."""

    def moved(_module, given, answer):
        return answer * (1 + by) if len(given[0]) > 1 else answer

    model.base_model.layers[0].mlp.down_proj.register_forward_hook(moved)
    return model


def slightly_off(by):
    def change(module, query, key, value, mask, said):
        answer, _ = attention.packed_attention(module, query, key, value, mask, **said)
        return answer * (1 + by), None

    return damaged(change)


@pytest.mark.parametrize(
    ("noise", "off", "path"),
    [
        (0.0, 2e-5, "packed"),
        (0.0, 1e-4, "shared"),
        (3e-4, 1e-4, "packed"),
        (3e-4, 3e-3, "shared"),
        (1e-2, 2e-4, "packed"),
        (1e-2, 3e-3, "shared"),
    ],
)
def test_float32_is_held_to_its_own_noise_and_to_little_of_it(monkeypatch, noise, off, path):
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, slightly_off(off))
    scorer = Scorer(rounding_batches(model_of("llama"), noise), batch_size=None)
    answers_of(scorer, requests())
    assert scorer.execution["path"] == path, scorer.execution


def off_by_one(module, query, key, value, mask, said):
    if said.get("sliding_window"):
        said["sliding_window"] += 1
    return attention.packed_attention(module, query, key, value, mask, **said)


def with_quiet_attention(model):
    """What attention adds is little beside a token itself, so that one key more moves little."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "o_proj" in name:
                weight.mul_(0.03)
    return model


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_window_that_is_off_by_one_is_found_in_half_precision(monkeypatch, dtype):
    """What it moves is less than rounding does, so it is looked for in float32."""
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, attention.NAME, damaged(off_by_one))
    model, asked = with_quiet_attention(model_of("mistral")).to(dtype), requests()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["path"] == "shared"
    assert "not in packs" in scorer.execution["reason"]
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == dtype
        assert torch.equal(tensor, before[name])
    monkeypatch.undo()
    scorer = Scorer(model, batch_size=None)
    answers_of(scorer, asked)
    assert scorer.execution["step"] == "in packs"


def test_a_model_is_left_as_it_was():
    model, asked = model_of("llama"), requests()
    model.set_attn_implementation("eager")
    before = model(torch.tensor([asked[0].tokens])).logits
    answers = answers_of(Scorer(model, batch_size=None), asked)
    assert {answer.path for answer in answers} == {"packed"}
    assert model.config._attn_implementation == "eager"
    assert torch.equal(model(torch.tensor([asked[0].tokens])).logits, before)


def test_an_attention_of_the_callers_own_is_what_is_computed():
    """Of which the attention of packs knows nothing."""

    def linear(module, query, key, value, attention_mask, **_):
        weights = (query @ key.repeat_interleave(2, 1).transpose(2, 3)).tril()
        return (weights @ value.repeat_interleave(2, 1)).transpose(1, 2) / 50, None

    ALL_ATTENTION_FUNCTIONS.register("callers_own", linear)
    model, asked = model_of("llama"), requests()
    model.set_attn_implementation("callers_own")
    scorer = Scorer(model, batch_size=None)
    check(model, asked, answers_of(scorer, asked))
    assert scorer.execution["path"] != "packed"


def test_a_peft_model_is_computed_with_its_adapter(tmp_path):
    folder = tiny.make(tmp_path / "model")
    adapter = tiny.adapt(folder, tmp_path / "adapter")
    loaded = HuggingFaceLM(Arguments(pretrained=str(folder), peft=str(adapter)), device="cpu")
    wrapped = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), adapter)
    for model in (loaded._model, wrapped.eval()):
        asked = requests()
        check(model, asked, answers_of(Scorer(model, batch_size=None), asked))
    assert answers_of(Scorer(loaded._model, batch_size=None), asked)[0].path == "packed"


@pytest.mark.parametrize("forbidden", [float("-inf"), torch.finfo(torch.bfloat16).min])
def test_what_half_precision_allows_is_told_from_tokens_that_are_possible(forbidden):
    logits = torch.tensor([[12.0, -8.0, 3.0, 0.5]], dtype=torch.bfloat16)
    with_it = torch.cat([logits, torch.full((1, 1), forbidden, dtype=torch.bfloat16)], dim=1)
    allowed = coarseness(logits, torch.bfloat16)
    assert allowed == 2 * 2**-7 * 12
    assert coarseness(with_it, torch.bfloat16) == allowed
