"""Tiny models whose weights are really quantised, saved as their libraries save them."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests import tiny

BITSANDBYTES: dict[str, dict[str, Any]] = {
    "bitsandbytes 8-bit": {"load_in_8bit": True},
    "bitsandbytes 8-bit rows": {"load_in_8bit": True, "llm_int8_threshold": 0.0},
    "bitsandbytes 4-bit": {"load_in_4bit": True},
    "bitsandbytes 4-bit nf4": {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
    },
}
TORCHAO = (
    "torchao int8",
    "torchao int8 dynamic",
    "torchao int8 dynamic by tensor",
    "torchao int4",
    "torchao float8",
)
METHODS = (*BITSANDBYTES, *(TORCHAO if find_spec("torchao") else ()))
"""Of the libraries that this process has: `test_torchao.py` runs the tests in one with torchao."""


def configuration(method: str) -> Any:
    """The library's own object that says how weights are quantised."""
    from transformers import BitsAndBytesConfig, TorchAoConfig

    if method in BITSANDBYTES:
        return BitsAndBytesConfig(**BITSANDBYTES[method])  # type: ignore[no-untyped-call]
    import torch
    from torchao import quantization as ao

    kinds = {
        "torchao int8": ao.Int8WeightOnlyConfig,
        "torchao int8 dynamic": ao.Int8DynamicActivationInt8WeightConfig,
        "torchao float8": ao.Float8WeightOnlyConfig,
    }
    if method in kinds:
        return TorchAoConfig(kinds[method]())
    if method == "torchao int8 dynamic by tensor":
        return TorchAoConfig(ao.Int8DynamicActivationInt8WeightConfig(granularity=ao.PerTensor()))
    in_groups = ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32))
    return TorchAoConfig(in_groups)


def plain(folder: Path) -> Path:
    return tiny.make(folder, positions=128)


def make(whole: Path, into: Path, method: str, dtype: str = "float32") -> Path:
    """The model in `whole`, quantised and saved with its tokenizer in `into`."""
    from transformers import AutoModelForCausalLM

    into.mkdir(parents=True)
    for file in whole.glob("tokenizer*"):
        shutil.copy(file, into)
    model = AutoModelForCausalLM.from_pretrained(
        whole, quantization_config=configuration(method), dtype=dtype
    )
    model.save_pretrained(into)
    return into
