"""Every Eval Ever 0.3.0: an aggregate JSON and an instance JSONL for each run.

Source: the format's JSON schemas (github.com/evaleval/every_eval_ever). It wants text in every
`additional_details`; our own record goes along there as JSON, so that reading it back is lossless.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from evalcore.digest import digest_of, digest_of_file
from evalcore.formats.every_eval_ever.instances import instances_of
from evalcore.formats.lmeval.results import folder_name
from evalcore.record import ResultRow, RunRecord
from evalcore.whole_file import write_whole

SCHEMA_VERSION = "0.3.0"

_SHARES = ("acc", "exact_match", "quasi_exact_match", "pass@", "avg@", "majority@", "f1")
"""Metrics whose names begin so lie between 0 and 1; of others the format is told no bounds."""

_CONFIDENCE = 0.95


def write(
    record: RunRecord,
    samples: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    organization: str,
    now: datetime,
) -> list[Path]:
    """Writes both files below `folder`/data, where that project wants them; returns their paths.

    `organization` is who ran it, as the format asks; `now` the time of writing.
    """
    path, lines = (folder / place for place in places_of(record))
    path.parent.mkdir(parents=True, exist_ok=True)
    aggregate = aggregate_of(record, organization=organization, now=now)
    written = []
    if samples:
        instances = list(instances_of(record, samples, aggregate["evaluation_id"]))
        write_whole(
            lines,
            "".join(json.dumps(instance, ensure_ascii=False) + "\n" for instance in instances),
        )
        aggregate["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": lines.relative_to(folder).as_posix(),
            "hash_algorithm": "sha256",
            "checksum": digest_of_file(lines),
            "total_rows": len(instances),
        }
        written.append(lines)
    text = json.dumps(aggregate, ensure_ascii=False, indent=1, allow_nan=False)
    write_whole(path, text)
    return [path, *written]


def places_of(record: RunRecord) -> tuple[PurePosixPath, PurePosixPath]:
    """Where that project wants the aggregate file and the instances, below its own folder."""
    developer, model = _developer(record), folder_name(record.model_name)
    place = PurePosixPath("data", folder_name(record.task), developer, model)
    name = _uuid(record)
    return place / f"{name}.json", place / f"{name}_samples.jsonl"


def aggregate_of(record: RunRecord, *, organization: str, now: datetime) -> dict[str, Any]:
    """The aggregate file, but for its pointer to the instances."""
    whole = record.as_json()
    del whole["results"]  # each stands at its own number
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{record.task}/{record.model_name}/{int(now.timestamp())}",
        "evaluation_timestamp": record.started,
        "retrieved_timestamp": str(now.timestamp()),
        "source_metadata": {
            "source_name": "evalcore",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": "third_party",
        },
        "eval_library": {
            "name": record.engine["name"],
            "version": str(record.engine["version"] or "unknown"),
            "additional_details": {
                "mode": record.mode,
                "run_key": record.run_key,
                "record": json.dumps(whole, ensure_ascii=False),
            },
        },
        "model_info": _model_info(record),
        "evaluation_results": [_result(record, row) for row in record.results],
    }


def _developer(record: RunRecord) -> str:
    owner, slash, _ = record.model_name.partition("/")
    return folder_name(owner) if slash and owner else "unknown"


def _uuid(record: RunRecord) -> str:
    """The same for the same run, in the form of a random one, which the format asks for."""
    named = digest_of([record.run_key, record.model, record.started, record.task])
    return str(uuid.UUID(hex=named[:32], version=4))


def _model_info(record: RunRecord) -> dict[str, Any]:
    return {
        "name": record.model_name.rpartition("/")[2],
        "id": record.model_name,
        "developer": _developer(record),
        **_computed_by(record),
    }


def _computed_by(record: RunRecord) -> dict[str, Any]:
    """Of a model behind a server nobody knows who runs it, nor whether its weights are open."""
    model = record.model
    beside = {kind: model[kind] for kind in ("adapter", "delta") if model.get(kind)}
    service = model.get("service") or {}
    details = {
        "deployment_type": "unknown" if service else "self_deployed",
        "model_availability": "unknown" if service else "open_weights",
        "commit": str(model.get("commit")),
        "dtype": str(model.get("dtype")),
        "parameters": str(model.get("parameters")),
        **({**beside, "base": str(model["repository"])} if beside else {}),
        **{f"service_{name}": str(fact) for name, fact in service.items()},
    }
    here = {"version": str(record.environment.get("transformers") or "unknown")}
    known = model.get("computed_by") or {"name": "transformers", **here}
    if service:
        known = {"name": service.get("owned_by", "unknown"), **service}
    engine = {name: str(known.get(name, "unknown")) for name in ("name", "version")}
    return {"inference_engine": engine, "additional_details": details}


def _result(record: RunRecord, row: ResultRow) -> dict[str, Any]:
    share = row.metric.startswith(_SHARES)
    return {
        "evaluation_result_id": "/".join([row.task, row.subset, row.metric, row.filter]),
        "evaluation_name": f"{row.task}: {row.subset}" if row.subset else row.task,
        "source_data": _source_data(record, row),
        "evaluation_timestamp": record.started,
        "metric_config": {
            "metric_id": row.metric,
            "metric_name": row.metric,
            "metric_unit": "proportion" if share else "points",
            "lower_is_better": not row.higher_is_better,
            "score_type": "continuous",
            "min_score": 0 if share else None,
            "max_score": 1 if share else None,
            "additional_details": {"filter": row.filter},
        },
        "score_details": {
            "score": row.value,
            "details": {"row": json.dumps(row.as_json(), ensure_ascii=False)},
            "uncertainty": _uncertainty(row),
        },
        "generation_config": {
            "generation_args": _generation(record.generation.get(row.task, {})),
            "additional_details": {
                "shots": json.dumps(record.shots),
                "chat_template": str(bool(record.chat)),
                "generation": json.dumps(record.generation.get(row.task, {})),
            },
        },
    }


def _source_data(record: RunRecord, row: ResultRow) -> dict[str, Any]:
    """A group has many sources: it is named, and its parts have theirs."""
    data = record.datasets.get(row.task)
    if data is None or not data.get("path"):
        return {"dataset_name": row.task, "source_type": "other"}
    if not data.get("commit"):
        return {"dataset_name": str(data["path"]), "source_type": "other"}
    return {
        "dataset_name": " ".join(str(part) for part in (data["path"], data["name"]) if part),
        "source_type": "hf_dataset",
        "hf_repo": data["path"],
        "hf_split": str(data["split"]),
        "samples_number": row.n,
        "additional_details": {"commit": data["commit"], "docs_digest": record.docs_digest},
    }


def _uncertainty(row: ResultRow) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {"num_samples": row.n}
    if row.stderr is not None:
        uncertainty["standard_error"] = {"value": row.stderr, "method": row.interval}
    if row.interval != "none":
        uncertainty["confidence_interval"] = {
            "lower": row.low,
            "upper": row.high,
            "confidence_level": _CONFIDENCE,
            "method": row.interval,
        }
    return uncertainty


def _generation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments that the format has a field for."""
    found: dict[str, Any] = {
        name: arguments[name]
        for name in ("temperature", "top_p", "top_k")
        if isinstance(arguments.get(name), int | float)
    }
    if isinstance(most := arguments.get("max_gen_toks"), int) and most > 0:
        found["max_tokens"] = most
    return found
