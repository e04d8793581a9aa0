"""The generation arguments that a model states itself (`generation_config.json`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import ModelError

NEUTRAL = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "early_stopping": False,
}
"""Values with which an argument does nothing."""

NO_ARGUMENTS = frozenset(
    [
        "transformers_version",
        "_from_model_config",
        "pad_token_id",
        "bos_token_id",
        "max_length",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
    ]
)
"""What a generation configuration says that decides no text, or that every call states itself."""


OWN_TOKENS = frozenset(
    ["eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"]
)
"""Between which tokens a text stands is as much the model's own as its vocabulary."""

COMPUTING = frozenset(
    [
        *("cache_implementation", "cache_config", "return_legacy_cache", "prefill_chunk_size"),
        *("compile_config", "disable_compile", "low_memory", "trust_remote_code"),
        *("return_dict_in_generate", "output_scores", "output_logits"),
    ]
)
"""How a text is computed, and what is given beside it."""


def stated_in(defaults: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Of a model's own arguments those that may decide a text; `known`: those that whoever writes
    heeds."""
    return {
        name: value
        for name, value in defaults.items()
        if name in known
        and name not in OWN_TOKENS | COMPUTING
        and value is not None
        and not (name in NEUTRAL and value == NEUTRAL[name])
    }


def defaults_of(configuration: Any) -> dict[str, Any]:
    """What a generation configuration of transformers says that decides a text.

    Raises ModelError for values that no argument can have.
    """
    stated = configuration.to_diff_dict()
    for name, value in stated.items():
        try:
            digest_of(value)
        except (TypeError, ValueError):
            raise ModelError(f"generation_config.json: {name} cannot be {value!r}") from None
    return {name: value for name, value in stated.items() if name not in NO_ARGUMENTS}
