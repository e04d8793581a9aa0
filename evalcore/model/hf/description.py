"""What a repository says of its model: configuration and tokenizer, without weights.

Needs no torch; where there is one, transformers imports it, so transformers is only imported when
something is loaded.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from evalcore.errors import ModelError
from evalcore.model.faults import models_fault, within
from evalcore.model.hf.gguf import alone, check_metadata
from evalcore.model.hf.snapshot import Arguments, Snapshot

TOKENIZER_SECONDS = 180.0
"""The slowest of those that people use takes ten."""
SAFE = (".safetensors", ".safetensors.index.json")


def code_options(arguments: Arguments) -> dict[str, Any]:
    """What transformers is told of code that a configuration names."""
    commit = {"code_revision": arguments.code_revision} if arguments.code_revision else {}
    return {"trust_remote_code": arguments.trust_remote_code, **commit}


def load_tokenizer(arguments: Arguments, snapshot: Snapshot) -> Any:
    """The tokenizer that `AutoTokenizer.from_pretrained` gives for a repository's ID.

    It is loaded from the snapshot's folder, so with and without a network the same files decide;
    but transformers has rules for single IDs, so it is told which repository the folder is of.
    """
    from transformers import AutoTokenizer

    options: dict[str, Any] = {"use_fast": arguments.use_fast_tokenizer}
    if arguments.add_bos_token is not None:
        options["add_bos_token"] = arguments.add_bos_token
    if snapshot.file:
        options["gguf_file"] = snapshot.file
    elif snapshot.commit is not None:
        options["config"] = _configuration_with_id(arguments, snapshot)
    budget = within(TOKENIZER_SECONDS, f"{snapshot.name}: loading the tokenizer")
    with budget, errors_named(snapshot), alone(snapshot) as folder:
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, **options, **code_options(arguments))
    longest = tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 1:
        raise ModelError(
            f"{snapshot.name}: tokenizer_config.json: model_max_length: expected a count of "
            f"tokens, got {longest!r}"
        )
    return tokenizer


def _configuration_with_id(arguments: Arguments, snapshot: Snapshot) -> Any:
    """The configuration by which AutoTokenizer chooses a class, under the repository's own ID."""
    from transformers import AutoConfig, PreTrainedConfig

    with errors_named(snapshot):
        try:
            config: Any = AutoConfig.from_pretrained(snapshot.folder, **code_options(arguments))
        except (ValueError, OSError):  # of no model type that is known; a tokenizer may be there
            config = PreTrainedConfig.from_pretrained(snapshot.folder)
    if config.name_or_path:  # not where there is no config.json, under an ID as in a folder
        config.name_or_path = snapshot.name
    return config


def load_configuration(arguments: Arguments, snapshot: Snapshot) -> Any:
    """What config.json says of the model, and not what it says of the code that computes it.

    There `attn_implementation` may be a repository of kernels, which transformers would fetch and
    run; `transformers_weights` may be a pickle. Raises ModelError for a folder with an adapter in
    it, which transformers would put on without a word where peft is installed.
    """
    from transformers import AutoConfig

    if snapshot.file:
        with errors_named(snapshot), alone(snapshot) as folder:
            check_metadata(snapshot)
            return _settled(arguments, AutoConfig.from_pretrained(folder, gguf_file=snapshot.file))
    adapter = snapshot.folder / "adapter_config.json"
    if adapter.exists() and not (snapshot.folder / "config.json").exists():
        raise ModelError(
            f"{snapshot.name} is an adapter: give its model as pretrained and {snapshot.name} as "
            "peft, or evaluate the two merged"
        )
    if adapter.exists():
        raise ModelError(
            f"{snapshot.name} holds a model and an adapter ({adapter.name}), so which of the two "
            "is meant cannot be told: remove what belongs to the adapter, or publish it by itself"
        )
    config = _settled(
        arguments, AutoConfig.from_pretrained(snapshot.folder, **code_options(arguments))
    )
    weights = getattr(config, "transformers_weights", None)
    if weights is not None and not str(weights).endswith(SAFE):
        raise ModelError(
            f"{snapshot.name}: config.json: transformers_weights: expected a file in safetensors "
            f"format, got {weights!r}"
        )
    return config


def _settled(arguments: Arguments, config: Any) -> Any:
    config._attn_implementation = arguments.attn_implementation
    config._experts_implementation = None
    config.return_dict = True
    return config


def max_length_of(config: Any, tokenizer: Any) -> int:
    """The longest input: what the configuration says, else the tokenizer, else 2048."""
    text_config = config.get_text_config()
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if isinstance(length := getattr(text_config, name, None), int) and length > 0:
            return length
    # Tokenizers without a limit of their own say so by a number of thirty digits.
    stated = tokenizer.model_max_length
    return int(stated) if stated < 10**9 else 2048


def errors_named(snapshot: Snapshot) -> AbstractContextManager[None]:
    what = f"{snapshot.name} at {snapshot.revision} cannot be loaded"
    return models_fault(what, folder=snapshot.folder, name=snapshot.name)
