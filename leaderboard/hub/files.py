"""What the files of a repository say against evaluating it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalcore.model.hf import repository as engine
from evalcore.model.hf.quantisation import LIBRARIES, method_of, quantisation_of
from leaderboard.hub import architectures, cleaning, client
from leaderboard.hub.client import Repository
from leaderboard.web import Problem

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
"""What is meant, its largest value, and the keys under which configurations give it.

Transformers builds what config.json says before it reads any weights: two million layers of width 1
keep a worker busy for hours. The bounds are at least four times what the largest published models
have.
"""

DEEPEST = 3
"""Configurations of models in models (`text_config`) that are looked into."""
SHOWN = 10**15
"""A larger number is not written out."""


def impossible_sizes(repository: Repository) -> list[Problem]:
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


TOKENIZERS = (
    {"tokenizer.json"},
    {"tokenizer.model"},
    {"spiece.model"},
    {"sentencepiece.bpe.model"},
    {"vocab.json", "merges.txt"},
    {"vocab.txt"},
)
"""Files of which one set must be there."""
NEVER_EMPTY = (client.TOKENIZER, "tokenizer.json")
"""Files that hold at least a pair of braces where they are there."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

TORCH_DTYPES = frozenset({
    "float16", "half", "bfloat16", "float32", "float", "float64", "double", "float8_e4m3fn",
    "float8_e5m2", "float8_e8m0fnu", "int8", "uint8", "int16", "int32", "int64",
})  # fmt: skip
"""What PyTorch calls the precisions in which weights are stored."""

WITH_ROWS_OF_THEIR_OWN = frozenset({"moshi"})
"""Model types whose table has more rows than the vocabulary has tokens."""

WIDTHS = ("hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim")
"""Keys of config.json for the length of a token's vector; the shortest is meant."""
OF_ANOTHER_KIND = ("gguf_only", "no_safetensors")


def problems_with(repository: Repository) -> list[Problem]:
    """All of them: of the weights, of config.json, of the tokenizer and of sizes that no model has.

    Only that of the weights where this is no repository of a model for transformers: what such a
    repository lacks beside, nobody wants to have added.
    """
    weights, sizes = _weight_problems(repository), impossible_sizes(repository)
    if any(problem.code in OF_ANOTHER_KIND for problem in weights):
        return [*weights, *sizes]
    problems = [*weights, *_config_problems(repository), *_left_over_adapter(repository)]
    problems += _file_sizes(repository)
    if not any(files <= repository.files for files in TOKENIZERS):
        problems.append(
            Problem(
                "model",
                "no_tokenizer",
                f"{repository.repo_id} has no tokenizer files.",
                "Add them with tokenizer.save_pretrained(): tokenizer.json at the least.",
            )
        )
    return [*problems, *sizes]


def _weight_problems(repository: Repository) -> list[Problem]:
    files, repo_id = repository.files, repository.repo_id
    if files & {client.WEIGHTS, client.INDEX}:
        return _incomplete(repository)
    remedy = "Save it with save_pretrained(safe_serialization=True) and push model.safetensors."
    if pickle := _first(files, PICKLES):
        code = "pickle_only"
        message = f"{repo_id} has its weights in pickle files only ({pickle}), which can run code."
    elif gguf := _first(files, (".gguf",)):
        code = "gguf_only"
        message = f"{repo_id} has its weights in GGUF files only ({gguf}), which are not evaluated."
        remedy = "Submit the repository that the GGUF files were made from."
    else:
        code = "no_safetensors"
        message = f"{repo_id} has neither {client.WEIGHTS} nor {client.INDEX}."
    return [Problem("model", code, message, remedy)]


def _incomplete(repository: Repository) -> list[Problem]:
    repo_id, missing = repository.repo_id, sorted(repository.shards - repository.files)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        message = (
            f"{client.INDEX} of {repo_id} names {missing[0]}{more}, "
            "which the repository does not have."
        )
        remedy = "Push every file that save_pretrained() wrote."
        return [Problem("model", "missing_shard", message, remedy)]
    if repository.weights is not None and repository.weights.count == 0:
        message = f"The {client.WEIGHTS} of {repo_id} is empty: it holds no weights."
        remedy = "Save the model with save_pretrained() and push it again."
        return [Problem("model", "empty_weights", message, remedy)]
    return wrong_size(repository)


def wrong_size(repository: Repository) -> list[Problem]:
    """Files of weights that were cut short, or padded: safetensors loads neither."""
    wrong = [
        (name, head, size)
        for name, head in sorted(repository.heads.items())
        if (size := repository.sizes.get(name)) is not None and size != head.file_bytes
    ]
    if not wrong:
        return []
    name, head, size = wrong[0]
    more = f", and {len(wrong) - 1} more are wrong" if len(wrong) > 1 else ""
    what = "less" if size < head.file_bytes else "more"
    message = (
        f"{name} of {repository.repo_id} has {size:,} bytes, {what} than the {head.file_bytes:,} "
        f"that its own head says{more}."
    )
    remedy = "Push the files again as save_pretrained() wrote them: an upload may have broken off."
    return [Problem("model", "wrong_size", message, remedy)]


