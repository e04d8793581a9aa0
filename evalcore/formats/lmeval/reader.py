"""lm-evaluation-harness's files (as of 0.4.13) read as records and samples of ours.

What those files do not say stays empty: pins of the model, token ids, intervals by other means than
the standard error. The record's engine is `lm_eval`, so no number of it shares a comparability key
with one of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalcore.digest import digest_of
from evalcore.formats.lmeval.lines import samples_of
from evalcore.formats.lmeval.results import NOT_AVAILABLE, leaves_of
from evalcore.formats.lmeval.samples import samples_file
from evalcore.keys import comparability_key, cuts_thoughts
from evalcore.model.hf.arguments import TYPES
from evalcore.record import ResultRow, RunRecord, SampleFile
from evalcore.stats.interval import around, normal_quantile
from evalcore.task.identity.digest import docs_digest
from evalcore.task.metadata import UNVERSIONED
from evalcore.values import typed_pairs

AS_WE_DO = "0.4.13"
"""The version whose ways our compat mode has."""


def is_results(content: Any) -> bool:
    """Whether a JSON file's content is a results file."""
    return isinstance(content, dict) and {"results", "configs", "versions"} <= content.keys()


def read(path: Path) -> Iterator[tuple[RunRecord, list[dict[str, Any]]]]:
    """The records of a results file (one for each task or outermost group) with their samples.

    Samples are those files beside it that bear its time; there may be none. Raises ValueError for a
    file of another form.
    """
    results = json.loads(path.read_text(encoding="utf-8"))
    if not is_results(results):
        raise ValueError(f"{path} is no results file of lm-evaluation-harness")
    groups = _groups(results)
    inside = {member for group in groups.values() for member in group["members"]}
    grouped = {leaf for name in groups for leaf in leaves_of(name, groups)}
    for name in [*groups, *(leaf for leaf in results["configs"] if leaf not in grouped)]:
        if name in inside:
            continue
        leaves = list(dict.fromkeys(leaves_of(name, groups))) if name in groups else [name]
        samples = [
            sample
            for leaf in leaves
            for sample in samples_of(samples_path(path, leaf), leaf, results["configs"][leaf])
        ]
        yield _record(results, name, leaves, groups, samples), samples


def _groups(results: Mapping[str, Any]) -> dict[str, Any]:
    """In that file a group inside another comes first; in a record the whole does.

    Tasks without members stand there, too, in some versions.
    """
    subtasks = results.get("group_subtasks", {})
    known = results["configs"].keys() | subtasks.keys()
    return {
        name: {
            "alias": results["results"].get(name, {}).get("alias", name).lstrip(" -"),
            "version": _version(results["versions"].get(name)),
            "members": [member for member in members if member in known],
        }
        for name, members in reversed(subtasks.items())
        if members
    }


def _version(stated: Any) -> str:
    return UNVERSIONED if stated in (None, NOT_AVAILABLE) else str(stated)


def samples_path(results: Path, task: str) -> Path:
    """The samples file of a leaf task, which bears the time of its results file."""
    time = re.search(r"\d{4}-\d\d-\d\dT.*$", results.stem)
    return results.parent / samples_file(task, time[0] if time else "")


def _record(
    results: Mapping[str, Any],
    name: str,
    leaves: Sequence[str],
    groups: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
) -> RunRecord:
    config, own = results["config"], {leaf: results["configs"][leaf] for leaf in leaves}
    shots = {leaf: int(results["n-shot"].get(leaf) or 0) for leaf in leaves}
    documents = docs_digest(sample["doc_digest"] for sample in samples)
    alike = len(set(shots.values())) == 1
    subgroups = _within(name, groups)
    key = _run_key(results, shots, samples)
    rows = [
        *(row for group in subgroups for row in _rows(results, group, name, key)),
        *(row for leaf in leaves for row in _rows(results, leaf, name, key)),
    ]
    metadata = own[name].get("metadata") or {} if name in own else {}
    return RunRecord(
        task=name,
        version=_version(results["versions"].get(name)),
        benchmark=metadata.get("benchmark", name),
        style=metadata.get("style") or "",
        primary_metric=metadata.get("primary_metric") or (rows[0].metric if rows else ""),
        chance=metadata.get("chance"),
        shots=shots[leaves[0]] if alike else shots,
        shot_rule="none" if not any(shots.values()) else "unknown",
        shot_seed=config.get("fewshot_seed") if any(shots.values()) else None,
        mode="compat",
        limit=config.get("limit"),
        config_digest=digest_of(_without_metadata(own)),
        docs_digest=documents,
        run_key=key,
        results=rows,
        samples=SampleFile(file="", sha256="", rows=len(samples)),
        engine={
            "name": "lm_eval",
            "version": results.get("lm_eval_version"),
            "scoring_version": None,
        },
        model=_model(results),
        datasets={leaf: _dataset(own[leaf], results["n-samples"].get(leaf, {})) for leaf in own},
        settings=dict(config),
        environment={"transformers": results.get("transformers_version")},
        requests={"total": sum(len(sample["responses"]) for sample in samples)},
        paths={},
        started=datetime.fromtimestamp(results.get("date") or 0, UTC).isoformat(timespec="seconds"),
        seconds=float(results.get("total_evaluation_time_seconds") or 0),
        configs=own,
        groups={group: groups[group] for group in subgroups},
        chat=_chat(results),
        system_instruction=results.get("system_instruction"),
        generation={
            leaf: config["generation_kwargs"] for leaf, config in own.items() if _generates(config)
        },
    )


