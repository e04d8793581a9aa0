"""Checkpoints in the layouts of training programs, and what those programs compute with them.

Nothing here knows transformers' models or evalcore's conversion: the shards are drawn in the
programs' own shapes, and the forward passes go rank by rank as the programs do (after
`megatron/model/transformer.py` of GPT-NeoX and of Megatron-DeepSpeed, and what they say of shapes).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import yaml

VOCABULARY = 448
"""Rows of the tables: more than the tokens of tests' tokenizers, and divisible by four."""


@dataclass(frozen=True)
class Training:
    """A model in training, and how it is divided."""

    ranks: int = 1
    layers: int = 3
    width: int = 32
    heads: int = 4
    between: int = 128
    parallel: bool = True
    tied: bool = False
    tanh: bool = False
    rotary: float = 0.5
    base: float = 10000.0
    epsilon: float = 1e-5
    attention_bias: bool = True
    names: tuple[str, str] = ("dense_h_to_4h", "dense_4h_to_h")
    seed: int = 0

    @property
    def head(self) -> int:
        return self.width // self.heads

    def drawn(self, *shape: int, around: float = 0.0, spread: float = 0.25) -> torch.Tensor:
        return around + spread * torch.randn(*shape)


Shards = dict[int, list[dict[str, torch.Tensor]]]
"""By the number of the layer, then by rank."""


def neox(training: Training) -> Shards:
    """GPT-NeoX's; biases behind divided matrices differ by rank where each rank adds its own."""
    torch.manual_seed(training.seed)
    t = training
    layers: Shards = {0: _table(t, "word_embeddings.weight")}
    added = ("attention.dense.bias", f"mlp.{t.names[1]}.bias")
    for layer in range(2, t.layers + 2):
        copied = _norms(t, "weight", "bias")
        if not t.parallel:
            copied |= {name: t.drawn(t.width) for name in added}
        layers[layer] = []
        for _ in range(t.ranks):
            shard = {**copied, **_matrices(t, "attention")}
            shard["attention.rotary_emb.inv_freq"] = frequencies(t).half()
            if t.parallel:
                shard |= {name: t.drawn(t.width) for name in added}
            if not t.attention_bias:
                del shard["attention.query_key_value.bias"], shard["attention.dense.bias"]
            layers[layer].append(shard)
    norm = {"norm.weight": t.drawn(t.width, around=1.0), "norm.bias": t.drawn(t.width)}
    layers[t.layers + 3] = [dict(norm) for _ in range(t.ranks)]
    if not t.tied:
        layers[t.layers + 4] = _table(t, "final_linear.weight")
    return layers


