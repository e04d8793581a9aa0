"""GPT-NeoX's checkpoints, as transformers' GPT-NeoX or Llama.

Layer 0 is the table of tokens, layers 2 to N + 1 are the blocks, N + 3 is the last norm and N + 4
the head; between them stand functions without weights. Queries, keys and values lie in one matrix,
head by head: the three of the first head, then the three of the second.

With `gpt_j_residual` every rank adds its own copy of the biases behind the divided matrices before
the ranks' outputs are added up, so that the model's bias is their sum; without it each rank adds
the same one afterwards. The norms' copies are not kept equal by older versions (in GPT-NeoX-20B
they are not): there the mean is taken, as GPT-NeoX's own tools do.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.checkpoints.joining import Parts, heads_apart, rows
from evalcore.model.checkpoints.layout import (
    Layer,
    Layout,
    Weight,
    by_columns,
    by_rows,
    copied,
    summed,
)
from evalcore.model.checkpoints.neox_settings import NeoxSettings
from evalcore.model.checkpoints.shards import Checkpoint, Shard

NORM_REMARK = (
    "GPT-NeoX divides by the root mean square plus {epsilon:g}, transformers by the root of the "
    "mean square plus it: where activations are small the two differ, and the model is nearly, not "
    "exactly, the one that was trained"
)


def neox_layout(checkpoint: Checkpoint, settings: NeoxSettings) -> Layout:
    """Raises ModelError where files and settings disagree."""
    if checkpoint.ranks != settings.ranks:
        raise ModelError(
            f"{checkpoint.folder}: its layers are divided among {checkpoint.ranks}, and the "
            f"settings say model_parallel_size {settings.ranks}: copy all shards, or give the "
            "settings of this step"
        )
    n = settings.layers
    if n + 1 not in checkpoint.layers:
        raise ModelError(
            f"{checkpoint.folder}: layer {n + 1} is missing, the last of {n} blocks that the "
            "settings ask for: copy all files of the step, or give its own settings"
        )
    first = checkpoint.shards(2)[0]
    base = "model" if settings.llama else "gpt_neox"
    embedding = "embed_tokens" if settings.llama else "embed_in"
    layers: dict[int, Layer] = {
        0: {"word_embeddings.weight": by_rows(f"{base}.{embedding}.weight")}
    }
    for block in range(n):
        name = f"{base}.layers.{block}."
        layers[block + 2] = (
            _llama_block(name, settings, first)
            if settings.llama
            else _neox_block(name, settings, first)
        )
    if settings.llama:
        layers[n + 3] = {"norm.scale": copied("model.norm.weight")}
    else:
        layers[n + 3] = {
            f"norm.{part}": copied(f"gpt_neox.final_layer_norm.{part}")
            for part in ("weight", "bias")
        }
    tables = [f"{base}.{embedding}.weight"]
    if not settings.tied:
        layers[n + 4] = {"final_linear.weight": by_rows("lm_head.weight")}
        tables.append("lm_head.weight")
    return Layout(
        _config(settings, checkpoint, first),
        layers,
        tuple(tables),
        lambda place, name, tensor: _is_rotary(settings, place, name, tensor),
        (NORM_REMARK.format(epsilon=settings.norm_epsilon),) if settings.llama else (),
    )


def _neox_block(name: str, settings: NeoxSettings, first: Shard) -> Layer:
    into, out = ("linear1", "linear2") if "mlp.linear1.weight" in first else (
        "dense_h_to_4h", "dense_4h_to_h",
    )  # fmt: skip
    bias = summed if settings.parallel_residual else copied
    block: dict[str, Weight] = {
        f"mlp.{into}.weight": by_rows(name + "mlp.dense_h_to_4h.weight"),
        f"mlp.{into}.bias": by_rows(name + "mlp.dense_h_to_4h.bias"),
        f"mlp.{out}.weight": by_columns(name + "mlp.dense_4h_to_h.weight"),
        f"mlp.{out}.bias": bias(name + "mlp.dense_4h_to_h.bias"),
        "attention.query_key_value.weight": by_rows(name + "attention.query_key_value.weight"),
        "attention.dense.weight": by_columns(name + "attention.dense.weight"),
    }
    if settings.attention_bias:
        block["attention.query_key_value.bias"] = by_rows(name + "attention.query_key_value.bias")
        block["attention.dense.bias"] = bias(name + "attention.dense.bias")
    for norm in ("input_layernorm", "post_attention_layernorm"):
        for part in ("weight", "bias"):
            block[f"{norm}.{part}"] = copied(f"{name}{norm}.{part}")
    return block


def _llama_block(name: str, settings: NeoxSettings, first: Shard) -> Layer:
    """Older versions keep the gate (`w1`) and what it opens (`w3`) apart; newer ones have the two
    in one matrix, on each rank first what is opened, then the gate."""
    qkv = tuple(f"{name}self_attn.{which}_proj" for which in "qkv")

    def apart(weight: Tensor) -> tuple[Tensor, ...]:
        return heads_apart(weight, settings.heads)

    block: dict[str, Weight] = {
        "attention.query_key_value.weight": Weight(
            tuple(f"{one}.weight" for one in qkv), rows, apart
        ),
        "attention.dense.weight": by_columns(f"{name}self_attn.o_proj.weight"),
    }
    if settings.attention_bias:
        block["attention.query_key_value.bias"] = Weight(
            tuple(f"{one}.bias" for one in qkv), rows, apart
        )
        block["attention.dense.bias"] = copied(f"{name}self_attn.o_proj.bias")
    if "mlp.linear1.weight" in first:
        block["mlp.linear1.weight"] = Weight(
            (f"{name}mlp.up_proj.weight", f"{name}mlp.gate_proj.weight"),
            _halves_together,
            lambda weight: weight.tensor_split(2),
        )
        block["mlp.linear2.weight"] = by_columns(f"{name}mlp.down_proj.weight")
    else:
        block["mlp.w1.weight"] = by_rows(f"{name}mlp.gate_proj.weight")
        block["mlp.w3.weight"] = by_rows(f"{name}mlp.up_proj.weight")
        block["mlp.w2.weight"] = by_columns(f"{name}mlp.down_proj.weight")
    for norm in ("input_layernorm", "post_attention_layernorm"):
        block[f"{norm}.scale"] = copied(f"{name}{norm}.weight")
    return block


def _halves_together(parts: Parts) -> Tensor:
    """The first halves of all ranks, then their second halves."""
    halves = [part.tensor_split(2) for part in parts]
    return torch.cat([half[which] for which in (0, 1) for half in halves])


def _config(settings: NeoxSettings, checkpoint: Checkpoint, first: Shard) -> Any:
    from transformers import GPTNeoXConfig, LlamaConfig

    shared: dict[str, Any] = {
        "vocab_size": sum(len(shard["word_embeddings.weight"]) for shard in checkpoint.shards(0)),
        "hidden_size": settings.width,
        "num_hidden_layers": settings.layers,
        "num_attention_heads": settings.heads,
        "max_position_embeddings": settings.positions,
        "tie_word_embeddings": settings.tied,
        "attention_bias": settings.attention_bias,
        "hidden_act": settings.activation,
    }
    outputs = next((name for name in _DOWN if name in first), None)
    if outputs is None:
        raise ModelError(
            f"{checkpoint.folder}: layer 2 has none of {', '.join(_DOWN)}: models with other "
            "layers are not converted"
        )
    shared["intermediate_size"] = first[outputs].shape[-1] * checkpoint.ranks
    if settings.llama:
        return LlamaConfig(
            **shared,
            num_key_value_heads=settings.heads,
            rms_norm_eps=settings.norm_epsilon,
            rope_parameters={
                "rope_type": "default",
                "rope_theta": settings.rotary_base,
                "partial_rotary_factor": settings.rotary_share,
            },
        )
    return GPTNeoXConfig(
        **shared,
        layer_norm_eps=settings.norm_epsilon,
        use_parallel_residual=settings.parallel_residual,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": settings.rotary_base,
            "partial_rotary_factor": settings.rotary_share,
        },
    )


_DOWN = ("mlp.dense_4h_to_h.weight", "mlp.linear2.weight", "mlp.w2.weight")
"""The matrix whose columns are the neurons between, by version."""


def _is_rotary(settings: NeoxSettings, place: str, name: str, tensor: Tensor) -> bool:
    """Older versions save the frequencies of the rotation, often in half precision."""
    if name != "attention.rotary_emb.inv_freq":
        return False
    width = int(settings.width // settings.heads * settings.rotary_share)
    expected = settings.rotary_base ** -(torch.arange(0, width, 2).double() / width)
    if len(tensor) != len(expected) or not torch.allclose(
        tensor.double(), expected, rtol=2**-6, atol=1e-6
    ):
        raise ModelError(
            f"{place}: these are not the frequencies of rotary_pct {settings.rotary_share:g} and "
            f"rotary_emb_base {settings.rotary_base:g}: the settings are of another model"
        )
    return True