def _run_key(
    results: Mapping[str, Any], shots: Mapping[str, int], samples: Sequence[Mapping[str, Any]]
) -> str:
    """Two such files with the same key asked the same of their models.

    Judged by what was asked, not by the configuration, where functions have no stable name. Under a
    chat template the prompts are each model's own, and the documents and the policy decide.
    """
    is_chat, told = results.get("chat_template") is not None, _told(results)
    generates = any(_generates(config) for config in results["configs"].values())
    given = _model_args(results)
    asked = [
        [
            sample["task"],
            sample["doc_digest"],
            sample["target"],
            None if is_chat else sample["prompt"],
            sample["arguments"][0]["generation"] if sample["arguments"] else None,
        ]
        for sample in samples
    ]
    version, ours = results.get("lm_eval_version"), results.get("evalcore", {}).get("mode")
    return digest_of(
        {
            "semantics": AS_WE_DO if version == AS_WE_DO or ours == "compat" else ours or version,
            "shots": dict(shots),
            "asked": asked,
            "chat": results.get("fewshot_as_multiturn") if is_chat else None,
            "system_instruction": results.get("system_instruction"),
            **({"chat_arguments": told} if is_chat and told else {}),
            **({"thoughts": "cut"} if generates and cuts_thoughts(given) else {}),
            **(
                {"thinking_budget": given["thinking_budget"]}
                if generates and given.get("thinking_budget")
                else {}
            ),
        }
    )


def _told(results: Mapping[str, Any]) -> dict[str, Any]:
    """What the chat template was told besides the messages."""
    given = _model_args(results)
    thinks = given.get("enable_thinking")
    told: dict[str, Any] = TYPES["chat_template_args"](given.get("chat_template_args") or {})
    return told if thinks is None else {**told, "enable_thinking": thinks}


def _model_args(results: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the model; some versions write them as the command had them."""
    given = results["config"].get("model_args")
    return typed_pairs(given) if isinstance(given, str | Mapping) else {}


def _arguments(config: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """What the task's entry passes to a metric, and the filters, as far as they have a name."""
    entry: Mapping[str, Any] = next(
        (measure for measure in config.get("metric_list") or () if measure.get("metric") == metric),
        {},
    )
    passed = {key: value for key, value in entry.items() if key not in _NOT_PASSED}
    filters = re.sub(r" at 0x[0-9a-f]+", "", str(config.get("filter_list")))
    return {"metric": passed, "filters": filters}


_NOT_PASSED = ("metric", "aggregation", "higher_is_better")


def _without_metadata(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Among a task's metadata there are the arguments of the model."""
    return {
        name: {key: value for key, value in config.items() if key != "metadata"}
        for name, config in configs.items()
    }


def _within(name: str, groups: Mapping[str, Any]) -> list[str]:
    """The group and the groups inside it, from the whole to its parts."""
    if name not in groups:
        return []
    return [name, *(leaf for member in groups[name]["members"] for leaf in _within(member, groups))]


def _rows(results: Mapping[str, Any], task: str, whole: str, run: str) -> Iterator[ResultRow]:
    scores = results["results"].get(task, {})
    higher = results.get("higher_is_better", {}).get(task, {})
    for name, value in scores.items():
        metric, comma, filter = name.partition(",")
        if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stated = scores.get(f"{metric}_stderr,{filter}")
        stderr = float(stated) if isinstance(stated, int | float) else None
        bounds = around(float(value), normal_quantile(0.95) * (stderr or 0.0))
        yield ResultRow(
            task=task,
            subset="" if task == whole else task,
            metric=metric,
            filter=filter,
            value=float(value),
            stderr=stderr,
            low=bounds.low,
            high=bounds.high,
            interval="none" if stderr is None else "normal",
            n=scores.get("sample_count", {}).get(name) or scores.get("sample_len", 0),
            higher_is_better=higher.get(metric) is not False,
            comparability_key=comparability_key(
                run,
                docs_digest="",
                metric=metric,
                arguments=_arguments(results["configs"].get(task, {}), metric),
                filter=filter,
            ),
            compat_stderr=stderr,
        )


def _model(results: Mapping[str, Any]) -> dict[str, Any]:
    config = results["config"]
    tokens = {name: results.get(f"tokenizer_{name}_token") for name in ("bos", "eos", "pad")}
    return {
        "repository": results.get("model_name") or config.get("model"),
        "commit": config.get("model_sha") or None,
        "parameters": config.get("model_num_parameters"),
        "dtype": str(config.get("model_dtype")).removeprefix("torch."),
        "max_length": results.get("max_length"),
        "device": config.get("device"),
        "arguments": _model_args(results),
        "special_tokens": {
            name: None if token in (None, [None, "None"]) else (token[0], int(token[1]))
            for name, token in tokens.items()
        },
    }


def _dataset(config: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": config.get("dataset_path"),
        "name": config.get("dataset_name"),
        "split": config.get("test_split") or config.get("validation_split"),
        "commit": None,
        "documents": counts.get("original"),
    }


def _chat(results: Mapping[str, Any]) -> dict[str, Any] | None:
    template = results.get("chat_template")
    if not template:
        return None
    multiturn = bool(results.get("fewshot_as_multiturn"))
    return {
        "name": None,
        "text": template,
        "digest": digest_of(template),
        "multiturn": multiturn,
        "arguments": _told(results),
    }


def _generates(config: Mapping[str, Any]) -> bool:
    return config.get("output_type") == "generate_until" and "generation_kwargs" in config
