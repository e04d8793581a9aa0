"""Checkpoints in the layouts of training programs, and what those programs compute with them.

Nothing here knows transformers' models or evalcore's conversion: the shards are drawn in the
programs' own shapes, and the forward passes go rank by rank as the programs do (after
`megatron/model/transformer.py` of GPT-NeoX and of Megatron-DeepSpeed, and what they say of shapes).
"""

from __future__ import annotations

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

    def with_(self, **changes: Any) -> Training:
        return replace(self, **changes)

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
    t, r, h, f = training, range(training.ranks), training.width, training.between
    layers: Shards = {0: [{"word_embeddings.weight": t.drawn(VOCABULARY // t.ranks, h)} for _ in r]}
    into, out = t.names
    for layer in range(2, t.layers + 2):
        biases = {"attention.dense.bias": t.drawn(h), f"mlp.{out}.bias": t.drawn(h)}
        norms = {
            f"{norm}.{part}": t.drawn(h, around=1.0 if part == "weight" else 0.0)
            for norm in ("input_layernorm", "post_attention_layernorm")
            for part in ("weight", "bias")
        }
        layers[layer] = [
            {
                **norms,
                "attention.query_key_value.weight": t.drawn(3 * h // t.ranks, h),
                "attention.query_key_value.bias": t.drawn(3 * h // t.ranks),
                "attention.dense.weight": t.drawn(h, h // t.ranks),
                f"mlp.{into}.weight": t.drawn(f // t.ranks, h),
                f"mlp.{into}.bias": t.drawn(f // t.ranks),
                f"mlp.{out}.weight": t.drawn(h, f // t.ranks),
                **({name: t.drawn(h) for name in biases} if t.parallel else biases),
                "attention.rotary_emb.inv_freq": frequencies(t).half(),
            }
            for _ in r
        ]
        if not t.attention_bias:
            for shard in layers[layer]:
                del shard["attention.query_key_value.bias"], shard["attention.dense.bias"]
    norm = {"norm.weight": t.drawn(h, around=1.0), "norm.bias": t.drawn(h)}
    layers[t.layers + 3] = [dict(norm) for _ in r]
    if not t.tied:
        layers[t.layers + 4] = [
            {"final_linear.weight": t.drawn(VOCABULARY // t.ranks, h)} for _ in r
        ]
    return layers


def neox_llama(training: Training, *, together: bool = False) -> Shards:
    """The same with LLaMA's layers; with the gate in the matrix of what it opens, or apart."""
    torch.manual_seed(training.seed)
    t, r, h, f = training, range(training.ranks), training.width, training.between
    layers: Shards = {0: [{"word_embeddings.weight": t.drawn(VOCABULARY // t.ranks, h)} for _ in r]}
    for layer in range(2, t.layers + 2):
        norms = {
            f"{norm}.scale": t.drawn(h, around=1.0)
            for norm in ("input_layernorm", "post_attention_layernorm")
        }
        layers[layer] = []
        for _ in r:
            gate, opened = t.drawn(f // t.ranks, h), t.drawn(f // t.ranks, h)
            down = t.drawn(h, f // t.ranks)
            mlp = {"mlp.w1.weight": gate, "mlp.w3.weight": opened, "mlp.w2.weight": down}
            if together:
                mlp = {"mlp.linear1.weight": torch.cat([opened, gate]), "mlp.linear2.weight": down}
            layers[layer].append(
                {
                    **norms,
                    **mlp,
                    "attention.query_key_value.weight": t.drawn(3 * h // t.ranks, h),
                    "attention.dense.weight": t.drawn(h, h // t.ranks),
                }
            )
    layers[t.layers + 3] = [{"norm.scale": t.drawn(h, around=1.0)}] * t.ranks
    layers[t.layers + 4] = [{"final_linear.weight": t.drawn(VOCABULARY // t.ranks, h)} for _ in r]
    return layers


def bloom(training: Training) -> Shards:
    """Megatron-DeepSpeed's, with ALiBi and a norm behind the table."""
    torch.manual_seed(training.seed)
    t, r, h, f = training, range(training.ranks), training.width, training.between
    norm = {
        "word_embeddings.norm.weight": t.drawn(h, around=1.0),
        "word_embeddings.norm.bias": t.drawn(h),
    }
    layers: Shards = {
        1: [{"word_embeddings.weight": t.drawn(VOCABULARY // t.ranks, h), **norm} for _ in r]
    }
    for layer in range(3, t.layers + 3):
        copied = {
            f"{norm}.{part}": t.drawn(h, around=1.0 if part == "weight" else 0.0)
            for norm in ("input_layernorm", "post_attention_layernorm")
            for part in ("weight", "bias")
        }
        copied |= {"self_attention.dense.bias": t.drawn(h), "mlp.dense_4h_to_h.bias": t.drawn(h)}
        layers[layer] = [
            {
                **copied,
                "self_attention.query_key_value.weight": t.drawn(3 * h // t.ranks, h),
                "self_attention.query_key_value.bias": t.drawn(3 * h // t.ranks),
                "self_attention.dense.weight": t.drawn(h, h // t.ranks),
                "mlp.dense_h_to_4h.weight": t.drawn(f // t.ranks, h),
                "mlp.dense_h_to_4h.bias": t.drawn(f // t.ranks),
                "mlp.dense_4h_to_h.weight": t.drawn(h, f // t.ranks),
            }
            for _ in r
        ]
    layers[t.layers + 4] = [{"weight": t.drawn(h, around=1.0), "bias": t.drawn(h)}] * t.ranks
    return layers


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


def frequencies(training: Training) -> torch.Tensor:
    width = int(training.head * training.rotary)
    return 1.0 / training.base ** (torch.arange(0, width, 2).float() / width)


def neox_logits(training: Training, shards: Shards, tokens: torch.Tensor) -> torch.Tensor:
    """What GPT-NeoX computes, every rank its part; (tokens, rows of the table)."""
    t = training
    into, out = t.names
    x = _embedded(shards[0], tokens)
    for layer in range(2, t.layers + 2):
        ranks = shards[layer]

        def normed(x: torch.Tensor, norm: str, of: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.layer_norm(x, (t.width,), of[f"{norm}.weight"], of[f"{norm}.bias"], t.epsilon)

        def attended(x: torch.Tensor, of: dict[str, torch.Tensor]) -> torch.Tensor:
            mixed = F.linear(
                x, of["attention.query_key_value.weight"], of.get("attention.query_key_value.bias")
            )
            return F.linear(_attention(t, mixed), of["attention.dense.weight"])

        def pressed(x: torch.Tensor, of: dict[str, torch.Tensor]) -> torch.Tensor:
            between = F.linear(x, of[f"mlp.{into}.weight"], of[f"mlp.{into}.bias"])
            between = _tanh_gelu(between) if t.tanh else F.gelu(between)
            return F.linear(between, of[f"mlp.{out}.weight"])

        no_bias = torch.zeros(t.width)
        if t.parallel:  # every rank adds its own biases, then all are added up
            x = x + sum(
                attended(normed(x, "input_layernorm", of), of)
                + of.get("attention.dense.bias", no_bias)
                + pressed(normed(x, "post_attention_layernorm", of), of)
                + of[f"mlp.{out}.bias"]
                for of in ranks
            )
        else:  # added up, then each rank adds the same bias
            x = x + sum(attended(normed(x, "input_layernorm", of), of) for of in ranks)
            x = x + ranks[0].get("attention.dense.bias", no_bias)
            x = x + sum(pressed(normed(x, "post_attention_layernorm", of), of) for of in ranks)
            x = x + ranks[0][f"mlp.{out}.bias"]
    last = shards[t.layers + 3][0]
    x = F.layer_norm(x, (t.width,), last["norm.weight"], last["norm.bias"], t.epsilon)
    return _head(shards[0] if t.tied else shards[t.layers + 4], x)


def llama_logits(training: Training, shards: Shards, tokens: torch.Tensor) -> torch.Tensor:
    t = training
    x = _embedded(shards[0], tokens)

    def normed(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return scale * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + t.epsilon)

    def pressed(x: torch.Tensor, of: dict[str, torch.Tensor]) -> torch.Tensor:
        if "mlp.linear1.weight" in of:
            opened, gate = F.linear(x, of["mlp.linear1.weight"]).chunk(2, dim=-1)
            return F.linear(F.silu(gate) * opened, of["mlp.linear2.weight"])
        gate, opened = F.linear(x, of["mlp.w1.weight"]), F.linear(x, of["mlp.w3.weight"])
        return F.linear(F.silu(gate) * opened, of["mlp.w2.weight"])

    for layer in range(2, t.layers + 2):
        ranks = shards[layer]
        y = normed(x, ranks[0]["input_layernorm.scale"])
        x = x + sum(
            F.linear(
                _attention(t, F.linear(y, of["attention.query_key_value.weight"])),
                of["attention.dense.weight"],
            )
            for of in ranks
        )
        y = normed(x, ranks[0]["post_attention_layernorm.scale"])
        x = x + sum(pressed(y, of) for of in ranks)
    x = normed(x, shards[t.layers + 3][0]["norm.scale"])
    return _head(shards[t.layers + 4], x)


def bloom_logits(training: Training, shards: Shards, tokens: torch.Tensor) -> torch.Tensor:
    """What Megatron-DeepSpeed computes of BLOOM; a power of two of heads."""
    t = training
    top = shards[1][0]
    x = _embedded(shards[1], tokens)
    x = F.layer_norm(
        x,
        (t.width,),
        top["word_embeddings.norm.weight"],
        top["word_embeddings.norm.bias"],
        t.epsilon,
    )
    slopes = torch.tensor([2.0 ** (-8 * (head + 1) / t.heads) for head in range(t.heads)])
    for layer in range(3, t.layers + 3):
        ranks = shards[layer]

        def normed(x: torch.Tensor, norm: str, of: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.layer_norm(x, (t.width,), of[f"{norm}.weight"], of[f"{norm}.bias"], t.epsilon)

        y, of_rank = normed(x, "input_layernorm", ranks[0]), t.heads // t.ranks
        for rank, of in enumerate(ranks):
            mixed = F.linear(
                y,
                of["self_attention.query_key_value.weight"],
                of["self_attention.query_key_value.bias"],
            )
            own = slopes[rank * of_rank : (rank + 1) * of_rank]
            x = x + F.linear(_attention(t, mixed, slopes=own), of["self_attention.dense.weight"])
        x = x + ranks[0]["self_attention.dense.bias"]
        y = normed(x, "post_attention_layernorm", ranks[0])
        for of in ranks:
            between = F.linear(y, of["mlp.dense_h_to_4h.weight"], of["mlp.dense_h_to_4h.bias"])
            x = x + F.linear(_tanh_gelu(between), of["mlp.dense_4h_to_h.weight"])
        x = x + ranks[0]["mlp.dense_4h_to_h.bias"]
    last = shards[t.layers + 4][0]
    x = F.layer_norm(x, (t.width,), last["weight"], last["bias"], t.epsilon)
    return _head(shards[1], x)


def _embedded(ranks: list[dict[str, torch.Tensor]], tokens: torch.Tensor) -> torch.Tensor:
    """Each rank looks up the tokens that it has; the others' rows are zero."""
    share = VOCABULARY // len(ranks)
    rows = []
    for rank, shard in enumerate(ranks):
        own = tokens - rank * share
        there = (own >= 0) & (own < share)
        found = F.embedding(own.clamp(0, share - 1), shard["word_embeddings.weight"])
        rows.append(found * there[:, None])
    return torch.stack(rows).sum(0)


def _head(ranks: list[dict[str, torch.Tensor]], x: torch.Tensor) -> torch.Tensor:
    parts = [
        F.linear(
            x,
            of["final_linear.weight" if "final_linear.weight" in of else "word_embeddings.weight"],
        )
        for of in ranks
    ]
    return torch.cat(parts, dim=-1)


def _attention(
    training: Training, mixed: torch.Tensor, *, slopes: torch.Tensor | None = None
) -> torch.Tensor:
    """One rank's heads. `mixed`: (tokens, heads · 3 · width), head by head query, key, value."""
    t, n = training, len(mixed)
    outputs = []
    for head in range(mixed.shape[-1] // (3 * t.head)):
        start = head * 3 * t.head
        q, k, v = (
            mixed[:, start + which * t.head : start + (which + 1) * t.head] for which in range(3)
        )
        if slopes is None:
            q, k = _rotated(t, q), _rotated(t, k)
        scores = q @ k.T / math.sqrt(t.head)
        if slopes is not None:
            scores = scores + slopes[head] * torch.arange(n)[None, :]
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        outputs.append(scores.softmax(-1) @ v)
    return torch.cat(outputs, dim=-1)


def _rotated(training: Training, x: torch.Tensor) -> torch.Tensor:
    """The first share of a head's width, its halves turned against each other."""
    half = len(frequencies(training))
    angles = torch.arange(len(x))[:, None] * frequencies(training)[None, :]
    a, b, rest = x[:, :half], x[:, half : 2 * half], x[:, 2 * half :]
    turned = (a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin())
    return torch.cat([*turned, rest], dim=-1)


def _tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