def other_count(repository: Repository) -> list[Problem]:
    """That the Hub counts other parameters than the files hold, which stops nobody.

    Not of packed weights, whose numbers the Hub counts in its own way.
    """
    counted, weights = repository.counted, repository.weights
    if counted is None or weights is None or quantisation_of(repository.config or {}):
        return []
    said = {counted.count, sum(counted.by_dtype.values()) or counted.count}
    if said == {weights.count}:
        return []
    told = " or ".join(f"{count:,}" for count in sorted(said))
    message = (
        f"The Hub says that {repository.repo_id} has {told} parameters; its files of weights "
        f"hold {weights.count:,}, and these are counted."
    )
    return [Problem("model", "other_count", message)]


def _first(files: frozenset[str], endings: tuple[str, ...]) -> str | None:
    return min((name for name in files if name.endswith(endings)), default=None)


def _file_sizes(repository: Repository) -> list[Problem]:
    """Of the small files that are loaded one that is empty, or larger than any is downloaded."""
    for name, size in sorted(repository.sizes.items()):
        most = _most_bytes(name)
        if most is None or size is None or 0 < size <= most:
            continue
        if size == 0 and name not in NEVER_EMPTY:
            continue
        what = "is empty" if size == 0 else f"has {size:,} bytes, of which {most:,} are the most"
        message = f"{name} of {repository.repo_id} {what}."
        remedy = "Save it again with save_pretrained(), and push it."
        return [Problem("model", "file_size", message, remedy)]
    return []


def _most_bytes(name: str) -> int | None:
    if name == client.TEMPLATE or name.startswith(client.NAMED_TEMPLATES):
        return engine.LARGEST_TEMPLATE
    return engine.LARGEST_SMALL_FILE if name in engine.TOKENIZER else None


def _left_over_adapter(repository: Repository) -> list[Problem]:
    """Beside a whole model: transformers would put the adapter on once more."""
    if repository.is_adapter or client.ADAPTER_CONFIG not in repository.files:
        return []
    message = (
        f"{repository.repo_id} holds a whole model and an adapter ({client.ADAPTER_CONFIG}), so "
        "which of the two is meant cannot be told."
    )
    remedy = "Remove what belongs to the adapter, or publish it by itself."
    return [Problem("model", "model_and_adapter", message, remedy)]


def _config_problems(repository: Repository) -> list[Problem]:
    repo_id, config = repository.repo_id, repository.config
    if repository.config_error:
        code = "broken_config"
        message = f"The config.json of {repo_id} cannot be read: {repository.config_error}."
        remedy = "Repair the file and push it again."
    elif config is None:
        code, message = "no_config", f"{repo_id} has no config.json."
        remedy = "Submit a repository in the format of transformers: save_pretrained() writes it."
    elif (method := quantisation_of(config)) and method_of(method) not in LIBRARIES:
        code = "quantised"
        message = (
            f"{repo_id} is quantised ({method}); of quantised weights those of "
            f"{', '.join(LIBRARIES)} are evaluated."
        )
        remedy = "Submit the model that it was made from."
    else:
        found = architectures.problem_with(config, repo_id, repository.commit)
        found = found or _dtype_problem(repo_id, config) or _vocabulary_problem(repository, config)
        found = found or _table_problem(repository, config)
        return [found] if found else []
    return [Problem("model", code, message, remedy)]


def _dtype_problem(repo_id: str, config: dict[str, Any]) -> Problem | None:
    """A precision that PyTorch has no such name for, with which no configuration loads."""
    of_text = config.get("text_config")
    for part in (config, of_text if isinstance(of_text, dict) else {}):
        for key in ("dtype", "torch_dtype"):
            named = part.get(key)
            if isinstance(named, str) and named not in TORCH_DTYPES:
                return Problem(
                    "model",
                    "unknown_stored_dtype",
                    f"The config.json of {repo_id} says {key}: “{named[:40]}”, which PyTorch does "
                    "not know.",
                    "Write float32, bfloat16 or float16: that in which the weights are stored.",
                )
    return None


def _table_problem(repository: Repository, config: dict[str, Any]) -> Problem | None:
    """A table of tokens that has another length than the configuration says does not load."""
    words, weights = cleaning.count(config.get("vocab_size"), MOST_TOKENS), repository.weights
    known = architectures.named_in(config) in architectures.NATIVE and not quantisation_of(config)
    if not known or config.get("model_type") in WITH_ROWS_OF_THEIR_OWN or not words:
        return None
    if weights is None or weights.table_rows in (0, words):
        return None
    return Problem(
        "model",
        "other_table",
        f"The table of tokens of {repository.repo_id} has {weights.table_rows:,} rows, and its "
        f"config.json says vocab_size: {words:,}.",
        "Save the model again with save_pretrained(), which writes both alike.",
    )


def _vocabulary_problem(repository: Repository, config: dict[str, Any]) -> Problem | None:
    """A vocabulary whose vectors alone are more parameters than all of the weights are."""
    words, weights = config.get("vocab_size"), repository.weights
    widths = [config[name] for name in WIDTHS if isinstance(config.get(name), int)]
    if isinstance(words, int) and words > MOST_TOKENS:
        return None  # which `config_sizes` says of any model
    if not isinstance(words, int) or not widths or weights is None or not weights.count:
        return None
    if quantisation_of(config):  # several numbers are packed into one
        return None
    if words * min(widths) <= weights.count:
        return None
    return Problem(
        "model",
        "vocabulary_too_large",
        f"The config.json of {repository.repo_id} has a vocabulary of {words} tokens with "
        f"{min(widths)} numbers each, more than the {weights.count:,} parameters of its weights.",
        "Correct vocab_size in config.json and push it again.",
    )
