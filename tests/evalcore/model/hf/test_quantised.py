"""Quantised models: what their repository says of it, and how wide their layers really are."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from evalcore.model.forward.memory import MOST_TOKENS_CPU, bytes_per_token, token_budget
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.snapshot import Arguments
from tests import tiny


def pack(model):
    """Four bits for each weight, two in a byte, in one long column: as bitsandbytes keeps them."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module is not model.lm_head:
            bytes_of = torch.zeros(module.weight.numel() // 2, 1, dtype=torch.uint8)
            module.weight = torch.nn.Parameter(bytes_of, requires_grad=False)
    return model


def test_packed_weights_are_as_wide_as_their_layers(tmp_path):
    """Else a pass of a quantised model holds a hundredth of the tokens that it could."""
    whole = AutoModelForCausalLM.from_pretrained(tiny.make(tmp_path))
    needed = bytes_per_token(whole)
    assert needed == 4 * (4 * 128 + 12 * 64)  # float32; layers of 128 and 64
    packed = pack(whole)
    assert bytes_per_token(packed) == needed
    assert token_budget(packed, longest=8) == MOST_TOKENS_CPU


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
