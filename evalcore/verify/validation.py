"""Whether the two files of a run can be what an engine wrote: read `check` first.

A model's process writes them, and a hostile model can write what it likes. So nothing in them is
believed: neither a column's type, nor how large a page is when it is unpacked, nor that the record
is of the task that it names, nor a score. Run as a program, this is a process with little memory of
its own: what unpacks to more ends it, and not the worker that asks.
"""

from __future__ import annotations

import json
import resource
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evalcore.errors import EvalError
from evalcore.keys import run_key_of
from evalcore.record import LARGEST_GROUP, SAMPLE_SCHEMA, RunRecord
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import config_digest, docs_digest, resolved_config
from evalcore.task.library.load import TaskLibrary
from evalcore.verify.recount import recount
from evalcore.verify.specs import SCORING

MEMORY = 4 << 30
"""Bytes for the whole check; 600,000 questions take a half."""
MOST_QUESTIONS = 2_000_000
LARGEST_FILE = 32 << 30
"""Bytes of all questions, unpacked."""
AT_ONCE = 20
"""Questions that are unpacked together: a page may hold one long text for all of them."""
MOST_PARTS = 2_000
"""Different tasks, and different subsets; FLORES has 400."""
LONGEST = {"task": 200, "split": 200, "doc_digest": 64, "cluster": 2_000, "subset": 200}
"""Characters."""
ALWAYS_THERE = ("task", "doc_id", "doc_digest", "responses", "scores")
COUNTS = ("n_context_tokens", "n_truncated", "n_thought_tokens")
AS_JSON = ("doc", "answer")
DEEPEST = 100
"""Lists within lists, and mappings within mappings."""


class Contradiction(ValueError):
    """The files are not what an engine writes; the message says where."""


class OtherFiles(Contradiction):
    """The record is of other task files than those that are here."""


def check(record: RunRecord, samples: Path, library: TaskLibrary, *, seed: int) -> None:
    """Raises Contradiction where the record, its samples and the task do not belong together.

    `library` has the task as the run was asked. All questions are looked at; scores are computed
    again from responses as `recount` does it: all of few, of many those that `seed` draws. Scores
    that come from a task's own code are left as they are.
    """
    task = _task_of(record, library)
    try:
        with pq.ParquetFile(samples) as file:
            _check_shape(record, file)
            digests = list(_checked(file, {leaf.name for leaf in task.leaves()}))
    except MemoryError:
        raise Contradiction("the sample file unpacks to more than a run has") from None
    except (OSError, pa.ArrowException) as problem:
        raise Contradiction(f"the sample file cannot be read: {_short(problem)}") from None
    if (found := docs_digest(digests)) != record.docs_digest:
        raise Contradiction(
            f"the record says that its questions are {record.docs_digest[:12]}, "
            f"the sample file has {found[:12]}"
        )
    found_again = recount(record, samples, library, seed=seed)
    if found_again.differences:
        raise Contradiction(f"counted again: {_short(found_again.differences[0])}")
    for row in record.results:
        # The run keys of a group's parts are in no record.
        again = found_again.rows.get(row.place) if row.task == record.task else None
        if again is not None and again.comparability_key != row.comparability_key:
            raise Contradiction(
                f"{row.metric}: its comparability key is {row.comparability_key[:12]}, "
                f"what was asked gives {again.comparability_key[:12]}"
            )


def _task_of(record: RunRecord, library: TaskLibrary) -> TaskSpec | GroupSpec:
    """The task as the files here have it; the record says the same of it."""
    try:
        task = library.one(record.task)
    except EvalError as problem:
        raise OtherFiles(problem.reason) from None
    if config_digest(task) != record.config_digest:
        raise OtherFiles(f"{record.task}: its files here are others than those of the record")
    if run_key_of(record) != record.run_key:
        raise Contradiction("the record's own fields give another run key than the one it states")
    leaves = {leaf.name: resolved_config(leaf) for leaf in task.leaves()}
    if leaves.keys() != record.configs.keys():
        raise Contradiction("configs: they are of other tasks than those that were asked")
    for name, config in leaves.items():
        for key in SCORING:
            if config.get(key) != record.configs[name].get(key):
                raise Contradiction(f"configs: {key} of {name} is not what its file says")
    return task


