"""Runs on disk, in whichever of the known forms: a record with its samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcore.formats import table
from evalcore.formats.every_eval_ever import reader
from evalcore.formats.lmeval import reader as lmeval_reader
from evalcore.formats.samples_file import SamplesFinder
from evalcore.record import RunRecord, read_samples


@dataclass(frozen=True)
class Run:
    """One task or group of one evaluation, read from a file."""

    record: RunRecord
    samples: Sequence[dict[str, Any]]
    """Empty where the file came without samples."""
    source: Path
    samples_path: Path | None = None
    """The file of the samples, where they lie beside a record of ours."""
    why_without: str = "there are no samples beside it"
    """What is said where `samples` is empty."""


def read_runs(paths: Iterable[Path]) -> Iterator[Run]:
    """The runs of files and folders. Raises ValueError naming a file that is none.

    Of a folder that holds records of ours, these: the other files in it say less of the same runs.
    """
    finder = SamplesFinder()
    for path in paths:
        found = _files_in(path) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"{path}: no record_*.json and no results_*.json in it")
        for file in found:
            yield from _read(file, finder)


_KINDS = (
    ("record*.json", "*_record*.json"),
    ("results_*.json",),
    ("run_*.parquet",),
    ("*.json",),
)
"""Names of files, those that say most first; the second is what the site calls a record."""


def _files_in(folder: Path) -> list[Path]:
    for patterns in _KINDS:
        if found := {path for pattern in patterns for path in folder.rglob(pattern)}:
            return sorted(found)
    return []


def _read(path: Path, finder: SamplesFinder) -> Iterator[Run]:
    if path.suffix == ".parquet":
        record, rows = table.read_run(path)
        yield Run(record, rows, path)
        return
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if isinstance(content, dict) and "run_key" in content:
        record = RunRecord.of(content)
        samples = finder.find(path.parent, record.samples)
        if samples is None:
            why = finder.why_none(path.parent, record.samples)
            yield Run(record, [], path, why_without=why)
        else:
            yield Run(record, list(read_samples(samples)), path, samples)
    elif lmeval_reader.is_results(content):
        for record, rows in lmeval_reader.read(path):
            (leaf, *_) = record.configs
            why = f"there is no {lmeval_reader.samples_path(path, leaf).name} beside it"
            yield Run(record, rows, path, why_without=why)
    elif reader.is_results(content):
        record, rows = reader.read(path)
        yield Run(record, rows, path)
    else:
        raise ValueError(
            f"{path} is no record of ours, no results file of lm-evaluation-harness and no "
            "aggregate of Every Eval Ever"
        )
