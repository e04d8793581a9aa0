"""Quantised models: really quantised ones, loaded as their repository says, in every way that a
model is computed; and what is said of those that this machine cannot run."""

from __future__ import annotations

import dataclasses
import json
import shutil
from importlib.util import find_spec
from itertools import product

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.forward.memory import MOST_TOKENS_CPU, bytes_per_token, token_budget
from evalcore.model.forward.selfcheck import moved_by_what_follows
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.snapshot import Arguments
from tests import quantised, tiny
from tests.hub import run_client, serve

SHOTS = "Question: Which of these is made of wood?\nA. a table\nB. a river\nAnswer: A\n"
CONTEXTS = [SHOTS + f"Question {n}: Which of these has {n} legs?\nAnswer:" for n in range(6)]
PAIRS = list(product(CONTEXTS, [" A", " B", " a table", " a river of wood"]))

SAID = {
    **{method: " ".join(method.split()[:2]) for method in quantised.BITSANDBYTES},
    **dict.fromkeys(quantised.TORCHAO, "torchao"),
}
ALONE = "bitsandbytes 8-bit"
BY_ITS_COMPANY = {
    ALONE: "llm_int8_threshold 6",
    "torchao int8 dynamic by tensor": "by the largest number of all that is computed together",
}
"""Methods by which a row's answer depends on the rows beside it, and what is said of them."""
if not find_spec("torchao"):  # test_torchao.py runs this file in a process that has it
    del BY_ITS_COMPANY["torchao int8 dynamic by tensor"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return quantised.plain(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module", params=quantised.METHODS)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def folder(whole, method, tmp_path_factory):
    return quantised.make(whole, tmp_path_factory.mktemp("quantised") / "model", method)


@pytest.fixture(scope="module")
def lm(folder):
    return loaded(folder)


def loaded(folder, **arguments):
    return HuggingFaceLM(Arguments.of({"pretrained": str(folder), **arguments}), device="cpu")


def answers(lm, requests):
    encoded = lm.encode(requests)
    found = dict(pair for pack in lm.answer(encoded) for pair in pack)
    return encoded, [found[index] for index in range(len(encoded))]


def apart(some, others):
    pairs = zip(some, others, strict=True)
    return max(abs(answer.loglikelihood - other.loglikelihood) for answer, other in pairs)


@torch.inference_mode()
def said_alone(model, request):
    """The loglikelihood of a request's targets by one plain forward pass over its own row."""
    logits = model(torch.tensor([request.tokens])).logits[0, -len(request.targets) :]
    chosen = torch.tensor(request.targets)[:, None]
    return float(logits.double().log_softmax(-1).gather(1, chosen).sum())


def test_quantised_weights_are_as_wide_as_their_layers(whole, folder, method):
    """Else a pass of a quantised model holds a hundredth of the tokens that it could."""
    needed = bytes_per_token(AutoModelForCausalLM.from_pretrained(whole))
    assert needed == 4 * (4 * 128 + 12 * 64)  # float32; layers of 128 and 64
    model = AutoModelForCausalLM.from_pretrained(folder)
    if "4-bit" in method:  # two weights in a byte, in one long column
        assert model.model.layers[0].mlp.up_proj.weight.shape == (128 * 64 // 2, 1)
    assert bytes_per_token(model) == needed
    assert token_budget(model, longest=8) == MOST_TOKENS_CPU


def test_its_answers_are_those_of_a_plain_pass(whole, folder, lm, method):
    model = AutoModelForCausalLM.from_pretrained(folder)
    unquantised = AutoModelForCausalLM.from_pretrained(whole)
    encoded, found = answers(lm, [Request("loglikelihood", *pair) for pair in PAIRS])
    expected = [said_alone(model, request) for request in encoded]
    off = [abs(a.loglikelihood - b) for a, b in zip(found, expected, strict=True)]
    assert max(off) < 1e-4
    others = [said_alone(unquantised, request) for request in encoded]
    assert max(abs(a - b) for a, b in zip(expected, others, strict=True)) > 0.01
    how = lm.execution["loglikelihood"]
    assert BY_ITS_COMPANY.get(method, "") in how["reason"]
    if rounds_what_it_computes(model, method):
        assert how["step"] == "one by one"
        assert max(off) < 1e-5
    else:
        assert how["step"] == "in packs"


def rounds_what_it_computes(model, method):
    """Some processors multiply by bitsandbytes's four bits in bfloat16."""
    if "4-bit" in method:
        return model.model.layers[0].mlp.up_proj.support_avx512bf16_for_cpu
    return "8-bit" in method or "dynamic" in method


@pytest.mark.parametrize("method", BY_ITS_COMPANY)
def test_what_rounds_by_its_company_is_alone_in_half_precision_too(whole, tmp_path, method):
    folder = quantised.make(whole, tmp_path / "m", method, "bfloat16")
    lm = loaded(folder, softmax_dtype="float32")
    model = AutoModelForCausalLM.from_pretrained(folder)
    encoded, found = answers(lm, [Request("loglikelihood", *pair) for pair in PAIRS[:8]])
    assert lm.execution["loglikelihood"]["step"] == "one by one"
    for request, answer in zip(encoded, found, strict=True):
        assert abs(answer.loglikelihood - said_alone(model, request)) < 1e-5


def test_in_half_precision_its_fast_way_is_checked_as_any_other(whole, tmp_path):
    folder = quantised.make(whole, tmp_path / "m", "bitsandbytes 4-bit nf4", "bfloat16")
    lm = loaded(folder, softmax_dtype="float32")
    model = AutoModelForCausalLM.from_pretrained(folder)
    encoded, found = answers(lm, [Request("loglikelihood", *pair) for pair in PAIRS])
    for request, answer in zip(encoded, found, strict=True):
        assert abs(answer.loglikelihood - said_alone(model, request)) < 0.1
    how = lm.execution["loglikelihood"]
    assert how["step"] == "in packs"
    assert "not checked in float32: its weights are quantised" in how["reason"]


def test_its_texts_are_those_of_transformers(folder, lm):
    model = AutoModelForCausalLM.from_pretrained(folder)
    generation = {"until": ["\n\n"], "max_gen_toks": 8}
    requests = [
        Request("generate_until", context, generation=generation) for context in CONTEXTS[:3]
    ]
    encoded, found = answers(lm, requests)
    for request, answer in zip(encoded, found, strict=True):
        row = torch.tensor([request.tokens])
        written = model.generate(row, do_sample=False, max_new_tokens=8, pad_token_id=1)
        text = lm.tokenizer.decode(written[0, row.shape[1] :], skip_special_tokens=True)
        assert answer.text == text.partition("\n\n")[0]


def test_its_pins_say_how_it_is_quantised(whole, lm, method):
    info = lm.info
    assert info.quantisation == SAID[method]
    assert info.parameters == loaded(whole).info.parameters
    assert dataclasses.replace(info, quantisation=None).model_key != info.model_key


def test_an_initialised_one_has_the_same_answers_and_pins_of_its_own(folder, lm):
    model = AutoModelForCausalLM.from_pretrained(folder)
    own = HuggingFaceLM(model=model, tokenizer=lm.tokenizer)
    requests = [Request("loglikelihood", *pair) for pair in PAIRS]
    (_, found), (_, expected) = answers(own, requests), answers(lm, requests)
    assert apart(found, expected) < 1e-4
    before = own.info
    assert before.quantisation == lm.info.quantisation
    answers(own, requests[:2])
    assert before.model_key == own.info.model_key
    _, again = answers(own, requests)
    assert apart(again, found) < 1e-4  # asking for its pins changes no weight
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    assert own.info.model_key != before.model_key


def altered(folder, into, change):
    """A copy of a model whose weights, by their names, were changed."""
    into.mkdir()
    for file in folder.iterdir():
        (into / file.name).write_bytes(file.read_bytes())
    file = into / "model.safetensors"
    with file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
        metadata = json.loads(content.read(size)).get("__metadata__")
    save_file(change(load_file(file)), file, metadata=metadata)
    return into


def test_missing_weights_are_refused(folder, method, tmp_path):
    def without_a_layer(weights):
        return {name: kept for name, kept in weights.items() if "layers.1.mlp.up_proj" not in name}

    packed = method.startswith("bitsandbytes")
    said = r"lack quantised weights" if packed else r"lack weights .*up_proj"
    with pytest.raises(ModelError, match=said):
        loaded(altered(folder, tmp_path / "m", without_a_layer))


def test_a_part_of_a_weight_that_is_missing_is_refused(folder, tmp_path):
    """Scales, without which packed numbers mean nothing."""

    def without_scales(weights):
        named = ("layers.1.mlp.up_proj.SCB", "up_proj.weight.absmax", "up_proj._weight_scale")
        left = {name: kept for name, kept in weights.items() if not name.endswith(named)}
        assert len(left) < len(weights), sorted(weights)
        return left

    with pytest.raises(ModelError):
        loaded(altered(folder, tmp_path / "m", without_scales))


def test_surplus_layers_are_refused(folder, tmp_path):
    def with_a_layer_more(weights):
        more = {
            name.replace("layers.1.", "layers.2."): kept.clone()
            for name, kept in weights.items()
            if "layers.1.mlp.up_proj" in name
        }
        assert more
        return {**weights, **more}

    with pytest.raises(ModelError, match=r"hold layers that its configuration leaves out"):
        loaded(altered(folder, tmp_path / "m", with_a_layer_more))


@pytest.mark.parametrize("method", BY_ITS_COMPANY)
def test_a_quantised_model_that_sees_what_follows_is_found_out(whole, tmp_path, method):
    """Its rounding by others is switched off meanwhile, and hides nothing."""
    model = AutoModelForCausalLM.from_pretrained(quantised.make(whole, tmp_path / "q", method))
    tokens = list(range(5, 45))
    assert moved_by_what_follows(model, tokens, 20) is None
    for layer in model.model.layers:
        layer.mlp.register_forward_hook(lambda _, inputs, out: out.roll(-1, 1))
    assert moved_by_what_follows(model, tokens, 20) > 1


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
    plain = HuggingFaceLM(Arguments(pretrained=str(folder)), device="cpu").info
    assert plain.quantisation is None
    config = folder / "config.json"
    stated = {"quantization_config": {"quant_method": "bitnet", "bits": 2}}
    config.write_text(json.dumps({**json.loads(config.read_text()), **stated}))
    info = HuggingFaceLM(Arguments(pretrained=str(folder)), weights=False).info
    assert info.quantisation == "bitnet 2-bit"
    assert dataclasses.replace(info, quantisation=None).model_key != info.model_key


def test_an_adapter_over_quantised_weights_that_is_switched_off_is_another_model(whole, tmp_path):
    folder = quantised.make(whole, tmp_path / "m", "bitsandbytes 4-bit nf4")
    options = LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(folder), options)
    own = HuggingFaceLM(model=model, tokenizer=AutoTokenizer.from_pretrained(folder))
    before = own.info
    assert before.quantisation == "bitsandbytes 4-bit"
    with model.disable_adapter():
        assert own.info.model_key != before.model_key
    assert own.info.model_key == before.model_key


CANNOT_RUN_HERE = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "optimum"),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, "gptqmodel"),
    "fp8": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "needs a GPU"),
    "compressed": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
        "compressed",
    ),
    "without": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "requires bitsandbytes"),
    "unknown": (
        {"quant_method": "folded", "bits": 3},
        "transformers knows no quant_method 'folded': correct quant_method in its config.json",
    ),
    "unnamed": ({"bits": 3}, "no `quant_method`"),
    "hostile": ({"quant_method": "torchao", "quant_type": {"default": "rm -rf"}}, "torchao"),
}