def _check_shape(record: RunRecord, file: pq.ParquetFile) -> None:
    """What can be told before anything is unpacked."""
    schema = file.schema_arrow
    if schema.names != SAMPLE_SCHEMA.names:
        wrong = set(schema.names) ^ set(SAMPLE_SCHEMA.names)
        name = min(wrong, default="in another order")
        raise Contradiction(f"the sample file has other columns than an engine writes: {name}")
    for column in SAMPLE_SCHEMA:
        if not schema.field(column.name).type.equals(column.type):
            found = schema.field(column.name).type
            raise Contradiction(f"column {column.name} of the sample file is {_short(found)}")
    rows = file.metadata.num_rows
    if rows != record.samples.rows or not 0 < rows <= MOST_QUESTIONS:
        raise Contradiction(
            f"the sample file has {rows} questions, the record says {record.samples.rows}, "
            f"and {MOST_QUESTIONS:,} is the most"
        )


def _checked(file: pq.ParquetFile, tasks: set[str]) -> Iterator[str]:
    """The digest of each question, once all that its row says has been looked at."""
    parts: set[tuple[str, str | None]] = set()
    whole = 0
    for number in range(file.num_row_groups):
        size = 0
        for batch in file.iter_batches(AT_ONCE, row_groups=[number], use_threads=False):
            size += batch.nbytes
            if size > LARGEST_GROUP:
                raise Contradiction(
                    f"questions that are read together unpack to more than "
                    f"{LARGEST_GROUP >> 20} MiB"
                )
            if wrong := _missing_or_below_0(batch):
                raise Contradiction(wrong)
            for row in batch.select(_LOOKED_AT).to_pylist():
                if wrong := _wrong_in(row, tasks):
                    raise Contradiction(f"document {row['doc_id']}: {wrong}")
                parts.add((row["task"], row["subset"]))
                yield row["doc_digest"]
            if len(parts) > MOST_PARTS:
                raise Contradiction(f"it has more than {MOST_PARTS:,} parts")
        whole += size
        if whole > LARGEST_FILE:
            raise Contradiction(f"it unpacks to more than {LARGEST_FILE >> 30} GiB")


_LOOKED_AT = [*LONGEST, *AS_JSON, "doc_id", "filtered"]


def _missing_or_below_0(batch: pa.RecordBatch) -> str:
    """What is missing or below 0 in these questions; empty for nothing."""
    for name in ALWAYS_THERE:
        if batch.column(name).null_count:
            return f"a question has no {name}"
    responses = batch.column("responses").flatten()
    counts = {name: responses.field(name) for name in COUNTS} | {"doc_id": batch.column("doc_id")}
    for name, column in counts.items():
        if (least := pc.min(column).as_py()) is not None and least < 0:
            return f"{name} is {least} somewhere"
    return ""


def _wrong_in(row: dict[str, Any], tasks: set[str]) -> str:
    """What is wrong with a question; empty for nothing."""
    for name, most in LONGEST.items():
        if row[name] is not None and len(row[name]) > most:
            return f"{name} has {len(row[name]):,} characters, and {most:,} is the most"
    if row["task"] not in tasks:
        return f"it is of task {row['task']}, which was not asked"
    for name in AS_JSON:
        if row[name] is not None and (why := _not_json(name, row[name])):
            return f"{name}: {why}"
    for of_filter in row["filtered"] or ():
        if why := _not_json("filtered", of_filter["values"]):
            return f"filtered: {why}"
    return ""


def _not_json(name: str, text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        return f"no JSON ({_short(problem)})"
    if name == "doc" and not isinstance(value, dict):
        return "no document"
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        return f"it is nested more than {DEEPEST} times"
    return ""


def _depth(value: Any) -> int:
    """How deep lists and mappings lie within each other."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, list | dict)]:
        depth += 1
        level = [
            inner for one in level for inner in (one if isinstance(one, list) else [*one.values()])
        ]
    return depth


def _short(said: object) -> str:
    """An error's first line as one that a page can show."""
    return str(said).partition("\n")[0][:300]


def main() -> None:
    """Takes the record on standard input and the sample file and the folder of tasks as arguments.

    Prints as JSON what is wrong and of what kind; nothing where nothing is.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    samples, tasks = map(Path, sys.argv[1:])
    wrong = {}
    try:
        record = RunRecord.of(json.load(sys.stdin))
        check(record, samples, TaskLibrary([tasks]), seed=secrets.randbits(32))
    except Contradiction as problem:
        wrong = {"kind": type(problem).__name__, "said": str(problem)}
    except Exception as problem:
        # Of much that a file may say, nobody has said which form it has.
        said = f"it is not as an engine writes it ({type(problem).__name__}: {_short(problem)})"
        wrong = {"kind": "Contradiction", "said": said}
    print(json.dumps(wrong))  # noqa: T201


if __name__ == "__main__":
    main()
