"""What lies in a model's files: weights that are missing, left over, of other shapes or quantised,
files that say nonsense, GGUF files, and differences that are added to another model's weights.
Whatever they make a library raise is the model's fault; what the machine lacks is ours."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BertConfig, BertLMHeadModel, GgufConfig

from evalcore.errors import InfraError, ModelError
from evalcore.formats.lmeval.results import folder_name
from evalcore.model.base import Request
from evalcore.model.faults import libraries_fault, models_fault
from evalcore.model.hf import description
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.snapshot import Arguments
from evalcore.record import RunRecord
from tests import quantised, tiny
from tests.evalcore.model.asking import (
    answers_of,
    answers_to,
    load,
    load_by,
    plain_score,
    run_toys,
)
from tests.quantised import BY_ITS_COMPANY, CONTEXTS, CONTINUATIONS, GGUF_TYPES, write_gguf

ROW = torch.tensor([[5, 6, 7, 8, 9]])
LAYER = "model.layers.0.self_attn"
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("whole"), chat_template=tiny.CHAT)


@pytest.fixture
def folder(whole, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(whole, tmp_path / "model")


def use(folder):
    """All that a run does: load, write a conversation, encode, answer, spell."""
    model = HuggingFaceLM(Arguments(pretrained=str(folder)), device="cpu")
    assert model.info.model_key
    model.chat_template().render([{"role": "user", "content": "Which?"}], True)
    requests = [
        Request("loglikelihood", "Question: Which", " a table"),
        Request("generate_until", "Question", generation={"until": ["\n"], "max_gen_toks": 3}),
    ]
    for response in answers_of(model, requests):
        model.token_texts(response.token_ids)
    return model


# A special token that the tokenizer does not have: its Rust code panics when it is first used.
PANICS = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}],
    "pair": [],
    "special_tokens": {},
}


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("config.json", {"num_attention_heads": 0}, "cannot be loaded: .*zero"),
        ("config.json", {"sliding_window": []}, "it cannot write, with .*'>=' not"),
        ("config.json", {"transformers_weights": "adapter_model.bin"}, "transformers_weights: exp"),
        ("config.json", {"num_hidden_layers": 1}, r"that its configuration leaves out.*layers\.1"),
        ("tokenizer_config.json", {"model_max_length": "abc"}, "model_max_length: .* got 'abc'"),
        ("tokenizer.json", {"post_processor": PANICS}, "its tokenizer fails: no entry found"),
        ("generation_config.json", {"num_beams": "abc"}, "num_beams: expected a count, got 'abc'"),
        ("generation_config.json", {"temperature": float("nan")}, "temperature cannot be nan"),
        ("generation_config.json", {"assistant_early_exit": []}, "num_hidden_layers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_a_file_says_is_the_models_fault(folder, file, values, said):
    tiny.change_config(folder, file, **values)
    with pytest.raises(ModelError, match=said):
        use(folder)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", "{", "cannot be loaded"),
        ("config.json", "[" * 100_000, "cannot be loaded"),
        (WEIGHTS, "x" * 100, "cannot be loaded"),
        (WEIGHTS, None, "no weights in safetensors"),
        ("tokenizer.json", None, "cannot be loaded"),
        (
            "chat_template.jinja",
            "{{ 1 / 0 }}",
            "its chat template cannot be used: ZeroDivisionError",
        ),
    ],
    ids=["no JSON", "without end", "weights", "no weights", "no tokenizer", "template"],
)
def test_a_broken_file_is_the_models_fault(folder, file, content, said):
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(ModelError, match=said):
        use(folder)


def test_a_tokenizer_that_takes_minutes_to_load_is_the_models_fault(folder, monkeypatch):
    """A library compares each special token of this list with all others."""
    file = folder / "tokenizer_config.json"
    stated = json.loads(file.read_text())
    stated["extra_special_tokens"] = {f"t{n}": f"<special {n}>" for n in range(30_000)}
    file.write_text(json.dumps(stated))
    monkeypatch.setattr(description, "TOKENIZER_SECONDS", 0.5)
    with pytest.raises(ModelError, match=r"loading the tokenizer took more than 0\.5 s"):
        use(folder)


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_a_configuration_does_not_choose_the_code_that_computes_it(folder, key):
    """A name with a slash is a repository of kernels, which transformers fetches and runs."""
    tiny.change_config(folder, **{key: "somebody/kernel", "return_dict": False})
    config = use(folder)._model.config
    assert config._attn_implementation == "sdpa"
    assert config.return_dict


def test_a_model_that_sees_what_follows_is_refused(folder):
    config = BertConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, initializer_range=0.5, is_decoder=False,
    )  # fmt: skip
    BertLMHeadModel(config).save_pretrained(folder)
    with pytest.raises(ModelError, match="not causal"):
        answers_of(load(folder), [Request("loglikelihood", "Question: Which is it", " a table")])


@pytest.mark.parametrize(
    ("raised", "whose"),
    [
        (OSError(errno.ENOSPC, "whatever"), InfraError),
        (torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered"), InfraError),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), ModelError),
        (RuntimeError("Unexpected error from cudaGetDeviceCount(). Error 304: OS"), InfraError),
        (RuntimeError("CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling"), ModelError),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), ModelError),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_the_machine_lacks_is_ours_and_what_a_model_does_to_it_is_not(raised, whose):
    with pytest.raises(whose, match="it fails"), models_fault("it fails"):
        raise raised
    with pytest.raises(ZeroDivisionError), libraries_fault("it fails"):
        _ = 1 / 0
    with pytest.raises(ModelError, match="it fails"), libraries_fault("it fails"):
        torch.nn.Linear(2, 2)(torch.zeros(3))


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA starts here")
def test_a_gpu_that_nvml_counts_and_cuda_cannot_start_is_ours(whole, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InfraError, match=r"--device cuda:0: CUDA does not start .*nvidia-smi"):
        HuggingFaceLM(Arguments(pretrained=str(whole)), device="cuda:0")


# Weights that are missing, left over or of other shapes: refused with their names, whatever
# `transformers` makes of them; and those that are no concern are none.


def load_with(folder, *, without="", config=None, **added):
    """The model in `folder` with weights added to, or left out of, its file."""
    file = folder / WEIGHTS
    kept = {name: weight for name, weight in load_file(file).items() if name != without}
    save_file({**kept, **added}, file, metadata={"format": "pt"})
    tiny.change_config(folder, **(config or {}))
    return load(folder)


@pytest.mark.parametrize("name", [f"{LAYER}.q_proj.bias", f"{LAYER}.sinks", "model.norm.bias"])
def test_a_weight_of_a_layer_that_is_computed_without_it_is_refused(folder, name):
    with pytest.raises(ModelError, match=rf"computed without them, 1 in all, such as {name}: "):
        load_with(folder, **{name: torch.ones(64)})


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("llama", f"{LAYER}.rotary_emb.cos_cached"),
        ("llama", "v_head.summary.weight"),
        ("llama", "model.vision_tower.blocks.0.weight"),
        ("gpt2", "transformer.h.0.attn.bias"),
        ("gpt_neox", "gpt_neox.layers.1.attention.masked_bias"),
        ("gpt_neox", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"),
    ],
)
def test_what_is_no_weight_of_what_is_computed_changes_nothing(tmp_path, architecture, name):
    folder = tiny.make(tmp_path, architecture=architecture)
    with torch.inference_mode():
        expected = load(folder)._model(ROW).logits
        found = load_with(folder, **{name: torch.ones(8)})
        assert torch.equal(found._model(ROW).logits, expected)


def test_weights_of_another_shape_and_missing_ones_are_named(folder):
    """They are never filled with random numbers."""
    name = "model.layers.1.mlp.gate_proj.weight"
    with pytest.raises(
        ModelError, match=rf"other shapes .* 1 in all, such as {name} \(128 × 32, not 128 × 64\)"
    ):
        load_with(folder, **{name: torch.ones(128, 32)})
    with pytest.raises(ModelError, match=r"lack weights .* 1 in all, such as .*gate_proj"):
        load_with(folder, without=name)


def test_weights_that_are_not_numbers_give_no_score(folder):
    model = load_with(folder, **{"model.norm.weight": torch.full((64,), float("nan"))})
    with pytest.raises(ModelError, match="not a number"):
        answers_of(model, [Request("loglikelihood", "a", " b")])


def test_tied_tables_are_one_that_the_file_has(tmp_path):
    """And a file that has both keeps both, whatever its configuration says."""
    tied = {"tie_word_embeddings": True}
    table = torch.randn(342, 64)
    folders = [tiny.make(tmp_path / name) for name in ("both", "head", "none", "untied")]
    both = load_with(folders[0], config=tied)._model
    assert not torch.equal(both.lm_head.weight, both.model.embed_tokens.weight)
    head = load_with(
        folders[1], config=tied, without="model.embed_tokens.weight", **{"lm_head.weight": table}
    )._model
    assert torch.equal(head.model.embed_tokens.weight, table)
    alone = load_with(folders[2], config=tied, without="lm_head.weight")._model
    assert alone.lm_head.weight is alone.model.embed_tokens.weight
    with pytest.raises(ModelError, match=r"lack weights .* 1 in all, such as lm_head\.weight"):
        load_with(folders[3], without="lm_head.weight")


# Delta weights: the sum of two models, whole, and never of two that do not belong together.


@pytest.fixture(scope="module")
def delta(whole, tmp_path_factory):
    made = tmp_path_factory.mktemp("delta")
    return tiny.subtract(tiny.make(made / "tuned", seed=1), whole, made / "delta")


@pytest.mark.parametrize(
    ("architecture", "dtype"), [("llama", "auto"), ("gpt2", "float32"), ("gpt2", "bfloat16")]
)
def test_a_delta_makes_the_sum_in_the_models_precision(tmp_path, architecture, dtype):
    """Of GPT-2, whose tables are tied, each weight once: lm-evaluation-harness adds them twice."""
    base = tiny.make(tmp_path / "base", architecture=architecture)
    tuned = tiny.make(tmp_path / "tuned", architecture=architecture, seed=1)
    delta = tiny.subtract(tuned, base, tmp_path / "delta", "bfloat16")
    lm = load(base, delta=str(delta), dtype=dtype)
    expected, difference = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=dtype) for folder in (base, delta)
    )
    differences = dict(difference.named_parameters())
    with torch.no_grad():
        for name, weight in expected.named_parameters():
            weight += differences[name]
        assert torch.equal(lm._model(ROW).logits, expected.eval()(ROW).logits)
    assert lm.info.dtype == str(expected.dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"padding": 1}, r"2 of its weights .* lm_head\.weight \(343 × 64, where .* 342 × 64\)"),
        ({"architecture": "qwen2"}, r"it has 6 weights that the model does not have.*k_proj\.bias"),
        ({"architecture": "gpt_neox"}, r"it lacks \d+ weights of the model"),
    ],
    ids=["longer tables", "biases", "another kind"],
)
def test_a_delta_of_another_model_is_refused_before_weights_are_read(folder, tmp_path, made, said):
    other = tiny.make(tmp_path / "other", **made)
    for place in (folder, other):
        (place / WEIGHTS).write_bytes(b"")
    with pytest.raises(ModelError, match=f"cannot be added to the model as delta: .*{said}"):
        load(folder, delta=str(other))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda name, weight: None if "o_proj" in name else weight,
            r"its files lack weights .* 2 in all.*o_proj",
        ),
        (lambda name, weight: 0 * weight, "is zero in all its weights"),
    ],
    ids=["lacks weights", "changes nothing"],
)
def test_a_delta_that_is_not_whole_or_changes_nothing_is_refused(
    whole, delta, tmp_path, change, said
):
    copy = shutil.copytree(delta, tmp_path / "copy")
    weights = {name: change(name, weight) for name, weight in load_file(copy / WEIGHTS).items()}
    kept = {name: weight for name, weight in weights.items() if weight is not None}
    save_file(kept, copy / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=said):
        load(whole, delta=str(copy))


@pytest.mark.parametrize("which", ["base", "delta"])
def test_nothing_is_added_to_quantised_weights(whole, delta, tmp_path, which):
    folders = {"base": whole, "delta": delta}
    folders[which] = shutil.copytree(folders[which], tmp_path / "packed")
    tiny.change_config(folders[which], quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ModelError, match=r"(packed is quantised|are quantised) \(gptq 4-bit\)"):
        load(folders["base"], delta=str(folders["delta"]))


def test_results_with_a_delta_are_filed_under_its_name(whole, delta, toys, tmp_path):
    given = f"pretrained={whole},dtype=float32,delta={delta}"
    out = ["--limit", 2, "--output_path", tmp_path / "out"]
    assert run_toys(toys, "--model_args", given, *out) == 0
    folder = tmp_path / "out" / folder_name(str(delta))
    (results,) = folder.glob("results_*.json")
    stated = json.loads(results.read_text())
    assert stated["model_name"] == str(delta)
    assert stated["config"]["delta_sha"] == ""
    (record,) = folder.glob("record_*.json")
    record = RunRecord.read(record)
    assert record.model_name == str(delta)
    assert record.model["delta"].startswith(f"{delta}@")
    alone = load(whole).info
    assert record.model["model_key"] != alone.model_key
    assert "delta" not in alone.as_json()


# Quantised weights: which there are, how they are computed, what their pins say of them, and what
# is refused. The libraries' further methods are in `test_quantised_forms.py`.

SCORED = [Request("loglikelihood", context, end) for context in CONTEXTS for end in CONTINUATIONS]


@pytest.fixture(scope="module")
def packed(whole, tmp_path_factory):
    """In four bits, and saved so."""
    into = tmp_path_factory.mktemp("packed") / "model"
    return quantised.make(whole, into, "bitsandbytes 4-bit nf4")


@pytest.mark.parametrize("method", BY_ITS_COMPANY)
def test_what_rounds_by_its_company_is_computed_alone(whole, tmp_path, method):
    folder = quantised.make(whole, tmp_path / "m", method, "bfloat16")
    lm = load(folder, dtype="auto", softmax_dtype="float32")
    model = AutoModelForCausalLM.from_pretrained(folder)
    encoded = lm.encode(SCORED[:8])
    for request, answer in zip(encoded, answers_to(lm, encoded), strict=True):
        assert abs(answer.loglikelihood - plain_score(model, request)[0]) < 1e-5
    how = lm.execution["loglikelihood"]
    assert how["step"] == "one by one"
    assert BY_ITS_COMPANY[method] in how["reason"]


def test_in_half_precision_its_fast_way_is_checked_as_any_other(whole, tmp_path):
    folder = quantised.make(whole, tmp_path / "m", "bitsandbytes 4-bit nf4", "bfloat16")
    lm = load(folder, dtype="auto", softmax_dtype="float32")
    model = AutoModelForCausalLM.from_pretrained(folder)
    encoded = lm.encode(SCORED)
    for request, answer in zip(encoded, answers_to(lm, encoded), strict=True):
        assert abs(answer.loglikelihood - plain_score(model, request)[0]) < 0.1
    how = lm.execution["loglikelihood"]
    assert how["step"] == "in packs"
    assert "not checked in float32: its weights are quantised" in how["reason"]


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq 4-bit"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False},
         "bitsandbytes 4-bit"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, "compressed-tensors 8-bit"),
        ({"quant_method": "a\0b\ud800" + "x" * 99, "bits": "4"}, "ab" + "x" * 30),
        ({}, "unnamed"),
        (None, None),
        ([], None),
    ],
    ids=["gptq", "bitsandbytes", "fp8", "groups", "hostile", "empty", "none", "no mapping"],
)  # fmt: skip
def test_a_configuration_says_how_weights_are_quantised(stated, said):
    assert quantisation_of({"quantization_config": stated}) == said
    assert quantisation_of({"text_config": {"quantization_config": stated}}) == said


def test_a_models_pins_hold_its_quantisation(tmp_path):
    """Of BitNet, whose layers transformers itself computes."""
    folder = tiny.make(tmp_path)
    assert load(folder).info.quantisation is None
    tiny.change_config(folder, quantization_config={"quant_method": "bitnet", "bits": 2})
    info = HuggingFaceLM(Arguments(pretrained=str(folder)), weights=False).info
    assert info.quantisation == "bitnet 2-bit"
    assert dataclasses.replace(info, quantisation=None).model_key != info.model_key


@pytest.mark.parametrize("bits", [4, 8])
def test_plain_weights_under_a_configuration_of_packed_ones_are_refused(whole, tmp_path, bits):
    """Of several files before they are there, as their index names what is in them."""
    folder = shutil.copytree(whole, tmp_path / "m")
    packing = {"quant_method": "bitsandbytes", f"load_in_{bits}bit": True}
    tiny.change_config(folder, quantization_config=packing)
    said = (
        rf"its weights are quantised \(bitsandbytes {bits}-bit\), and they are plain"
        rf".*state load_in_{bits}bit=True in --model_args"
    )
    with pytest.raises(ModelError, match=said):
        load(folder, dtype="auto")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=said):
        load(folder, dtype="auto")


def test_weights_that_are_quantised_at_loading_say_so_in_their_pins(whole):
    keys = {}
    for said, stated in {
        "bitsandbytes 8-bit at loading": {"load_in_8bit": "True"},
        "bitsandbytes 4-bit fp4 float32 at loading": {"load_in_4bit": "True"},
        "bitsandbytes 4-bit nf4 double bfloat16 at loading": {
            "load_in_4bit": "True",
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": "True",
            "bnb_4bit_compute_dtype": "bfloat16",
        },
    }.items():
        info = load(whole, dtype="auto", **stated).info
        assert info.quantisation == said
        assert info.arguments["load_in_8bit" if "8-bit" in said else "load_in_4bit"] is True
        keys[info.model_key] = said
    not_at_all = load(whole, dtype="auto", load_in_8bit="False", load_in_4bit="False").info
    assert not_at_all == load(whole, dtype="auto").info
    assert len({*keys, not_at_all.model_key}) == 4


def test_what_its_library_does_not_do_with_it_is_refused(whole, packed):
    with pytest.raises(ModelError, match=r"load_in_8bit: .* quantised already \(bitsandbytes 4"):
        load(packed, load_in_8bit="True")
    with pytest.raises(ModelError, match=r"dtype: .* keeps float32, .* computed in float16"):
        load(packed, dtype="float16")
    assert load(packed, dtype="float32").info.dtype == "float32"
    assert load(whole, load_in_4bit="True", dtype="float16").info.dtype == "float16"


# GGUF files, written by llama.cpp's own package: the weights that they were made of, all of them,
# and nothing that lies beside the file.

ASKED = [
    Request("loglikelihood", "Question: Which of these is made of wood?", " a table"),
    Request("loglikelihood", "", " é🙂"),
    Request("loglikelihood_rolling", "", "The following are questions.\n" * 4),
    Request("generate_until", "Question:", generation={"until": ["\n"], "max_gen_toks": 8}),
]


def load_gguf(folder, file="m.gguf", **stated):
    return load_by("hf", folder, gguf_file=file, **stated)


def keys_of(lm):
    return [request.key for request in lm.encode(ASKED)]


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_plain_numbers_in_a_file_are_those_of_the_model(tmp_path, architecture):
    base = tiny.make(tmp_path / "base", architecture=architecture)
    write_gguf(base, tmp_path / "m.gguf", "F32")
    lm, plain = load_gguf(tmp_path), load(base)
    with torch.inference_mode():
        assert torch.equal(lm._model(ROW).logits, plain._model(ROW).logits)
    assert [one.tokens for one in lm.encode(ASKED)] == [one.tokens for one in plain.encode(ASKED)]
    for found, expected in zip(answers_of(lm, ASKED), answers_of(plain, ASKED), strict=True):
        assert found.loglikelihood == pytest.approx(expected.loglikelihood, abs=1e-4)
        assert found.text == expected.text
    assert lm.info.quantisation is None


@pytest.mark.parametrize(
    ("kind", "dtype"), [("Q8_0", "auto"), ("Q4_0", "bfloat16"), ("Q4_0", "float32")]
)
def test_packed_weights_are_those_that_transformers_unpacks(whole, tmp_path, kind, dtype):
    write_gguf(whole, tmp_path / "m.gguf", kind)
    lm = load_gguf(tmp_path, dtype=dtype)
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path,
        gguf_file="m.gguf",
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        quantization_config=GgufConfig(dequantize=True),
    ).eval()
    with torch.inference_mode():
        assert torch.equal(lm._model(ROW).logits, theirs(ROW).logits)
    assert lm.info.quantisation == f"gguf {kind}"
    assert lm.info.dtype == str(theirs.dtype).removeprefix("torch.")


def test_the_file_is_in_the_key(whole, tmp_path):
    keys = {}
    for kind in GGUF_TYPES:
        write_gguf(whole, tmp_path / "m.gguf", kind)
        info = load_gguf(tmp_path).info
        name, _, digest = info.gguf_file.partition("@")
        assert (name, len(digest)) == ("m.gguf", 64)
        assert info.as_json()["gguf_file"] == info.gguf_file
        keys[info.model_key] = info.tokenizer_digest
    assert len(keys) == len(GGUF_TYPES)
    assert len({*keys.values()}) == 1
    (tmp_path / "m.gguf").rename(tmp_path / "n.gguf")
    assert load_gguf(tmp_path, "n.gguf").info.model_key not in keys


def test_what_lies_beside_the_file_is_not_read(whole, tmp_path):
    """transformers would take the tokenizer of the folder, and its arguments of generation."""
    write_gguf(whole, tmp_path / "m.gguf")
    alone = load_gguf(tmp_path)
    assert keys_of(load_gguf(tmp_path, weights=False)) == keys_of(alone)
    for file in tiny.make(tmp_path / "other", words=True).iterdir():
        shutil.copy(file, tmp_path)
    stated = {"quantization_config": {"quant_method": "gptq", "bits": 4}, "max_new_tokens": 2}
    for name in ("config.json", "generation_config.json"):
        (tmp_path / name).write_text(json.dumps(stated))
    beside = load_gguf(tmp_path)
    assert beside.info == alone.info
    assert keys_of(beside) == keys_of(alone)
    named = load_gguf(tmp_path, tokenizer=str(tmp_path / "other"))
    assert named.info.tokenizer_digest != alone.info.tokenizer_digest


def test_a_file_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_gguf(tmp_path)
    with pytest.raises(ModelError, match=r"gguf_file: .* has no file n\.gguf"):
        load_gguf(tmp_path, "n.gguf")
    monkeypatch.setattr("evalcore.model.hf.gguf.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'plumbline\[gguf\]'"):
        load_gguf("owner/name")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            r"its positions are scaled \(rope\.scaling\.type linear\)",
        ),
        ({"rope_freqs.weight": np.full(8, 2, np.float32)}, r"scaled \(rope_freqs\.weight\)"),
        (
            {"blk.2.attn_norm.weight": np.ones(64, np.float32)},
            r"holds 117,888 numbers, and transformers makes a model of 117,824 of it",
        ),
        ({"without": "o_proj"}, r"its files lack weights .* 2 in all, such as .*o_proj"),
    ],
    ids=["scaled", "frequencies", "left over", "missing"],
)
def test_what_transformers_would_pass_over_is_refused(whole, tmp_path, stated, said):
    write_gguf(whole, tmp_path / "m.gguf", **stated)
    with pytest.raises(ModelError, match=said):
        load_gguf(tmp_path)
    # Frequencies that change nothing are no concern.
    write_gguf(whole, tmp_path / "m.gguf", **{"rope_freqs.weight": np.ones(8, np.float32)})
    assert load_gguf(tmp_path).info.parameters == 117_824
