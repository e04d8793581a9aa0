"""What a child hands over, at the one door: checked, and stored.

`store` is the story. A file is opened once, below the child's own folder, through no link; of the
record every field is what it should be; both files belong together, to the task and to the run.
"""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from math import isfinite
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Annotated, BinaryIO

from django.conf import settings
from django.db import DataError, IntegrityError
from pydantic import BaseModel, Field, StringConstraints, TypeAdapter, ValidationError

from evalcore.record import RunRecord
from evalcore.verify.validation import OtherFiles
from leaderboard.models import Artifact
from leaderboard.models.run import ErrorClass
from leaderboard.queue import claims, records
from leaderboard.samples import store as artifacts
from runners import sandboxed
from runners.devices import hardware
from runners.engine import Engine
from runners.failures import NO_ROOM, Failed, Taken, no_room
from runners.process import TaskDone
from runners.registration import persistently
from runners.watch import Watch

logger = logging.getLogger(__name__)

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


class OpenFields(BaseModel):
    """What pages read of the fields that a record leaves open; other keys in them are free."""

    datasets: dict[str, _Dataset]
    distribution: list[_Spread]
    energy: list[_Meter]
    model: _Model
    requests: _Requests
    samples: _File
    seconds: Amount
    timing: dict[str, Amount]


def store(watch: Watch, event: TaskDone, engine: Engine) -> None:
    """Check a finished task's files, put them into the store and its numbers into the database."""
    run, folder = watch.runs[event.task], engine.folder
    with _blame_task(event.task):
        with open_inside(folder, event.record) as file:
            # What is read is what is stored: the child could write into its file again.
            text = read_bounded(file)
        record = read_record(text)
        records.check(run, record)
        _check_documents(watch, record)
        with open_inside(folder, event.samples) as file:
            samples = artifacts.store_open(
                file,
                kind=Artifact.Kind.SAMPLES,
                rows=record.samples.rows,
                check=lambda copy: check_files(text, copy, partial(watch.attend, engine.child)),
            )
        files = [artifacts.store_open(io.BytesIO(text), kind=Artifact.Kind.RECORD), samples]
    way = sandboxed.way_of_machine()
    observed = {
        "network": way.network,
        "confinement": way.name,
        "hardware": hardware(watch.device),
    }
    record = dataclasses.replace(record, environment={**record.environment, **observed})
    try:
        with _blame_task(event.task):
            persistently(partial(claims.complete, watch.token, run, record, files))
    except claims.LeaseLost:
        raise Taken from None
    watch.end_run(event.task)
    logger.info("%s is done", run)


def _check_documents(watch: Watch, record: RunRecord) -> None:
    """A model's process does not say by itself which questions a column asks."""
    expected = watch.documents.get(record.task, record.docs_digest)
    if record.docs_digest != expected:
        raise ValueError(
            f"{record.task}: the record says that its questions are {record.docs_digest[:12]}, "
            f"the pinned data give {expected[:12]}"
        )


@contextmanager
def _blame_task(task: str) -> Iterator[None]:
    """What is wrong with a finished task's files, or keeps them from being stored, fails it."""
    try:
        yield
    except records.OtherTask as problem:
        message = f"{task}: the task files on this worker are not those of the queued version"
        raise Failed(ErrorClass.TASK, message, task) from problem
    except OSError as problem:
        if problem.errno in NO_ROOM:
            raise no_room(problem) from problem
        raise Failed(ErrorClass.INFRA, f"{task}: {problem}", task) from problem
    except (ValueError, TypeError, KeyError, AttributeError, DataError, IntegrityError) as problem:
        # Of much of a record nobody has answer which form it has.
        logger.warning("%s: what was handed over cannot be stored", task, exc_info=True)
        answer = str(problem).partition("\n")[0]
        message = answer if task in answer else f"{task}: {answer}"
        raise Failed(ErrorClass.INFRA, message, task) from problem


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
        _record_schema().validate_json(text, strict=True)
        _open_fields_schema().validate_json(text, strict=True)
        fields = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"record: {place}: {first['msg']}") from None
    except RecursionError:
        raise ValueError("a record that is nested too deeply") from None
    return RunRecord.of(fields)


@cache
def _record_schema() -> TypeAdapter[RunRecord]:
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
            answer, log = _answer_of(process, record, attend)
        finally:
            process.kill()
    if log:
        logger.warning("the check of a run's files: %s", log.decode(errors="replace"))
    if process.returncode or not answer:
        end = log.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(f"the check of its files ended with {process.returncode}: {end[:300]}")
    wrong = json.loads(answer)
    if wrong:
        raise (records.OtherTask if wrong["kind"] == OtherFiles.__name__ else ValueError)(
            wrong["said"]
        )


def _answer_of(
    process: subprocess.Popen[bytes], record: bytes | None, attend: Callable[[], None]
) -> tuple[bytes, bytes]:
    latest = monotonic() + CHECKED_WITHIN
    while True:
        try:
            return process.communicate(record, LOOKS_EACH)
        except subprocess.TimeoutExpired:
            record = None  # it is on its way
            attend()
        if monotonic() > latest:
            raise ValueError(f"the check of its files took {CHECKED_WITHIN / 60:.0f} minutes")


@cache
def _open_fields_schema() -> TypeAdapter[OpenFields]:
    return TypeAdapter(OpenFields)


def _finite(digits: str) -> float:
    return number if isfinite(number := float(digits)) else _no_number(digits)


def _no_number(name: str) -> float:
    raise ValueError(f"record: {name} is no number")


def _refused(name: str) -> ValueError:
    return ValueError(f"no file of the run: {PurePosixPath(name).name!r}")
