"""lm-evaluation-harness's results JSON (as of 0.4.13), from our records.

What that format has no place for (intervals, keys, token loglikelihoods) stays in the record. Its
samples JSONL is in `samples.py`, the way back in `reader.py`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from evalcore.formats.lmeval.samples import sha256_of
from evalcore.record import ResultRow, RunRecord
from evalcore.task.metadata import UNVERSIONED
from evalcore.whole_file import name_in_file

NOT_AVAILABLE = "N/A"
"""What that format says where there is no standard error or no version."""


def folder_name(model: str) -> str:
    """The folder that the files of a model go into; also a task's name in that of a file."""
    return name_in_file(re.sub(r'["<>:/|\\?*\[\]]+', "__", model))


def git_hash() -> str | None:
    """The commit of the folder that the command was started in, if it has one."""
    try:
        outcome = subprocess.run(
            ["git", "describe", "--always"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return outcome.stdout.strip() or None


def results_json(
    records: Sequence[RunRecord],
    config: Mapping[str, Any],
    task_hashes: Mapping[str, str] | None = None,
    git_hash: str | None = None,
) -> dict[str, Any]:
    """The results file of one evaluation; `config` are the command's own entries for its `config`.

    `task_hashes`: as the function of that name gives them for the samples.
    """
    first = records[0]
    # Those of whole tasks and groups, not of a part of a task's documents.
    rows = [
        row
        for record in records
        for row in record.results
        if row.task != record.task or not row.subset
    ]
    leaves = {name: config for record in records for name, config in record.configs.items()}
    groups = {name: group for record in records for name, group in reversed(record.groups.items())}
    results = {name: _leaf_scores(name, leaves[name], rows) for name in leaves}
    results |= {name: _group_scores(name, groups, rows, results) for name in groups}
    shots = {
        name: record.shots if isinstance(record.shots, int) else record.shots[name]
        for record in records
        for name in record.configs
    }
    direction: dict[str, dict[str, bool | None]] = {name: {} for name in leaves}
    for row in rows:
        if row.task in leaves:
            direction[row.task][row.metric] = row.higher_is_better
    generation = {
        leaf: settings
        for record in reversed(records)
        for leaf, settings in record.generation.items()
    }
    for name, group in reversed(groups.items()):
        _propagate(name, group["members"], shots, direction)
    aggregated = {name: results[name] for name in groups if "sample_len" in results[name]}
    return {
        "results": results,
        **({"groups": aggregated} if aggregated else {}),
        "group_subtasks": {name: group["members"] for name, group in groups.items()},
        "configs": {
            name: config_as_theirs(
                leaves[name],
                shots[name],
                generation.get(name),
                config.get("model_args") if first.mode == "compat" else None,
            )
            for name in sorted(leaves)
        },
        "versions": dict(sorted(_versions(leaves, groups).items())),
        "n-shot": dict(sorted(shots.items())),
        "higher_is_better": dict(sorted(direction.items())),
        "n-samples": {
            name: {"original": data["documents"], "effective": results[name]["sample_len"]}
            for record in records
            for name, data in record.datasets.items()
        },
        "config": _config(records, config),
        "git_hash": git_hash,
        "date": datetime.fromisoformat(first.started).timestamp(),
        **_environment(first),
        **_tokenizer(first.model),
        "task_hashes": dict(task_hashes or {}),
        **_general(first, config),
        "total_evaluation_time_seconds": str(sum(record.seconds for record in records)),
        "evalcore": {
            "version": first.engine["version"],
            "mode": first.mode,
            "run_keys": {record.task: record.run_key for record in records},
            "failures": [
                {
                    "task": failure.task,
                    "metric": failure.metric,
                    "filter": failure.filter,
                    "reason": failure.reason,
                }
                for record in records
                for failure in record.failures
            ],
        },
    }


def config_as_theirs(
    config: Mapping[str, Any], shots: int, generation: Mapping[str, Any] | None, model_args: Any
) -> dict[str, Any]:
    """A task's configuration with the defaults that lm-evaluation-harness prints, too.

    A function appears as `!function name`. The arguments of the model stand among the metadata.
    """
    stated = _named_functions(config)
    passed = model_args if isinstance(model_args, Mapping) else {}
    metadata = {**stated.get("metadata", {}), **passed}
    fewshot = {
        "sampler": "default",
        "split": stated.get("fewshot_split"),
        "fewshot_indices": None,
        "samples": None,
        **{key: stated.get(key) for key in _INHERITED},
        "fewshot_delimiter": stated.get("fewshot_delimiter", "\n\n"),
        "target_delimiter": stated.get("target_delimiter", " "),
        **stated.get("fewshot_config", {}),
    }
    return {
        "unsafe_code": False,
        "description": "",
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "output_type": "generate_until",
        "repeats": 1,
        "should_decontaminate": False,
        **{key: value for key, value in stated.items() if key != "tag"},
        "fewshot_config": fewshot,
        "num_fewshot": shots,
        **({"generation_kwargs": dict(generation)} if generation else {}),
        **({"metadata": metadata} if metadata else {}),
    }


_INHERITED = ("process_docs", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix")
"""What `fewshot_config` takes from its task where it says nothing itself."""


def _named_functions(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() == {"function", "digest"}:
            return f"!function {value['function']}"
        return {key: _named_functions(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_named_functions(entry) for entry in value]
    return value


def _leaf_scores(name: str, config: Mapping[str, Any], rows: Sequence[ResultRow]) -> dict[str, Any]:
    own = [row for row in rows if row.task == name]
    return {
        "name": name,
        "alias": config.get("task_alias") or name,
        "sample_len": max((row.n for row in own), default=0),
        **_numbers(own),
    }


def _group_scores(
    name: str,
    groups: Mapping[str, Mapping[str, Any]],
    rows: Sequence[ResultRow],
    results: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A group that aggregates nothing has its names alone."""
    own = [row for row in rows if row.task == name]
    scores: dict[str, Any] = {"alias": groups[name]["alias"], "name": name}
    if not own and not groups[name].get("aggregate_metric_list"):
        return scores
    sizes = {leaf: results[leaf]["sample_len"] for leaf in leaves_of(name, groups)}
    count = {
        key: sum(size for leaf, size in sizes.items() if key in results[leaf])
        for key in (f"{row.metric},{row.filter}" for row in own)
    }
    scores |= {"sample_len": sum(sizes.values()), **_numbers(own)}
    return {**scores, "sample_count": count} if count else scores


def leaves_of(name: str, groups: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The tasks of a group and of the groups in it, in order."""
    for member in groups[name]["members"]:
        if member in groups:
            yield from leaves_of(member, groups)
        else:
            yield member


def _numbers(rows: Sequence[ResultRow]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for row in rows:
        numbers[f"{row.metric},{row.filter}"] = row.value
        stderr = NOT_AVAILABLE if row.compat_stderr is None else row.compat_stderr
        numbers[f"{row.metric}_stderr,{row.filter}"] = stderr
    return numbers


def _propagate(
    name: str,
    members: Sequence[str],
    shots: dict[str, int],
    direction: dict[str, dict[str, bool | None]],
) -> None:
    """A group has the shots that its members share; a metric that they disagree on points nowhere.

    As in lm-evaluation-harness the whole comes before its parts, whose own entries it so misses.
    """
    if len(different := {shots[member] for member in members if member in shots}) == 1:
        shots[name] = different.pop()
    merged: dict[str, bool | None] = {}
    for member in members:
        for metric, higher in direction.get(member, {}).items():
            merged[metric] = higher if merged.get(metric, higher) == higher else None
    if merged:
        direction[name] = merged


def _versions(
    leaves: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    versions: dict[str, Any] = {
        name: config.get("metadata", {}).get("version", UNVERSIONED)
        for name, config in leaves.items()
    }
    for name, group in groups.items():
        stated = group["version"]
        versions[name] = NOT_AVAILABLE if stated == UNVERSIONED else str(stated)
    return versions


def _config(records: Sequence[RunRecord], config: Mapping[str, Any]) -> dict[str, Any]:
    model, settings = records[0].model, records[0].settings
    if records[0].engine["name"] == "lm_eval":  # read from such a file
        return {**settings, **config}
    beside = next((kind for kind in ("adapter", "delta") if model.get(kind)), None)
    kind = {"adapter": "peft"}.get(beside or "", beside)
    name, _, commit = str(model[beside] if beside else "").rpartition("@")
    service = model.get("service")
    loaded = {"pretrained": model["repository"], **({kind: name} if kind else {})}
    asked = {"model": model["repository"], "base_url": service["url"]} if service else loaded
    engine = (model.get("computed_by") or {}).get("name", "hf")
    own = {
        "model": service["interface"] if service else engine,
        "model_args": asked,
        "model_num_parameters": model["parameters"],
        "model_dtype": "unknown" if service else f"torch.{model['dtype']}",
        "model_revision": model["commit"] or "main",
        "model_sha": model["commit"] or "",
        # A folder has no commit there, only a digest.
        **({f"{kind}_sha": commit if len(commit) == 40 else ""} if kind else {}),
        "batch_size": "auto",
        "batch_sizes": [],
        "device": model["device"],
        "use_cache": None,
        "limit": records[0].limit,
        "bootstrap_iters": settings.get("bootstrap_iters"),
        "gen_kwargs": settings.get("gen_kwargs") or {},
        "random_seed": None,
        "numpy_seed": None,
        "torch_seed": settings.get("seed"),
        "fewshot_seed": settings["fewshot_seed"],
    }
    return {**own, **config}


def _environment(record: RunRecord) -> dict[str, Any]:
    environment, version = record.environment, record.engine["version"]
    return {
        "pretty_env_info": "\n".join(f"{name}: {value}" for name, value in environment.items()),
        "transformers_version": environment.get("transformers", NOT_AVAILABLE),
        "lm_eval_version": version if record.engine["name"] == "lm_eval" else f"evalcore {version}",
        "upper_git_hash": None,
    }


def _tokenizer(model: Mapping[str, Any]) -> dict[str, Any]:
    tokens = model.get("special_tokens")
    if not tokens:
        return {}
    eos = tokens.get("eos") or (None, None)
    known = {"pad": tokens.get("pad") or eos, "eos": eos, "bos": tokens.get("bos") or (None, None)}
    return {
        **{
            f"tokenizer_{name}_token": [text, str(number)] for name, (text, number) in known.items()
        },
        "eot_token_id": eos[1],
        "max_length": model["max_length"],
    }


def _general(record: RunRecord, config: Mapping[str, Any]) -> dict[str, Any]:
    chat = record.chat or {}
    system, template = record.system_instruction, chat.get("text")
    counts = {"system": chat.get("without_system", 0), **chat.get("left_out", {})}
    left_out = {role: count for role, count in counts.items() if count}
    return {
        "model_source": config.get("model", "hf"),
        "model_name": record.model_name,
        "model_name_sanitized": folder_name(record.model_name),
        "system_instruction": system,
        "system_instruction_sha": sha256_of(system) if system else None,
        "fewshot_as_multiturn": chat.get("multiturn"),
        "chat_template": template,
        "chat_template_sha": sha256_of(template) if template else None,
        **({"not_in_prompts": left_out} if left_out else {}),
    }
