"""Sizes in config.json that no model has.

Transformers builds what the configuration says before it reads any weights: two million layers of
width 1 keep a worker busy for hours, a vocabulary of billions takes all its memory. The bounds are
at least four times what the largest published models have, so that none of those is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from leaderboard.hub.client import Repository
from leaderboard.web.problem import Problem

MOST_TOKENS = 2**25
LIMITS: tuple[tuple[str, int, frozenset[str]], ...] = (
    ("layers", 4_096, frozenset({
        "num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers",
        "encoder_layers", "decoder_layers",
    })),
    ("as hidden size", 2**19, frozenset({
        "hidden_size", "n_embd", "d_model", "dim", "embedding_size", "word_embed_proj_dim",
        "head_dim", "kv_lora_rank", "q_lora_rank",
    })),
    ("as inner size", 2**22, frozenset({
        "intermediate_size", "n_inner", "ffn_dim", "d_ff", "moe_intermediate_size",
        "decoder_ffn_dim", "encoder_ffn_dim",
    })),
    ("heads", 2**14, frozenset({
        "num_attention_heads", "num_key_value_heads", "n_head", "n_heads", "num_heads",
        "decoder_attention_heads", "encoder_attention_heads",
    })),
    ("experts", 2**16, frozenset({
        "num_local_experts", "num_experts", "n_routed_experts", "n_shared_experts",
    })),
    ("tokens in its vocabulary", MOST_TOKENS, frozenset({"vocab_size"})),
    ("positions", 2**31, frozenset({
        "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length",
    })),
)  # fmt: skip
"""What is meant, its largest value, and the keys under which configurations give it."""

DEEPEST = 3
"""Configurations of models in models (`text_config`) that are looked into."""
SHOWN = 10**15
"""A larger number is not written out."""


def problems_with(repository: Repository) -> list[Problem]:
    """One sentence for each size that is beyond any model's, or below zero."""
    remedy = "Correct config.json: save it again with save_pretrained()."
    return [
        Problem(
            "model",
            "impossible_size",
            f"config.json of {repository.repo_id} says {key}: {_shown(value)}; a model has from "
            f"0 to {most:,} {what}.",
            remedy,
        )
        for key, value, what, most in _impossible(repository.config or {}, DEEPEST)
    ]


def _impossible(config: Mapping[str, Any], depth: int) -> Iterator[tuple[str, float, str, int]]:
    """Key, value, meaning and bound of each."""
    for key, value in config.items():
        if isinstance(value, Mapping) and depth:
            yield from _impossible(value, depth - 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            for what, most, keys in LIMITS:
                if key in keys and not 0 <= value <= most:
                    yield key, value, what, most


def _shown(value: float) -> str:
    if abs(value) <= SHOWN:
        return f"{value:,}"
    return f"more than {SHOWN:,}" if value > 0 else f"less than -{SHOWN:,}"
