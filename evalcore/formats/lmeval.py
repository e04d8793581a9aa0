"""lm-evaluation-harness's results JSON and samples JSONL (as of 0.4.13), from our records.

What that format has no place for (intervals, keys, token loglikelihoods) stays in the record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evalcore.record import ResultRow, RunRecord

Sample = Mapping[str, Any]


def folder_name(model: str) -> str:
    """The folder that the files of a model go into."""
    return re.sub(r'["<>:/|\\?*\[\]]+', "__", model)


def results_json(records: Sequence[RunRecord], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The results file of one evaluation; `arguments` are the command's, for its `config`."""
    model = records[0].model
    rows = [row for record in records for row in record.results if _is_whole(record, row)]
    leaves = {name: config for record in records for name, config in record.configs.items()}
    groups = {name: group for record in records for name, group in record.groups.items()}
    scores = {
        name: _scores(name, groups.get(name) or leaves[name], rows, is_group=name in groups)
        for name in sorted({row.task for row in rows})
    }
    return {
        "results": scores,
        **({"groups": {name: scores[name] for name in groups if name in scores}} if groups else {}),
        "group_subtasks": {name: group["members"] for name, group in groups.items()},
        "configs": leaves,
        "versions": {
            **{name: _version(config) for name, config in leaves.items()},
            **{name: group["version"] for name, group in groups.items()},
        },
        "n-shot": {name: _shots_of(record, name) for record in records for name in record.configs},
        "higher_is_better": {
            name: {row.metric: row.higher_is_better for row in rows if row.task == name}
            for name in sorted({row.task for row in rows})
        },
        "n-samples": {
            name: {"original": data["documents"], "effective": _n(rows, name)}
            for record in records
            for name, data in record.datasets.items()
        },
        "config": {
            **arguments,
            "model_num_parameters": model["parameters"],
            "model_dtype": f"torch.{model['dtype']}",
            "model_revision": model["commit"] or "main",
            "model_sha": model["commit"] or "",
            "device": model["device"],
            "limit": records[0].limit,
            "fewshot_seed": records[0].settings["fewshot_seed"],
        },
        "date": records[0].started,
        "transformers_version": records[0].environment["transformers"],
        "evalcore_version": records[0].engine["version"],
        **{
            f"tokenizer_{name}_token": [str(part) for part in token] if token else None
            for name, token in model["special_tokens"].items()
        },
        "eot_token_id": (model["special_tokens"]["eos"] or (None, None))[1],
        "max_length": model["max_length"],
        "model_source": "hf",
        "model_name": model["repository"],
        "model_name_sanitized": folder_name(model["repository"]),
        "system_instruction": None,
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "total_evaluation_time_seconds": str(sum(record.seconds for record in records)),
    }


def task_hash(samples: Iterable[Sample]) -> str:
    """The digest under `task_hashes`: over the documents, prompts and targets of a leaf task."""
    lines = (sample_line(sample) for sample in samples)
    return _sha256("".join(x["doc_hash"] + x["prompt_hash"] + x["target_hash"] for x in lines))


def sample_lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Samples as the lines of a samples JSONL; our `task` is kept, since a group is one file."""
    for sample in samples:
        line = {**sample_line(sample), "task": sample["task"]}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def sample_line(sample: Sample) -> dict[str, Any]:
    """One sample (fields of SAMPLE_SCHEMA) in lm-evaluation-harness's form."""
    doc = json.loads(sample["doc"])
    answers = [[str(x["loglikelihood"]), str(x["is_greedy"])] for x in sample["responses"]]
    scores = {score["metric"]: score["value"] for score in sample["scores"]}
    return {
        "doc_id": sample["doc_id"],
        "doc": doc,
        "target": sample["target"],
        "arguments": {
            f"gen_args_{place}": {"arg_0": pair["context"], "arg_1": pair["continuation"]}
            for place, pair in enumerate(sample["arguments"])
        },
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": list(scores),
        "doc_hash": _sha256(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": _sha256(sample["arguments"][0]["context"]),
        "target_hash": _sha256(sample["target"]),
        **scores,
    }


def _is_whole(record: RunRecord, row: ResultRow) -> bool:
    """Whether the row is about a whole task or group, not about a part of a task's documents."""
    return row.task != record.task or not row.subset


def _scores(
    name: str, config: Mapping[str, Any], rows: Sequence[ResultRow], *, is_group: bool
) -> dict[str, Any]:
    own = [row for row in rows if row.task == name]
    alias = config["alias"] if is_group else config.get("task_alias")
    scores: dict[str, Any] = {"alias": alias or name, "name": name, "sample_len": own[0].n}
    if is_group:
        scores["sample_count"] = {f"{row.metric},{row.filter}": row.n for row in own}
    for row in own:
        scores[f"{row.metric},{row.filter}"] = row.value
        stderr = "N/A" if row.stderr is None else row.stderr
        scores[f"{row.metric}_stderr,{row.filter}"] = stderr
    return scores


def _version(config: Mapping[str, Any]) -> Any:
    return config.get("metadata", {}).get("version", "Yaml")


def _shots_of(record: RunRecord, task: str) -> int:
    return record.shots if isinstance(record.shots, int) else record.shots[task]


def _n(rows: Sequence[ResultRow], task: str) -> int:
    return next(row.n for row in rows if row.task == task)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