def neox_llama(training: Training, *, together: bool = False) -> Shards:
    """The same with LLaMA's layers; with the gate in the matrix of what it opens, or apart."""
    torch.manual_seed(training.seed)
    t, h, f = training, training.width, training.between
    layers: Shards = {0: _table(t, "word_embeddings.weight")}
    for layer in range(2, t.layers + 2):
        norms = _norms(t, "scale")
        layers[layer] = []
        for _ in range(t.ranks):
            gate, opened = t.drawn(f // t.ranks, h), t.drawn(f // t.ranks, h)
            down = t.drawn(h, f // t.ranks)
            mlp = {"mlp.w1.weight": gate, "mlp.w3.weight": opened, "mlp.w2.weight": down}
            if together:
                mlp = {"mlp.linear1.weight": torch.cat([opened, gate]), "mlp.linear2.weight": down}
            attention = {
                "attention.query_key_value.weight": t.drawn(3 * h // t.ranks, h),
                "attention.dense.weight": t.drawn(h, h // t.ranks),
            }
            layers[layer].append({**norms, **mlp, **attention})
    layers[t.layers + 3] = [{"norm.scale": t.drawn(h, around=1.0)}] * t.ranks
    layers[t.layers + 4] = _table(t, "final_linear.weight")
    return layers


def bloom(training: Training) -> Shards:
    """Megatron-DeepSpeed's, with ALiBi and a norm behind the table."""
    torch.manual_seed(training.seed)
    t, h = training, training.width
    norm = {"word_embeddings.norm.weight": t.drawn(h, around=1.0)}
    norm["word_embeddings.norm.bias"] = t.drawn(h)
    layers: Shards = {1: [{**table, **norm} for table in _table(t, "word_embeddings.weight")]}
    for layer in range(3, t.layers + 3):
        copied = _norms(t, "weight", "bias")
        copied |= {"self_attention.dense.bias": t.drawn(h), "mlp.dense_4h_to_h.bias": t.drawn(h)}
        layers[layer] = [{**copied, **_matrices(t, "self_attention")} for _ in range(t.ranks)]
    layers[t.layers + 4] = [{"weight": t.drawn(h, around=1.0), "bias": t.drawn(h)}] * t.ranks
    return layers


def _table(t: Training, name: str) -> list[dict[str, torch.Tensor]]:
    """Each rank has its share of the tokens."""
    return [{name: t.drawn(VOCABULARY // t.ranks, t.width)} for _ in range(t.ranks)]


def _norms(t: Training, *parts: str) -> dict[str, torch.Tensor]:
    """Of a layer; every rank has a copy."""
    return {
        f"{norm}.{part}": t.drawn(t.width, around=0.0 if part == "bias" else 1.0)
        for norm in ("input_layernorm", "post_attention_layernorm")
        for part in parts
    }


def _matrices(t: Training, attention: str) -> dict[str, torch.Tensor]:
    """One rank's share of a layer."""
    into, out = t.names
    return {
        f"{attention}.query_key_value.weight": t.drawn(3 * t.width // t.ranks, t.width),
        f"{attention}.query_key_value.bias": t.drawn(3 * t.width // t.ranks),
        f"{attention}.dense.weight": t.drawn(t.width, t.width // t.ranks),
        f"mlp.{into}.weight": t.drawn(t.between // t.ranks, t.width),
        f"mlp.{into}.bias": t.drawn(t.between // t.ranks),
        f"mlp.{out}.weight": t.drawn(t.width, t.between // t.ranks),
    }


def write(shards: Shards, folder: Path) -> Path:
    """One file for each layer and rank, as a training in a pipeline leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    for layer, by_rank in shards.items():
        for rank, shard in enumerate(by_rank):
            torch.save(shard, folder / f"layer_{layer:02d}-model_{rank:02d}-model_states.pt")
    return folder


def write_by_rank(shards: Shards, folder: Path) -> Path:
    """One file for each rank, with what else DeepSpeed keeps there."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(len(shards[0])):
        module = {
            f"sequential.{layer}.{name}": weight
            for layer, by_rank in shards.items()
            for name, weight in by_rank[rank].items()
        }
        held = {
            "module": module,
            "args": {"model_parallel_size": len(shards[0])},
            "np_rng_state": np.random.RandomState(0).get_state(),
            "torch_rng_state": torch.get_rng_state(),
            "random_rng_state": (3, (1, 2), None),
            "optimizer": None,
        }
        torch.save(held, folder / f"mp_rank_{rank:02d}_model_states.pt")
    return folder


def settings(training: Training, folder: Path, *, llama: bool = False, **changes: Any) -> Path:
    """GPT-NeoX's files of settings, some names with hyphens, in the folder of the step."""
    t = training
    model = {
        "num-layers": t.layers,
        "hidden_size": t.width,
        "num-attention-heads": t.heads,
        "max_position_embeddings": 64,
        "pos-emb": "rotary",
        "rotary_pct": t.rotary,
        "rotary-emb-base": t.base,
        "no-weight-tying": not t.tied,
        "gpt_j_residual": t.parallel and not llama,
        "output_layer_parallelism": "column",
        "bias-gelu-fusion": t.tanh,
        "use_bias_in_attn_linear": t.attention_bias and not llama,
        "attention_config": [[["global", "flash"], 1]],
    }
    if llama:
        model |= {"norm": "rmsnorm", "rms_norm_epsilon": t.epsilon, "mlp_type": "llama"}
        model |= {"activation": "silu"}
    else:
        model |= {"norm": "layernorm", "layernorm-epsilon": t.epsilon}
    (folder / "configs").mkdir(exist_ok=True)
    place = folder / "configs" / "model.yml"
    place.write_text(yaml.safe_dump({**model, **changes}))
    parallel = {"model-parallel-size": t.ranks, "pipe-parallel-size": 1, "train-iters": 3}
    (folder / "configs" / "setup.yml").write_text(yaml.safe_dump(parallel))
    return place


def bloom_config(folder: Path, **changes: Any) -> Path:
    """That transformers wants beside Megatron-DeepSpeed's files, which have no settings."""
    stated = {"model_type": "bloom", "hidden_size": 32, "n_layer": 3, "n_head": 4}
    more = {"vocab_size": VOCABULARY, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps({**stated, **more, **changes}))
    return folder / "config.json"


def frequencies(training: Training) -> torch.Tensor:
    width = int(training.head * training.rotary)
    return 1.0 / training.base ** (torch.arange(0, width, 2).float() / width)


def neox_logits(training: Training, shards: Shards, tokens: torch.Tensor) -> torch.Tensor:
    """What GPT-NeoX computes, every rank its part; (tokens, rows of the table)."""
    t = training
    layers = [shards[layer] for layer in range(2, t.layers + 2)]
    x = _layers(t, layers, _embedded(shards[0], tokens), "attention")
    x = _normed(t, x, shards[t.layers + 3][0], "norm.")
    return _head(shards[0] if t.tied else shards[t.layers + 4], x)


def bloom_logits(training: Training, shards: Shards, tokens: torch.Tensor) -> torch.Tensor:
    """What Megatron-DeepSpeed computes of BLOOM; a power of two of heads."""
    t = replace(training, parallel=False, tanh=True)
    slopes = torch.tensor([2.0 ** (-8 * (head + 1) / t.heads) for head in range(t.heads)])
    by_rank = slopes.chunk(t.ranks)
    layers = [
        [{**of, "slopes": own} for of, own in zip(shards[layer], by_rank, strict=True)]
        for layer in range(3, t.layers + 3)
    ]
    x = _normed(t, _embedded(shards[1], tokens), shards[1][0], "word_embeddings.norm.")
    x = _layers(t, layers, x, "self_attention")
    return _head(shards[1], _normed(t, x, shards[t.layers + 4][0], ""))


def llama_logits(training: Training, shards: Shards, tokens: torch.Tensor) -> torch.Tensor:
    t = training
    x = _embedded(shards[0], tokens)

    def normed(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return scale * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + t.epsilon)

    def pressed(x: torch.Tensor, of: dict[str, torch.Tensor]) -> torch.Tensor:
        together = "mlp.linear1.weight" in of
        if together:
            opened, gate = F.linear(x, of["mlp.linear1.weight"]).chunk(2, dim=-1)
        else:
            gate, opened = F.linear(x, of["mlp.w1.weight"]), F.linear(x, of["mlp.w3.weight"])
        down = of["mlp.linear2.weight" if together else "mlp.w2.weight"]
        return F.linear(F.silu(gate) * opened, down)

    for layer in range(2, t.layers + 2):
        ranks = shards[layer]
        y = normed(x, ranks[0]["input_layernorm.scale"])
        x = x + sum(_attended(t, y, of, "attention") for of in ranks)
        y = normed(x, ranks[0]["post_attention_layernorm.scale"])
        x = x + sum(pressed(y, of) for of in ranks)
    x = normed(x, shards[t.layers + 3][0]["norm.scale"])
    return _head(shards[t.layers + 4], x)


def _layers(
    t: Training, layers: list[list[dict[str, torch.Tensor]]], x: torch.Tensor, attention: str
) -> torch.Tensor:
    """By all ranks together."""
    added, pressed_added = f"{attention}.dense.bias", f"mlp.{t.names[1]}.bias"
    for ranks in layers:
        # Each rank adds its own biases where both parts are added up at once, else all add one.
        whose = ranks if t.parallel else ranks[:1]
        read = x + sum(
            _attended(t, _normed(t, x, of, "input_layernorm."), of, attention) for of in ranks
        )
        read = read + sum(of[added] for of in whose if added in of)
        fed = x if t.parallel else read
        x = read + sum(
            _pressed(t, _normed(t, fed, of, "post_attention_layernorm."), of) for of in ranks
        )
        x = x + sum(of[pressed_added] for of in whose)
    return x


def _pressed(t: Training, x: torch.Tensor, of: dict[str, torch.Tensor]) -> torch.Tensor:
    into, out = t.names
    between = F.linear(x, of[f"mlp.{into}.weight"], of[f"mlp.{into}.bias"])
    opened = F.gelu(between, approximate="tanh" if t.tanh else "none")
    return F.linear(opened, of[f"mlp.{out}.weight"])


def _normed(t: Training, x: torch.Tensor, of: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    return F.layer_norm(x, (t.width,), of[f"{name}weight"], of[f"{name}bias"], t.epsilon)


def _attended(t: Training, x: torch.Tensor, of: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    mixed = F.linear(
        x, of[f"{name}.query_key_value.weight"], of.get(f"{name}.query_key_value.bias")
    )
    return F.linear(_attention(t, mixed, of.get("slopes")), of[f"{name}.dense.weight"])


def _embedded(ranks: list[dict[str, torch.Tensor]], tokens: torch.Tensor) -> torch.Tensor:
    """Each rank has the rows of its share of the tokens."""
    table = torch.cat([shard["word_embeddings.weight"] for shard in ranks])
    return table[tokens]


def _head(ranks: list[dict[str, torch.Tensor]], x: torch.Tensor) -> torch.Tensor:
    name = "final_linear" if "final_linear.weight" in ranks[0] else "word_embeddings"
    return torch.cat([F.linear(x, of[f"{name}.weight"]) for of in ranks], dim=-1)


def _attention(t: Training, mixed: torch.Tensor, slopes: torch.Tensor | None) -> torch.Tensor:
    """One rank's heads. `mixed`: (tokens, heads · 3 · width), head by head query, key, value."""
    n = len(mixed)
    q, k, v = mixed.view(n, -1, 3, t.head).permute(2, 1, 0, 3)
    hidden = torch.full((n, n), -torch.inf).triu(1)
    if slopes is None:
        q, k = _rotated(t, q), _rotated(t, k)
    else:
        hidden = hidden + slopes[:, None, None] * torch.arange(n)
    heads = (q @ k.mT / math.sqrt(t.head) + hidden).softmax(-1) @ v
    return heads.transpose(0, 1).reshape(n, -1)


def _rotated(t: Training, x: torch.Tensor) -> torch.Tensor:
    """The first share of a head's width, its halves turned against each other."""
    half = len(frequencies(t))
    angles = torch.arange(x.shape[-2])[:, None] * frequencies(t)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = (a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin())
    return torch.cat([*turned, rest], dim=-1)
