"""Runs on disk, in whichever of the known forms: a record with its samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evalcore.digest import digest_of_file
from evalcore.formats import table
from evalcore.formats.every_eval_ever import reader
from evalcore.formats.lmeval import reader as lmeval_reader
from evalcore.record import RunRecord, SampleFile, read_samples

MOST_HASHED = 200
"""Files of a folder that are read whole for one record, at most; the newest come first."""

_ENDING = ".parquet"
_MAGIC = b"PAR1"
_OF_SAMPLES = "doc_digest"
"""A column that samples have, and other tables hardly."""


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


class SamplesFinder:
    """Finds a record's samples: the parquet file beside it with the digest that the record names.

    Who downloads both gets them under names of the site's or the browser's making, such as
    `…_samples (1).parquet`; the digest stays. Each file is read once, however many records ask.
    """

    def __init__(self) -> None:
        self._digest = cache(digest_of_file)
        self._rows_of = cache(_rows_of)

    def find(self, folder: Path, stated: SampleFile) -> Path | None:
        """The file in `folder` with the stated digest.

        Without one that of the stated name, which is then not what it was; else None.
        """
        named = folder / Path(stated.file).name if stated.file else None
        if named and not named.is_file():
            named = None
        if named and self._digest(named) == stated.sha256:
            return named
        others = [path for path in self._alike(folder, stated) if path != named]
        found = (path for path in others[:MOST_HASHED] if self._digest(path) == stated.sha256)
        return next(found, named)

    def why_none(self, folder: Path, stated: SampleFile) -> str:
        """What to say, and to do, where there is none."""
        alike = [path.name for path in self._alike(folder, stated)]
        others = ""
        if alike:
            shown = ", ".join(alike[:3]) + (", …" if len(alike) > 3 else "")
            looked = f" ({MOST_HASHED} of them were read)" if len(alike) > MOST_HASHED else ""
            others = f"; with as many rows there is {shown}{looked}, which is another file"
        return (
            f"the samples are not beside the record: no file in {folder} has their SHA-256 "
            f"{stated.sha256}{others}. Put {stated.file or 'them'} into that folder, under any name"
        )

    def _alike(self, folder: Path, stated: SampleFile) -> list[Path]:
        """Tables of samples with as many rows, the newest first."""
        files = (path for path in folder.iterdir() if path.is_file())
        tables = (
            path for path in files if path.suffix.lower() == _ENDING or _begins_as_parquet(path)
        )
        alike = [path for path in tables if self._rows_of(path) == stated.rows]
        return sorted(alike, key=lambda path: path.stat().st_mtime, reverse=True)


def _rows_of(path: Path) -> int | None:
    """Rows of a table of samples; None for what is none. Only its end is read."""
    try:
        found = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return None
    return found.num_rows if _OF_SAMPLES in found.schema.names else None


def _begins_as_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
