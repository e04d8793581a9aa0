"""What the files of a repository say against evaluating it."""

from __future__ import annotations

from leaderboard import architectures, hub
from leaderboard.hub import Repository
from leaderboard.problem import Problem

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


def problems_with(repository: Repository) -> list[Problem]:
    """All of them: of the weights, of config.json and of the tokenizer."""
    problems = [*_weight_problems(repository), *_config_problems(repository)]
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
    if files & {hub.WEIGHTS, hub.INDEX}:
        return []
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
        message = f"{repo_id} has neither {hub.WEIGHTS} nor {hub.INDEX}."
    return [Problem("model", code, message, remedy)]


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
    if isinstance(config.get("quantization_config"), dict):
        method = str(config["quantization_config"].get("quant_method", "unnamed method"))
        return [
            Problem(
                "model",
                "quantised",
                f"{repo_id} is quantised ({method}); quantised weights are not evaluated yet.",
                "Submit the model that it was made from.",
            )
        ]
    problem = architectures.problem_with(config, repo_id)
    return [problem] if problem else []
