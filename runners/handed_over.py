"""Files that a child hands over: opened once, below its own folder, through no link; and the record
among them, of which every field is what it should be."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import isfinite
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Annotated, BinaryIO

from django.conf import settings
from pydantic import BaseModel, Field, StringConstraints, TypeAdapter, ValidationError

from evalcore.record import RunRecord
from evalcore.verify.validation import OtherFiles
from leaderboard.queue import records

RECORD_BYTES = 64 << 20
CHECKED_WITHIN = 1800.0
"""Seconds; a check of 14,000 questions took two."""
LOOKS_EACH = 0.5


Word = Annotated[str, StringConstraints(max_length=300)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Figure = Annotated[float, Field(allow_inf_nan=False)]
FileName = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]{0,250}$")
]


class _Dataset(BaseModel):
    path: Word
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
    documents: int
    split: Word
    name: Word | None


class _Meter(BaseModel):
    source: Word
    part: Word
    joules: Amount


class _Spread(BaseModel):
    metric: Word
    filter: Word
    k: int
    lowest: Figure
    median: Figure
    highest: Figure
    mean: Figure
    sd: Figure | None


class _Model(BaseModel):
    architecture: Word = ""
    bos_policy: Word = ""
    max_length: int = 0
    parameters: int = 0
    softmax_dtype: Word = ""
    tokenizer_digest: Word = ""
    truncation_policy: Word = ""
    vocabulary: int | None = None


class _Requests(BaseModel):
    total: int
    journalled: int
    truncated: int


class _File(BaseModel):
    file: FileName


class Shapes(BaseModel):
    """What pages read of the fields that a record leaves open; other keys in them are free."""

    datasets: dict[str, _Dataset]
    distribution: list[_Spread]
    energy: list[_Meter]
    model: _Model
    requests: _Requests
    samples: _File
    seconds: Amount
    timing: dict[str, Amount]


@contextmanager
def open_inside(folder: Path, name: str) -> Iterator[BinaryIO]:
    """The regular file `name` (below `folder`, as the child wrote it) for reading.

    The descriptor is the file that was checked: what lies under the name later does not matter.
    Raises ValueError where it is no such file, OSError where it cannot be read.
    """
    try:
        parts = PurePosixPath(name).relative_to(folder).parts
    except ValueError:
        parts = ("..",)
    if not parts or ".." in parts:
        raise _refused(name)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts):
            kind = os.O_NONBLOCK if number == len(parts) - 1 else os.O_DIRECTORY
            try:
                inner = os.open(part, flags | kind, dir_fd=here)
            except OSError:
                raise _refused(name) from None
            os.close(here)
            here = inner
        if not stat.S_ISREG(os.fstat(here).st_mode):
            raise _refused(name)
        with os.fdopen(os.dup(here), "rb") as file:
            yield file
    finally:
        os.close(here)


def read_bounded(file: BinaryIO, most: int = RECORD_BYTES) -> bytes:
    """All of a file. Raises ValueError for one that no evaluation writes so large."""
    text = file.read(most + 1)
    if len(text) > most:
        raise ValueError(f"a record of more than {most >> 20} MiB")
    return text


def read_record(text: bytes) -> RunRecord:
    """The record in this JSON. Raises ValueError for one that no engine writes: a field of another
    type, a number that is none. What the numbers say is for `leaderboard.queue.records`."""
    try:
        _shape().validate_json(text, strict=True)
        _shapes().validate_json(text, strict=True)
        fields = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"record: {place}: {first['msg']}") from None
    except RecursionError:
        raise ValueError("a record that is nested too deeply") from None
    return RunRecord.of(fields)


@cache
def _shape() -> TypeAdapter[RunRecord]:
    return TypeAdapter(RunRecord)


def check_files(record: bytes, samples: Path, attend: Callable[[], None]) -> None:
    """Whether a record and its sample file belong together and to the task that is here.

    A process of its own looks, with little memory: `evalcore.verify.validation` says at what.
    Meanwhile `attend` is called again and again. Raises records.OtherTask for other task files than
    these, ValueError for files that no engine writes.
    """
    command = [sys.executable, "-m", "evalcore.verify.validation", str(samples)]
    with subprocess.Popen(
        [*command, str(settings.PLUMBLINE_TASKS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            said, log = _answer_of(process, record, attend)
        finally:
            process.kill()
    if process.returncode or not said:
        end = log.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(f"the check of its files ended with {process.returncode}: {end[:300]}")
    wrong = json.loads(said)
    if wrong:
        raise (records.OtherTask if wrong["kind"] == OtherFiles.__name__ else ValueError)(
            wrong["said"]
        )


def _answer_of(
    process: subprocess.Popen[bytes], given: bytes | None, attend: Callable[[], None]
) -> tuple[bytes, bytes]:
    latest = monotonic() + CHECKED_WITHIN
    while True:
        try:
            return process.communicate(given, LOOKS_EACH)
        except subprocess.TimeoutExpired:
            given = None  # it is on its way
            attend()
        if monotonic() > latest:
            raise ValueError(f"the check of its files took {CHECKED_WITHIN / 60:.0f} minutes")


@cache
def _shapes() -> TypeAdapter[Shapes]:
    return TypeAdapter(Shapes)


def _finite(digits: str) -> float:
    return number if isfinite(number := float(digits)) else _no_number(digits)


def _no_number(name: str) -> float:
    raise ValueError(f"record: {name} is no number")


def _refused(name: str) -> ValueError:
    return ValueError(f"no file of the run: {PurePosixPath(name).name!r}")
