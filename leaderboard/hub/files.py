"""What the files of a repository say against evaluating it."""

from __future__ import annotations

from typing import Any

from evalcore.model.hf.quantisation import quantisation_of
from leaderboard.hub import architectures, client
from leaderboard.hub.client import Repository
from leaderboard.hub.config_sizes import MOST_TOKENS
from leaderboard.web.problem import Problem

TOKENIZERS = (
    {"tokenizer.json"},
    {"tokenizer.model"},
    {"spiece.model"},
    {"sentencepiece.bpe.model"},
    {"vocab.json", "merges.txt"},
    {"vocab.txt"},
)
"""Files of which one set must be there."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

WIDTHS = ("hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim")
"""Keys of config.json for the length of a token's vector; the shortest is meant."""
ROOM_FOR_HEADS = 100 * 2**20
"""Bytes of a file of weights that may be something else: its table of tensors, some padding."""
OF_ANOTHER_KIND = ("adapter", "gguf_only", "no_safetensors")


def problems_with(repository: Repository) -> list[Problem]:
    """All of them: of the weights, of config.json and of the tokenizer.

    Only that of the weights where this is no repository of a model for transformers: what such a
    repository lacks beside, nobody wants to have added.
    """
    weights = _weight_problems(repository)
    if any(problem.code in OF_ANOTHER_KIND for problem in weights):
        return weights
    problems = [*weights, *_config_problems(repository)]
    if not any(files <= repository.files for files in TOKENIZERS):
        problems.append(
            Problem(
                "model",
                "no_tokenizer",
                f"{repository.repo_id} has no tokenizer files.",
                "Add them with tokenizer.save_pretrained(): tokenizer.json at the least.",
            )
        )
    return problems


def _weight_problems(repository: Repository) -> list[Problem]:
    files, repo_id = repository.files, repository.repo_id
    if files & {client.WEIGHTS, client.INDEX}:
        return _incomplete(repository)
    remedy = "Save it with save_pretrained(safe_serialization=True) and push model.safetensors."
    if "adapter_config.json" in files:
        code, message = "adapter", f"{repo_id} is an adapter, not a whole model."
        remedy = "Merge it into its base model and submit the result."
    elif pickle := _first(files, PICKLES):
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
    return _wrong_size(repository)


def _wrong_size(repository: Repository) -> list[Problem]:
    """Files of weights that were cut short, or padded, which the downloads would end in."""
    stated, config = repository.index_bytes, repository.config or {}
    if repository.weights is not None and not config.get("quantization_config"):
        stated = repository.weights.n_bytes or stated
    sizes = [repository.sizes.get(name) for name in repository.weight_files]
    known = [size for size in sizes if size is not None]
    if stated is None or len(known) < len(sizes):
        return []
    held, most = sum(known), 2 * stated + ROOM_FOR_HEADS * len(known)
    if stated <= held <= most:
        return []
    what = "less" if held < stated else "more"
    message = (
        f"The weights of {repository.repo_id} take {stated:,} bytes, and the files "
        f"that should hold them have {held:,}, which is {what} than they can have."
    )
    remedy = "Push the files again as save_pretrained() wrote them: an upload may have broken off."
    return [Problem("model", "wrong_size", message, remedy)]


def _first(files: frozenset[str], endings: tuple[str, ...]) -> str | None:
    return min((name for name in files if name.endswith(endings)), default=None)


def _config_problems(repository: Repository) -> list[Problem]:
    repo_id, config = repository.repo_id, repository.config
    if repository.config_error:
        return [
            Problem(
                "model",
                "broken_config",
                f"The config.json of {repo_id} cannot be read: {repository.config_error}.",
                "Repair the file and push it again.",
            )
        ]
    if config is None:
        return [
            Problem(
                "model",
                "no_config",
                f"{repo_id} has no config.json.",
                "Submit a repository in the format of transformers: save_pretrained() writes it.",
            )
        ]
    if method := quantisation_of(config):
        return [
            Problem(
                "model",
                "quantised",
                f"{repo_id} is quantised ({method}); quantised weights are not evaluated yet.",
                "Submit the model that it was made from.",
            )
        ]
    problem = architectures.problem_with(config, repo_id) or _vocabulary_problem(repository, config)
    return [problem] if problem else []


def _vocabulary_problem(repository: Repository, config: dict[str, Any]) -> Problem | None:
    """A vocabulary whose vectors alone are more parameters than all of the weights are."""
    words, weights = config.get("vocab_size"), repository.weights
    widths = [config[name] for name in WIDTHS if isinstance(config.get(name), int)]
    if isinstance(words, int) and words > MOST_TOKENS:
        return None  # which `config_sizes` says of any model
    # Without precisions the count is derived from bytes, which is too rough to accuse anybody.
    if not isinstance(words, int) or not widths or weights is None or not weights.by_dtype:
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
