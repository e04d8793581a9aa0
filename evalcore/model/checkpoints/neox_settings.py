"""What GPT-NeoX's configuration files say of a model, as far as it decides what is computed.

The names are those of GPT-NeoX (`megatron/neox_arguments/neox_args.py`), which takes a hyphen for
an underscore; so are the defaults. Whatever would make another model than the one that is written
is refused by name: a setting that is passed over would be a wrong number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from evalcore.errors import ModelError

ONLY: Mapping[str, tuple[object, ...]] = {
    "model_arch": ("gpt2",),
    "pos_emb": ("rotary",),
    "norm": ("layernorm", "rmsnorm"),
    "mlp_type": ("regular", "llama"),
    "gpt_j_tied": (False,),
    "small_emb": (False,),
    "use_mup": (False,),
    "use_qk_layernorm": (False,),
    "onnx_safe": (False,),
    "sliding_window_width": (None,),
    "num_unique_layers": (None,),
    "output_layer_parallelism": ("column",),
    "soft_prompt_tuning": (None,),
    "moe_num_experts": (1,),
    "train_impl": ("normal", "dpo", "kto", "reinforce"),
}
"""Settings by which another model would be computed, and what they may be."""

DEFAULTS: Mapping[str, Any] = {
    "pos_emb": "learned",
    "norm": "layernorm",
    "mlp_type": "regular",
    "activation": "gelu",
    "model_parallel_size": 1,
}
"""What holds where a setting is not there, and matters above; of the others the first."""

ATTENTION = ("global", "flash")
"""Kinds of attention that compute the same: every token sees all before it."""


@dataclass(frozen=True, kw_only=True)
class NeoxSettings:
    """The settings of one model."""

    layers: int
    width: int
    heads: int
    positions: int
    ranks: int
    """Among how many processes each layer is divided."""
    llama: bool
    """Whether its layers are LLaMA's: RMS norms, gated, without biases."""
    activation: str
    """As transformers names it."""
    parallel_residual: bool
    tied: bool
    attention_bias: bool
    norm_epsilon: float
    rotary_share: float
    """The share of each head's width that is rotated."""
    rotary_base: float


def read_settings(files: Iterable[Path]) -> NeoxSettings:
    """Of all files together, as GPT-NeoX takes them. Raises ModelError naming what is wrong."""
    stated: dict[str, Any] = {}
    for file in files:
        for name, value in _table(file).items():
            if name in stated and stated[name] != value:
                raise ModelError(
                    f"{file}: {name} is {value!r} here and {stated[name]!r} in another file: give "
                    "the files of this step alone, with --config_file"
                )
            stated[name] = value
    problems = [*_refused(stated), *_missing(stated)]
    if problems:
        raise ModelError(f"GPT-NeoX's settings: {'; '.join(problems)}")
    llama = stated.get("mlp_type") == "llama" or stated.get("norm") == "rmsnorm"
    return NeoxSettings(
        layers=int(stated["num_layers"]),
        width=int(stated["hidden_size"]),
        heads=int(stated["num_attention_heads"]),
        positions=int(stated["max_position_embeddings"]),
        ranks=int(_of(stated, "model_parallel_size")),
        llama=llama,
        activation=_activation(stated, llama),
        parallel_residual=bool(stated.get("gpt_j_residual", False)),
        tied=not stated.get("no_weight_tying", False),
        attention_bias=bool(stated.get("use_bias_in_attn_linear", True)),
        norm_epsilon=float(
            stated.get("rms_norm_epsilon", 1e-8) if llama else stated.get("layernorm_epsilon", 1e-5)
        ),
        rotary_share=float(stated.get("rotary_pct", 1.0)),
        rotary_base=float(stated.get("rotary_emb_base", 10000)),
    )


def _table(file: Path) -> dict[str, Any]:
    try:
        held = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        reason = " ".join(str(problem).split())
        raise ModelError(f"--config_file: {file} cannot be read: {reason}") from problem
    if not isinstance(held, dict):
        raise ModelError(f"--config_file: {file}: expected settings by name, as GPT-NeoX has them")
    return {str(name).replace("-", "_"): value for name, value in held.items()}


def _refused(stated: Mapping[str, Any]) -> Iterable[str]:
    for name, allowed in ONLY.items():
        value = _of(stated, name, allowed[0])
        if name == "soft_prompt_tuning" and isinstance(value, dict) and not value.get("enabled"):
            continue
        if value not in allowed:
            expected = " or ".join(map(str, allowed))
            yield f"{name}: only {expected} is converted, got {value!r}"
    for kind in _texts(stated.get("attention_config")):
        if kind not in ATTENTION:
            yield f"attention_config: only {' and '.join(ATTENTION)} are converted, got {kind!r}"
    if (stated.get("norm") == "rmsnorm") != (_is_gated(stated)):
        yield (
            "norm and mlp_type: layernorm with a regular MLP, or rmsnorm with a gated one, is "
            f"converted, got norm {_of(stated, 'norm')!r}, mlp_type {_of(stated, 'mlp_type')!r}, "
            f"activation {_of(stated, 'activation')!r}"
        )
    heads = stated.get("num_attention_heads")
    if stated.get("num_kv_heads") not in (None, heads):
        yield (
            f"num_kv_heads: {stated['num_kv_heads']} for {heads} heads: versions of GPT-NeoX order "
            "queries, keys and values of groups differently and the files do not say which, so "
            "convert it with the tools of the version that trained it"
        )
    if _is_gated(stated) and stated.get("gpt_j_residual"):
        yield "gpt_j_residual: True with a gated MLP: transformers has no such model"
    activation = _of(stated, "activation")
    known = ("silu", "swish", "swiglu") if _is_gated(stated) else ("gelu",)
    if activation not in known:
        yield f"activation: only {' or '.join(known)} is converted, got {activation!r}"


def _missing(stated: Mapping[str, Any]) -> Iterable[str]:
    numbers = ("num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings")
    for name in numbers:
        value = stated.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            yield f"{name}: expected a count, got {value!r}"
            return
    width, heads = stated["hidden_size"], stated["num_attention_heads"]
    if width % heads:
        yield f"hidden_size: {width} is not divisible by {heads} heads"
    ranks = _of(stated, "model_parallel_size")
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        yield f"model_parallel_size: expected a count, got {ranks!r}"
    elif heads % ranks:
        yield f"num_attention_heads: {heads} is not divisible by model_parallel_size {ranks}"


def _of(stated: Mapping[str, Any], name: str, default: object = None) -> Any:
    """A setting, where it is not there or null its default."""
    value = stated.get(name)
    return DEFAULTS.get(name, default) if value is None else value


def _is_gated(stated: Mapping[str, Any]) -> bool:
    return stated.get("mlp_type") == "llama" or stated.get("activation") == "swiglu"


def _activation(stated: Mapping[str, Any], llama: bool) -> str:
    """With `bias_gelu_fusion` GPT-NeoX computes the approximation by tanh."""
    if llama:
        return "silu"
    return "gelu_fast" if stated.get("bias_gelu_fusion") else "gelu"


def _texts(held: Any) -> Iterable[str]:
    """The kinds in `[[["global"], 12]]`, however deep."""
    if isinstance(held, str):
        yield held
    elif isinstance(held, list):
        for one in held:
            yield from _texts(one)