PLAIN = (
    "its config.json says that its weights are quantised (bitsandbytes {}-bit), and they are plain"
)


@pytest.mark.parametrize("bits", [4, 8])
def test_plain_weights_under_a_configuration_of_packed_ones_are_refused(whole, tmp_path, bits):
    """Of several files before they are there, as their index names what is in them."""
    folder = shutil.copytree(whole, tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    stated = {"quant_method": "bitsandbytes", f"load_in_{bits}bit": True}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": stated}))
    with pytest.raises(ModelError) as refused:
        loaded(folder)
    assert PLAIN.format(bits) in str(refused.value)
    assert f"state load_in_{bits}bit=True in --model_args" in str(refused.value)
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError) as refused:
        loaded(folder)
    assert PLAIN.format(bits) in str(refused.value)


PROGRAM = """
import sys
sys.modules["bitsandbytes"] = None  # as on a machine that does not have it
from evalcore.errors import EvalError
from evalcore.model.registry import backend_of
for name in {names}:
    try:
        backend_of("hf").from_arguments({{"pretrained": "packed/" + name}}, device="cpu")
        print(name, "loaded")
    except EvalError as error:
        print(name, type(error).__name__, str(error).replace("\\n", " "))
"""


@pytest.fixture(scope="module")
def refusals(whole, tmp_path_factory):
    """What is said of each, and the files that were downloaded for it."""
    content = tmp_path_factory.mktemp("hub")
    for name, (stated, _) in CANNOT_RUN_HERE.items():
        folder = content / "models" / "packed" / name
        shutil.copytree(whole, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": stated}))
    home = tmp_path_factory.mktemp("home")
    with serve([content]) as url:
        said = run_client(PROGRAM.format(names=list(CANNOT_RUN_HERE)), url, home)
    lines = dict(line.split(" ", 1) for line in said.splitlines())
    return lines, [file for file in home.rglob("*") if file.suffix == ".safetensors"], home


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU can run some of them")
@pytest.mark.parametrize("name", CANNOT_RUN_HERE)
def test_what_cannot_be_run_here_is_refused_before_its_weights_are_downloaded(refusals, name):
    lines, weights, home = refusals
    assert lines[name].startswith("ModelError")
    assert f"packed/{name}: its weights are quantised" in lines[name]
    assert CANNOT_RUN_HERE[name][1] in lines[name]
    assert "on a machine that has it" in lines[name] or "before it was quantised" in lines[name]
    assert not weights
    assert list(home.rglob("config.json"))


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
        info = loaded(whole, **stated).info
        assert info.quantisation == said
        assert info.arguments["load_in_8bit" if "8-bit" in said else "load_in_4bit"] is True
        keys[info.model_key] = said
    not_at_all = loaded(whole, load_in_8bit="False", load_in_4bit="False").info
    assert not_at_all == loaded(whole).info
    assert len({*keys, not_at_all.model_key}) == 4


def test_a_precision_that_its_library_does_not_give_it_is_refused(whole, tmp_path):
    folder = quantised.make(whole, tmp_path / "m", "bitsandbytes 4-bit")
    with pytest.raises(ModelError, match=r"dtype: .* keeps float32, .* computed in float16"):
        loaded(folder, dtype="float16")
    assert loaded(folder, dtype="float32").info.dtype == "float32"
    assert loaded(whole, load_in_4bit="True", dtype="float16").info.dtype == "float16"


def test_what_is_quantised_already_is_not_quantised_again(whole, tmp_path):
    folder = quantised.make(whole, tmp_path / "m", "bitsandbytes 4-bit")
    with pytest.raises(ModelError, match=r"load_in_8bit: .* quantised already \(bitsandbytes 4"):
        loaded(folder, load_in_8bit="True")
