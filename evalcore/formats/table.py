"""Parquet: all numbers of any runs as one flat table; a run's samples with its record inside.

The record goes along in the schema's metadata, so that one file is the whole run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evalcore.lengths import NAMES
from evalcore.record import (
    ROWS_PER_GROUP,
    SAMPLE_SCHEMA,
    ResultRow,
    RunRecord,
    samples_table,
)
from evalcore.whole_file import whole_file

_RECORD = b"evalcore.record"


def write_results(records: Sequence[RunRecord], path: Path) -> None:
    """One row for each number."""
    rows = [
        {
            "model": record.model_name,
            "commit": record.model["commit"],
            "dtype": record.model["dtype"],
            "adapter": record.model.get("adapter"),
            "run": record.task,
            **{name: value for name, value in vars(row).items() if name != "lengths"},
            **_lengths(row),
            "version": record.version,
            "shots": json.dumps(record.shots),
            "mode": record.mode,
            "limit": record.limit,
            "run_key": record.run_key,
            "engine": record.engine["name"],
            "engine_version": record.engine["version"],
            "started": record.started,
        }
        for record in records
        for row in record.results
    ]
    with whole_file(path) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows), unfinished, compression="zstd")


def _lengths(row: ResultRow) -> dict[str, int | None]:
    """Empty where nobody counted."""
    return asdict(row.lengths) if row.lengths else dict.fromkeys(NAMES)


def write_run(record: RunRecord, samples: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One row for each sample, the record in the schema's metadata."""
    text = json.dumps(record.as_json(), ensure_ascii=False).encode()
    schema = SAMPLE_SCHEMA.with_metadata({_RECORD: text})
    table = samples_table(samples, schema)
    with whole_file(path) as unfinished:
        pq.write_table(table, unfinished, compression="zstd", row_group_size=ROWS_PER_GROUP)


def read_run(path: Path) -> tuple[RunRecord, list[dict[str, Any]]]:
    """Raises ValueError for a parquet file without a record in it."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    text = (table.schema.metadata or {}).get(_RECORD)
    if text is None:
        raise ValueError(f"{path} has no record in it: `evalcore convert --to parquet` writes such")
    return RunRecord.of(json.loads(text)), table.to_pylist()
