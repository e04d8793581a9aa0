"""LoRA adapters that vLLM puts on, beside the same over transformers."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file, save_file

from evalcore.errors import ModelError
from evalcore.model.registry import backend_of
from tests import tiny
from tests.backends.conftest import told
from tests.backends.vllm.test_answers import MANY, answered, compared, requests_for, written


@pytest.fixture(scope="module")
def adapter(folder, tmp_path_factory):
    return tiny.adapt(folder, tmp_path_factory.mktemp("adapter"))


@pytest.fixture(scope="module")
def adapted(folder, adapter):
    return backend_of("vllm").from_arguments(told(folder, lora_local_path=str(adapter)))


def test_it_changes_the_numbers_to_those_that_transformers_has(adapted, lm, folder, adapter):
    stated = {"pretrained": str(folder), "dtype": "float32", "peft": str(adapter)}
    theirs = backend_of("hf").from_arguments(stated, device="cpu")
    found = answered(adapted, MANY)
    compared(found, answered(theirs, MANY))
    assert [one.path for one in found].count("shared") > 30
    without = answered(lm, MANY)
    assert all(
        abs(one.loglikelihood - other.loglikelihood) > 1e-3
        for one, other in zip(found, without, strict=True)
    )
    requests = requests_for(tokens=12)
    texts = [one.text for one in written(adapted, *requests)]
    assert texts == [one.text for one in written(theirs, *requests)]
    assert texts != [one.text for one in written(lm, *requests)]
    assert adapted.info.adapter == theirs.info.adapter
    assert adapted.info.name == theirs.info.name == str(adapter)
    assert adapted.info.model_key not in (theirs.info.model_key, lm.info.model_key)


def copied(adapter, into, change):
    into.mkdir()
    config = json.loads((adapter / "adapter_config.json").read_text())
    weights = load_file(adapter / "adapter_model.safetensors")
    change(config, weights)
    (into / "adapter_config.json").write_text(json.dumps(config))
    save_file(weights, into / "adapter_model.safetensors")
    return into


def lacking(config, weights):
    del weights[sorted(weights)[0]]


def foreign(config, weights):
    name = sorted(weights)[0]
    weights[name.replace("layers.0", "layers.7")] = weights[name].clone()


def of_dora(config, weights):
    config["use_dora"] = True


def of_tokens(config, weights):
    config["trainable_token_indices"] = [3, 4]


def wider(config, weights):
    name = next(name for name in weights if "lora_A" in name)
    weights[name] = weights[name][:, :-1].clone()


def zero(config, weights):
    for name in weights:
        if "lora_B" in name:
            weights[name] = weights[name] * 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lacking, "its file lacks 1 weights, such as base_model.model.model.layers.0.self_attn"),
        (foreign, "1 of its weights have no place, such as .*layers.7.self_attn"),
        (of_dora, "holds more than pairs of LoRA matrices .* such as .*magnitude"),
        (of_tokens, "holds more than pairs of LoRA matrices .* such as .*token"),
        (wider, r"lora_A.weight is \[8, 127\], and its place \[8, 128\]"),
    ],
)
def test_what_vllm_would_pass_over_is_refused_before_it_starts(
    folder, adapter, tmp_path, monkeypatch, change, says
):
    changed = copied(adapter, tmp_path / "changed", change)
    monkeypatch.setattr("evalcore.model.vllm.backend.Engine", None)
    with pytest.raises(ModelError, match=says):
        backend_of("vllm").from_arguments(told(folder, lora_local_path=str(changed)))


def test_too_little_room_for_its_rank_is_refused(folder, adapter, monkeypatch):
    monkeypatch.setattr("evalcore.model.vllm.backend.Engine", None)
    stated = told(folder, lora_local_path=str(adapter), max_lora_rank="1")
    with pytest.raises(
        ModelError, match=r"max_lora_rank: expected one of 8, .*rank .* is 8.*got 1"
    ):
        backend_of("vllm").from_arguments(stated)


def test_one_that_changes_nothing_is_refused(folder, adapter, tmp_path):
    changed = copied(adapter, tmp_path / "zero", zero)
    with pytest.raises(ModelError, match="changes nothing of what the model says"):
        backend_of("vllm").from_arguments(told(folder, lora_local_path=str(changed)))
