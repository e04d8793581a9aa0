"""Megatron-DeepSpeed's checkpoints of BLOOM and its kin, as transformers' Bloom.

Layer 1 is the table of tokens with its norm, layers 3 to N + 2 are the blocks and N + 4 is the last
norm; the head is the table again. Queries, keys and values lie head by head, as in GPT-NeoX. The
arguments of the training are objects of its code and not read, so that the configuration is given.

Copies of norms and of biases behind divided matrices drifted apart in these trainings; BigScience
published their means.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalcore.errors import ModelError
from evalcore.model.checkpoints.layout import Layer, Layout, Weight, by_columns, by_rows, copied
from evalcore.model.hf.repository import read_object


def bloom_layout(file: Path) -> Layout:
    """By a config.json of transformers. Raises ModelError where it is of another model."""
    config = _config(file)
    n = config.n_layer
    top = {
        "word_embeddings.weight": by_rows("transformer.word_embeddings.weight"),
        "word_embeddings.norm.weight": copied("transformer.word_embeddings_layernorm.weight"),
        "word_embeddings.norm.bias": copied("transformer.word_embeddings_layernorm.bias"),
    }
    layers: dict[int, Layer] = {1: top}
    for block in range(n):
        layers[block + 3] = _block(f"transformer.h.{block}.")
    layers[n + 4] = {part: copied(f"transformer.ln_f.{part}") for part in ("weight", "bias")}
    return Layout(config, layers, ("transformer.word_embeddings.weight",))


def _block(name: str) -> Layer:
    block: dict[str, Weight] = {
        "self_attention.dense.weight": by_columns(name + "self_attention.dense.weight"),
        "self_attention.dense.bias": copied(name + "self_attention.dense.bias"),
        "mlp.dense_4h_to_h.weight": by_columns(name + "mlp.dense_4h_to_h.weight"),
        "mlp.dense_4h_to_h.bias": copied(name + "mlp.dense_4h_to_h.bias"),
    }
    for part in ("weight", "bias"):
        for divided in ("self_attention.query_key_value", "mlp.dense_h_to_4h"):
            block[f"{divided}.{part}"] = by_rows(f"{name}{divided}.{part}")
        for norm in ("input_layernorm", "post_attention_layernorm"):
            block[f"{norm}.{part}"] = copied(f"{name}{norm}.{part}")
    return block


def _config(file: Path) -> Any:
    from transformers import BloomConfig

    stated = read_object(file)
    if stated.get("model_type") != "bloom":
        kind = stated.get("model_type", "no model_type")
        raise ModelError(
            f"--config_file: {file}: expected a config.json of transformers with model_type bloom, "
            f"got {kind}: a checkpoint of Megatron-DeepSpeed does not say what it is, and only "
            "BLOOM's kind (ALiBi, a norm behind the table) is converted"
        )
    stated = {name: value for name, value in stated.items() if name not in ("dtype", "torch_dtype")}
    return BloomConfig.from_dict(stated)
