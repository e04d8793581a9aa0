"""Every Eval Ever 0.3.0 read as a record and its samples.

Files that we wrote come back whole. Of other files the numbers with their uncertainty, the prompts,
references and scores come; what they do not say stays empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcore.digest import digest_of
from evalcore.formats.every_eval_ever.instances import sample_of
from evalcore.formats.foreign import foreign_sample
from evalcore.keys import comparability_key
from evalcore.record import ResultRow, RunRecord, SampleFile


def is_results(content: Any) -> bool:
    """Whether a JSON file's content is an aggregate file."""
    return isinstance(content, dict) and {"evaluation_id", "evaluation_results"} <= content.keys()


def read(path: Path) -> tuple[RunRecord, list[dict[str, Any]]]:
    """The run of an aggregate file, with the instances beside it if they are there.

    Raises ValueError for a file of another form.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not is_results(content):
        raise ValueError(f"{path} is no aggregate file of Every Eval Ever")
    instances = list(_instances(path, content))
    samples = _samples(instances)
    return _record(content, len(samples)), samples


def _instances(path: Path, content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    pointer = content.get("detailed_evaluation_results")
    beside = path.with_name(f"{path.stem}_samples.jsonl")
    if pointer is None or not beside.is_file():
        return
    with beside.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _samples(instances: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One sample for each document: of ours the one that went along, of others what is said."""
    whole = [
        sample_of(instance["metadata"]["sample"])
        for instance in instances
        if "sample" in (instance.get("metadata") or {})
    ]
    if whole:
        return whole
    by_document: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for instance in instances:
        by_document.setdefault((instance["evaluation_name"], instance["sample_id"]), []).append(
            instance
        )
    return [_sample(lines, place) for place, lines in enumerate(by_document.values())]


def _sample(lines: Sequence[Mapping[str, Any]], place: int) -> dict[str, Any]:
    first = lines[0]
    prompt = first["input"].get("formatted") or first["input"]["raw"]
    scores = [
        {
            "metric": line.get("evaluation_result_id") or line["evaluation_name"],
            "filter": "none",
            "value": float(line["evaluation"]["score"]),
            "item": None,
        }
        for line in lines
    ]
    return foreign_sample(
        task=first["evaluation_name"],
        doc_id=place,
        doc_digest=digest_of([first["input"]["raw"], first["input"]["reference"]]),
        doc=json.dumps({"sample_id": first["sample_id"], **first["input"]}),
        prompt=prompt,
        choices=first["input"].get("choices") or [],
        target="; ".join(first["input"]["reference"]),
        answer=json.dumps(first["input"]["reference"]),
        correct=scores[0]["value"],
        scores=scores,
    )


def _record(content: Mapping[str, Any], n_samples: int) -> RunRecord:
    library = content["eval_library"]
    whole = library.get("additional_details", {}).get("record")
    results = content["evaluation_results"]
    if whole:
        rows = [json.loads(result["score_details"]["details"]["row"]) for result in results]
        return RunRecord.of({**json.loads(whole), "results": rows})
    name = results[0]["evaluation_name"] if results else content["evaluation_id"]
    key = digest_of([library, content["evaluation_id"]])
    rows = [_row(result, key) for result in results]
    unsaid = ("commit", "dtype", "parameters", "device", "max_length")
    return RunRecord(
        task=name,
        version="unknown",
        benchmark=name,
        style="",
        primary_metric=rows[0].metric if rows else "",
        chance=None,
        shots=0,
        shot_rule="unknown",
        shot_seed=None,
        mode="unknown",
        limit=None,
        config_digest=key,
        docs_digest="",
        run_key=key,
        results=rows,
        samples=SampleFile(file="", sha256="", rows=n_samples),
        engine={**library, "scoring_version": None},
        model={
            "repository": content["model_info"]["id"],
            **dict.fromkeys(unsaid),
            "special_tokens": {},
        },
        datasets={},
        settings={"fewshot_seed": None},
        environment={},
        requests={"total": 0},
        paths={},
        started=content.get("evaluation_timestamp") or "1970-01-01T00:00:00+00:00",
        seconds=0.0,
    )


def _row(result: Mapping[str, Any], run: str) -> ResultRow:
    config, details = result["metric_config"], result["score_details"]
    metric = config.get("metric_id") or config.get("metric_name") or "score"
    uncertainty = details.get("uncertainty") or {}
    stderr = (uncertainty.get("standard_error") or {}).get("value")
    bounds = uncertainty.get("confidence_interval") or {}
    return ResultRow(
        task=result["evaluation_name"],
        subset="",
        metric=metric,
        filter=(config.get("additional_details") or {}).get("filter", "none"),
        value=details["score"],
        stderr=stderr,
        low=bounds.get("lower", details["score"]),
        high=bounds.get("upper", details["score"]),
        interval=bounds.get("method", "unknown") if bounds else "none",
        n=uncertainty.get("num_samples", 0),
        higher_is_better=not config["lower_is_better"],
        comparability_key=comparability_key(
            run, docs_digest="", metric=metric, arguments={}, filter="none"
        ),
    )
