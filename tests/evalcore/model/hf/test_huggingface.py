"""The `hf` backend against the plainest computation there is, and what it refuses."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny

TEXT = st.text(alphabet="abn \nAns:é.🙂", max_size=12)


@pytest.fixture(scope="module", params=[False, True], ids=["no BOS", "adds BOS"])
def folder(request, tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("tiny"), adds_bos=request.param, positions=64)


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


def load(folder, **arguments):
    given_arguments = {"pretrained": str(folder), "dtype": "float32", **arguments}
    return HuggingFaceLM(Arguments.of(given_arguments), batch_size=None, device="cpu")


def one_by_one(model, encoded):
    """Loglikelihood and greedy flag of one request alone, from full float64 log-softmax."""
    with torch.inference_mode():
        logits = model._model(torch.tensor([encoded.tokens])).logits[0].double()
    rows = logits[-len(encoded.targets) :]
    targets = torch.tensor(encoded.targets)
    total = torch.log_softmax(rows, -1).gather(1, targets[:, None]).sum().item()
    return total, bool((rows.argmax(-1) == targets).all())


def answers_of(model, requests):
    encoded = model.encode(requests)
    found = dict(pair for pack in model.answer(encoded) for pair in pack)
    return encoded, [found[index] for index in range(len(encoded))]


def test_batched_answers_equal_those_of_one_request_alone(model):
    requests = [
        Request("loglikelihood", "Question: Which is made of wood?" * (1 + n % 3), f" a table {n}")
        for n in range(17)
    ]
    encoded, answers = answers_of(model, requests)
    for request, answer in zip(encoded, answers, strict=True):
        total, is_greedy = one_by_one(model, request)
        assert abs(answer.loglikelihood - total) <= 1e-4 + 1e-6 * abs(total)
        assert answer.is_greedy == is_greedy


def test_a_greedy_continuation_is_recognised(model):
    (one,) = model.encode([Request("loglikelihood", "Question: Which", " a")])
    with torch.inference_mode():
        best = model._model(torch.tensor([one.tokens])).logits[0, -1].argmax().item()
    certain = type(one)(
        key="certain",
        tokens=one.tokens,
        targets=(best,),
        n_context_tokens=one.n_context_tokens,
        n_truncated=0,
    )
    ((_, answer),) = next(iter(model.answer([certain])))
    assert answer.is_greedy


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TEXT, TEXT.filter(bool))
def test_any_text_has_a_defined_split(model, context, continuation):
    (one,) = model.encode([Request("loglikelihood", context, continuation)])
    assert 1 <= len(one.targets) <= len(one.tokens)
    assert len(one.tokens) <= model.info.max_length
    assert one.tokens[len(one.tokens) - len(one.targets) + 1 :] == one.targets[:-1]


def test_a_context_that_is_too_long_loses_its_beginning_and_says_so(model):
    long = Request("loglikelihood", "wood " * 100, " a")
    (one,) = model.encode([long])
    assert len(one.tokens) == model.info.max_length
    assert one.n_truncated > 0


def test_a_continuation_longer_than_the_model_is_refused(model):
    with pytest.raises(ModelError, match="does not fit the model's length of 64"):
        model.encode([Request("loglikelihood", "a", " wood" * 100)])


def test_trailing_space_of_the_context_belongs_to_the_continuation(model):
    moved, plain = model.encode(
        [Request("loglikelihood", "Answer: ", "A"), Request("loglikelihood", "Answer:", " A")]
    )
    assert moved.key == plain.key


def test_arguments_are_refused_by_name():
    with pytest.raises(ModelError, match=r"'pretraind'.*pretrained.*dtype: expected one of"):
        Arguments.of({"pretraind": "x", "dtype": "int3"})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "config.json").write_text("{"), "cannot be loaded"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 100), "cannot be loaded"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights in safetensors"),
        (lambda f: (f / "tokenizer.json").unlink(), "cannot be loaded"),
    ],
    ids=["config.json", "weights", "no weights", "no tokenizer"],
)
def test_a_broken_repository_is_the_models_fault(tmp_path, damage, said):
    damage(tiny.make(tmp_path))
    with pytest.raises(ModelError, match=said):
        load(tmp_path)


def test_weights_that_are_missing_are_never_filled_with_random_numbers(tmp_path):
    from safetensors.torch import load_file, save_file

    tiny.make(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 in all, such as .*up_proj"):
        load(tmp_path)


def test_weights_that_are_not_numbers_give_no_score(tmp_path):
    from safetensors.torch import load_file, save_file

    tiny.make(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    model = load(tmp_path)
    with pytest.raises(ModelError, match="not a number"):
        answers_of(model, [Request("loglikelihood", "a", " b")])


def test_the_model_key_tells_models_apart_and_nothing_else(folder):
    key = load(folder).info.model_key
    assert load(folder).info.model_key == key
    assert load(folder, max_length="32").info.model_key != key
    assert load(folder, dtype="bfloat16").info.model_key != key


def test_other_weights_in_the_same_folder_are_another_model(tmp_path):
    first = load(tiny.make(tmp_path, seed=0)).info.model_key
    assert load(tiny.make(tmp_path, seed=1)).info.model_key != first


def test_a_model_that_sees_what_follows_is_refused(tmp_path):
    from transformers import BertConfig, BertLMHeadModel

    tiny.make(tmp_path)
    config = BertConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, initializer_range=0.5, is_decoder=False,
    )  # fmt: skip
    BertLMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="not causal"):
        answers_of(load(tmp_path), [Request("loglikelihood", "Question: Which is it", " a table")])


def test_a_token_beyond_the_models_vocabulary_is_named(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    tiny.make(tmp_path)
    config = LlamaConfig.from_pretrained(tmp_path, vocab_size=50)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"makes the token \d+, and the model has 50 tokens"):
        load(tmp_path).encode([Request("loglikelihood", "Question", " a")])


def test_a_configuration_with_fewer_layers_than_the_files_is_refused(tmp_path):
    from transformers import LlamaConfig

    tiny.make(tmp_path)
    LlamaConfig.from_pretrained(tmp_path, num_hidden_layers=1).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"layers that its configuration leaves out.*layers\.1"):
        load(tmp_path)


def test_bos_is_added_where_the_caller_wants_it(tmp_path):
    folder = tiny.make(tmp_path)
    plain, bos = (
        load(folder, **arguments).encode([Request("loglikelihood", "wood", " a")])[0]
        for arguments in ({}, {"add_bos_token": "True"})
    )
    assert bos.tokens == (0, *plain.tokens)
    assert bos.targets == plain.targets


def test_the_tokenizers_digest_does_not_depend_on_what_it_did(tmp_path):
    folder = tiny.make(tmp_path)
    unused, used = load(folder).encoder, load(folder).encoder
    used.tokenizer(["a", "a longer text"], padding=True, truncation=True, max_length=4)
    assert used.digest == unused.digest


def test_an_adapter_changes_the_answers_and_the_model_key(tmp_path):
    folder = tiny.make(tmp_path / "model")
    plain = load(folder)
    adapted = load(folder, peft=str(tiny.adapt(folder, tmp_path / "adapter")))
    request = Request("loglikelihood", "Question", " a table")
    ((_, (without,)), (_, (having,))) = (answers_of(one, [request]) for one in (plain, adapted))
    assert without.loglikelihood != having.loglikelihood
    assert plain.info.model_key != adapted.info.model_key
    assert adapted.info.adapter.startswith(f"{tmp_path / 'adapter'}@")


def test_a_model_in_a_folder_of_its_repository_is_that_model(tmp_path):
    plain = load(tiny.make(tmp_path / "a" / "inner"))
    inner = load(tmp_path / "a", subfolder="inner")
    assert inner.info.files_digest == plain.info.files_digest
    assert inner.info.model_key != plain.info.model_key


def test_another_tokenizer_is_another_model(tmp_path):
    folder = tiny.make(tmp_path / "model")
    other = tiny.make(tmp_path / "other", adds_bos=True)
    borrowed = load(folder, tokenizer=str(other))
    assert borrowed.info.tokenizer_digest == load(other).info.tokenizer_digest
    assert borrowed.info.model_key != load(folder).info.model_key


def test_a_softmax_in_lower_precision_is_taken_in_compat_and_is_another_model(folder):
    request = Request("loglikelihood", "Question", " a table")
    model, lower = load(folder), load(folder, softmax_dtype="bfloat16")
    (_, (full,)), (_, (rounded,)) = (answers_of(one, [request]) for one in (model, lower))
    said = torch.tensor(rounded.token_logprobs)
    assert said.bfloat16().float().tolist() == said.tolist()
    assert full.token_logprobs != rounded.token_logprobs
    assert rounded.loglikelihood == float(said.bfloat16().sum())
    assert lower.info.softmax_dtype == "bfloat16"
    assert model.info.model_key != lower.info.model_key


@pytest.mark.parametrize(
    ("dtype", "mode", "softmax"),
    [
        ("bfloat16", "compat", "bfloat16"),
        ("bfloat16", "strict", "float32"),
        ("float32", "compat", "float32"),
    ],
)
def test_the_softmax_is_in_the_models_precision_in_compat_alone(folder, dtype, mode, softmax):
    arguments = {"pretrained": str(folder), "dtype": dtype}
    lm = HuggingFaceLM.from_arguments(arguments, device="cpu", mode=mode)
    assert lm.info.softmax_dtype == softmax


def test_a_model_in_half_precision_whose_logits_are_not_is_taken_at_its_word(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    forward = model.forward

    def wide(*fed, **said):
        output = forward(*fed, **said)
        output.logits = output.logits.float()
        return output

    model.forward = functools.wraps(forward)(wide)
    tokenizer = load(folder).tokenizer
    lm = HuggingFaceLM(model=model, tokenizer=tokenizer)
    assert lm.info.softmax_dtype == "float32"
