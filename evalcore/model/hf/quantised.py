"""Quantised weights: whether this machine can run them, and what loading them needs.

`transformers` has an object for each method's configuration and one that loads it; these are asked,
and no list of ours. What a method needs is known from config.json, before weights are downloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import BitsAndBytesConfig
from transformers.quantizers.auto import (
    AUTO_QUANTIZATION_CONFIG_MAPPING,
    AutoHfQuantizer,
    AutoQuantizationConfig,
)
from transformers.utils.quantization_config import QuantizationMethod

from evalcore.errors import ModelError
from evalcore.model.faults import reason_of
from evalcore.model.hf.quantisation import at_loading, quantisation_of, stated_in
from evalcore.model.hf.repository import INDEX, WEIGHTS, read_object
from evalcore.model.hf.snapshot import Arguments

ROUNDS_WHAT_IT_COMPUTES = frozenset(("fp8", "mxfp8"))
"""Methods whose layers round what goes through them, too: weights that are unpacked into 16 bits,
as transformers does where there is no GPU for them, would give other numbers."""

REMEDY = "install what it names, or evaluate it on a machine that has it"
UNKNOWN_REMEDY = (
    "correct quant_method in its config.json, or evaluate the model as it was before it was "
    "quantised"
)
PACKED = {"load_in_4bit": ".quant_state.", "load_in_8bit": ".SCB"}
"""What stands in the name of a weight beside each that bitsandbytes has packed."""


def check_runs_here(arguments: Arguments, folder: Path, device: str) -> None:
    """Raises ModelError for a model in `folder` whose weights cannot be computed on this machine
    as its config.json, or the command, says that they are quantised."""
    name, stated = arguments.pretrained, stated_in(read_object(folder / "config.json"))
    wanted = on_the_fly(arguments)
    if stated is None and wanted is None:
        return
    if stated is not None and wanted is not None:
        raise ModelError(
            f"--model_args: load_in_{'4' if arguments.load_in_4bit else '8'}bit: {name} is "
            f"quantised already ({quantisation_of({'quantization_config': stated})}): leave the "
            "argument out"
        )
    said = at_loading(arguments) or quantisation_of({"quantization_config": stated})
    what = f"{name}: its weights are quantised ({said}), which cannot be run here"
    method = str((stated or {}).get("quant_method", ""))
    known = {*AUTO_QUANTIZATION_CONFIG_MAPPING, *(each.value for each in QuantizationMethod)}
    if wanted is None and method and method not in known:
        raise ModelError(f"{what}: transformers knows no quant_method {method!r}: {UNKNOWN_REMEDY}")
    # The weights' names where several files have them; of one file only the file says.
    check_packed(arguments, folder, read_object(folder / INDEX).get("weight_map"))
    try:
        config = wanted or AutoQuantizationConfig.from_dict(dict(stated or {}))
        unpacked = bool(getattr(config, "dequantize", False))
        quantizer = AutoHfQuantizer.from_config(config, pre_quantized=wanted is None)
        quantizer.validate_environment(device_map={"": device}, weights_only=True)
    except Exception as problem:  # the file was made by a stranger
        raise ModelError(f"{what}: {_said(problem)}: {REMEDY}") from problem
    method = str(getattr(config.quant_method, "value", config.quant_method))
    lacks_gpu = torch.device(device).type == "cpu" or getattr(config, "dequantize", False)
    if method in ROUNDS_WHAT_IT_COMPUTES and not unpacked and lacks_gpu:
        raise ModelError(
            f"{what}: {method} needs a GPU that multiplies in 8 bits, and unpacked weights would "
            "give other numbers: evaluate it on such a GPU, or the model as it was before it was "
            "quantised"
        )


def check_packed(arguments: Arguments, folder: Path, names: object) -> None:
    """Raises ModelError where config.json says that bitsandbytes has packed weights whose `names`
    are those of plain ones: they would be loaded, and fail in the first layer."""
    stated = stated_in(read_object(folder / "config.json")) or {}
    if stated.get("quant_method") != "bitsandbytes" or not isinstance(names, Collection):
        return
    for bits, mark in PACKED.items():
        if stated.get(bits) is True and names and not any(mark in str(name) for name in names):
            said = quantisation_of({"quantization_config": stated})
            raise ModelError(
                f"{arguments.pretrained}: its config.json says that its weights are quantised "
                f"({said}), and they are plain: take quantization_config out of config.json, and "
                f"state {bits}=True in --model_args to have them packed when they are loaded"
            )


def check_file_packed(arguments: Arguments, folder: Path) -> None:
    """The same of a single file of weights, once it is here."""
    file = folder / WEIGHTS
    if file.is_file():
        with safe_open(file, "pt") as weights:
            check_packed(arguments, folder, weights.keys())


def _said(problem: Exception) -> str:
    """What a library says of what it lacks, in one sentence, without its list of all else."""
    said = reason_of(problem).partition(": ")[2].partition(" - supported types")[0]
    return said.rstrip(".: ") or type(problem).__name__


def on_the_fly(arguments: Arguments) -> BitsAndBytesConfig | None:
    """What `load_in_8bit` and `load_in_4bit` ask for; None where neither is stated."""
    if not (arguments.load_in_8bit or arguments.load_in_4bit):
        return None
    stated: dict[str, Any] = {
        name: value
        for name in ("bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_compute_dtype")
        if (value := getattr(arguments, name)) is not None
    }
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_8bit=arguments.load_in_8bit, load_in_4bit=arguments.load_in_4bit, **stated
    )


def loading_options(arguments: Arguments, config: Any, device: str) -> dict[str, Any]:
    """What `from_pretrained` is told of a model whose weights are quantised; empty of others.

    Packed weights are put on the device as they are loaded: many cannot be moved afterwards.
    """
    wanted = on_the_fly(arguments)
    texts = config.get_text_config()
    if wanted is None and not any(
        getattr(place, "quantization_config", None) for place in (config, texts)
    ):
        return {}
    # At every layer of every pass it says that LLM.int8() computes in float16.
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    options: dict[str, Any] = {"device_map": {"": device}}
    if wanted is not None:
        options["quantization_config"] = wanted
    return options


def parameters_of(model: Any) -> int:
    """How many numbers the weights are, however many of them are packed into one."""
    return int(model.num_parameters())


def stated_by(model: Any) -> Mapping[str, Any]:
    """What an initialised model says of its quantisation, as its config.json would."""
    own: Any = getattr(model.config, "quantization_config", None)
    return {"quantization_config": own.to_dict() if hasattr(own, "to_dict") else own}
