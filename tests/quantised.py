"""Tiny models whose weights are really quantised, saved as their libraries save them; and GGUF
files, made by llama.cpp's own package as its converters write them."""

from __future__ import annotations

import json
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
HAS_TORCHAO = find_spec("torchao") is not None
METHODS = (*BITSANDBYTES, *(TORCHAO if HAS_TORCHAO else ()))
"""Of the libraries that this process has: `test_quantised_forms.py` runs itself in one that has
torchao."""

BY_ITS_COMPANY = {
    "bitsandbytes 8-bit": "llm_int8_threshold 6",
    "torchao int8 dynamic by tensor": "by the largest number of all that is computed together",
}
"""Methods by which a row's answer depends on the rows beside it, and what is said of them."""
if not HAS_TORCHAO:
    del BY_ITS_COMPANY["torchao int8 dynamic by tensor"]

_SHOTS = "Question: Which of these is made of wood?\nA. a table\nB. a river\nAnswer: A\n"
CONTEXTS = [f"{_SHOTS}Question {n}: Which of these has {n} legs?\nAnswer:" for n in range(6)]
CONTINUATIONS = (" A", " B", " a table", " a river of wood")


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


# GGUF files.

GGUF_TYPES = ("F32", "F16", "Q8_0", "Q4_0")


def write_gguf(
    folder: Path, file: Path, kind: str = "F32", *, without: str = "", **stated: Any
) -> Path:
    """The model in `folder`, of the kind of tiny.py's llama or qwen2, in one file.

    Matrices in the type `kind`, vectors in float32. `stated`: further metadata, by their keys with
    dots, and tensors. `without`: weights that are left out, by a part of their names.
    """
    import gguf
    import numpy as np
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    config = model.config
    architecture = config.model_type
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, folder)
    for key, value in stated.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    wanted = gguf.GGMLQuantizationType[kind]
    for name, weight in model.state_dict().items():
        if without and without in name:
            continue
        values = weight.float().numpy()
        if architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            halves = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        of = wanted if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        module, _, part = name.rpartition(".")
        writer.add_tensor(
            f"{names.get_name(module)}.{part}",
            gguf.quantize(np.ascontiguousarray(values), of),
            raw_dtype=of,
        )
    for name, tensor in stated.items():
        if isinstance(tensor, np.ndarray):
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _add_tokenizer(writer: Any, folder: Path) -> None:
    """A byte-level one, as transformers reads it back."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in ("<s>", "</s>") else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
