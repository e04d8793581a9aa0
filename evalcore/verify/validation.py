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
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evalcore.assembly import groups_of
from evalcore.errors import EvalError
from evalcore.keys import comparability_key, run_key_of, run_keys_of
from evalcore.record import LARGEST_GROUP, SAMPLE_SCHEMA, RunRecord
from evalcore.score.withholding import tasks_without_text
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import (
    config_digest,
    doc_digest,
    docs_digest,
    json_ready,
    resolved_config,
)
from evalcore.task.library.load import TaskLibrary
from evalcore.verify.recount import recount
from evalcore.verify.specs import SCORING, has_code

MEMORY = 4 << 30
"""Bytes for the whole check; 100,000 questions took 0.55 GB."""
MOST_QUESTIONS = 2_000_000
LARGEST_FILE = 8 << 30
"""Bytes of all questions, unpacked."""
LARGEST_FOOTER = 16 << 20
AT_ONCE = 20
"""Questions that are unpacked together: a page may hold one long text for all of them."""
MOST_PARTS = 2_000
"""Different tasks, and different subsets."""
LONGEST_TEXT = 4 << 20
"""Bytes; a prompt of a million tokens."""
LONGEST = {
    **{"task": 200, "split": 200, "doc_digest": 64, "subset": 200, "why_null": 20_000},
    **{"shots.split": 200, "filtered.filter": 200, "scores.metric": 200, "scores.filter": 200},
    **{"responses.key": 64, "responses.kind": 40, "responses.finish_reason": 40},
    **{"responses.path": 100, "responses.thinking": 40, "responses.token_texts": 1 << 16},
    **{"arguments.kind": 40, "images.digest": 64, "sounds.digest": 64, "images.thumbnail": 1 << 17},
}
"""Bytes of a text where it is no question's, by column; other texts may have `LONGEST_TEXT`."""
MOST = {
    **{"shots": 1_000, "choices": 10_000, "gold": 10_000, "arguments": 10_000, "images": 256},
    **{"sounds": 256, "filtered": 100, "scores": 200, "overlaps": 1_000, "loglikelihoods": 100_000},
    **{"responses": 100_000, "responses.token_ids": 1 << 18, "responses.token_logprobs": 1 << 18},
    "responses.token_texts": 1 << 18,
}
"""Elements of a list."""
HIGHEST_NUMBER = 10**9
"""Of a document."""
ALWAYS_THERE = ("task", "doc_id", "doc_digest", "doc", "arguments", "responses", "scores")
COUNTS = ("n_context_tokens", "n_truncated", "n_thought_tokens")
DEEPEST = 200
"""Lists within lists, and mappings within mappings."""
SAME_IN_BOTH = ("interval", "higher_is_better")
"""What a number says beside its figures."""


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
        _check_footer(samples)
        with pq.ParquetFile(samples) as file:
            _check_shape(record, file)
            digests = list(_checked(file, task, set(record.without_text)))
    except MemoryError:
        raise Contradiction("the sample file unpacks to more than a run has") from None
    except (OSError, pa.ArrowException) as problem:
        raise Contradiction(f"the sample file cannot be read: {_short(problem)}") from None
    if (found := docs_digest(digests)) != record.docs_digest:
        raise Contradiction(
            f"the record says that its questions are {record.docs_digest[:12]}, "
            f"the sample file has {found[:12]}"
        )
    _check_numbers(record, samples, library, task, seed)


def _check_numbers(
    record: RunRecord, samples: Path, library: TaskLibrary, task: TaskSpec | GroupSpec, seed: int
) -> None:
    if len({row.place for row in record.results}) != len(record.results):
        raise Contradiction("results: a number stands twice")
    if record.clean_results:
        # Which documents those are the file alone says: the text that was searched is not here.
        raise Contradiction("clean_results: no search of training text was asked for")
    again = recount(record, samples, library, seed=seed, spec=task)
    if again.differences:
        raise Contradiction(f"counted again: {_short(again.differences[0])}")
    by_code = any(
        has_code({k: resolved_config(leaf).get(k) for k in SCORING}) for leaf in task.leaves()
    )
    failed = [f"{failure.task} {failure.metric}" for failure in record.failures]
    for left in again.left:
        if not (by_code or record.without_text or any(left.startswith(one) for one in failed)):
            raise Contradiction(f"not counted again: {_short(left)}")
    for row in record.results:
        if (other := again.rows.get(row.place)) is None:
            continue
        for name in SAME_IN_BOTH:
            if (stated := getattr(row, name)) != (found := getattr(other, name)):
                raise Contradiction(
                    f"{row.metric}: {name} is {stated!s:.20}, and not {found!s:.20}"
                )
    _check_keys(record, samples, task)


def _check_keys(record: RunRecord, samples: Path, task: TaskSpec | GroupSpec) -> None:
    """Each number stands in the column of its own task, metric and documents.

    The keys come from the task's file and the questions, so that they are known of numbers, too,
    that the task's own code makes. Only of a task that is a class the file does not say what its
    metrics are given, and no class is made here: its numbers are left as they are.
    """
    run_keys, parts = run_keys_of(record, task), {part.name: part for part in task.parts()}
    scored = _documents_by_column(samples)
    columns = {(row.task, row.metric, row.filter) for row in record.results}
    for row in record.results:
        if (part := parts.get(row.task)) is None:
            raise Contradiction(f"results: {row.task:.80} was not asked")
        if isinstance(part, TaskSpec) and part.python_class:
            continue
        subset = row.subset if part is task and isinstance(part, TaskSpec) else ""
        keys = []
        for metric, arguments in _metrics_behind(row.metric, part):
            digests = [
                digest
                for leaf in part.leaves()
                if leaf is part or (leaf.name, metric, row.filter) in columns
                for digest in scored.get((leaf.name, metric, row.filter, subset), ())
            ]
            if digests:
                key = comparability_key(
                    run_keys[part.name],
                    docs_digest=docs_digest(digests),
                    metric=metric,
                    arguments=arguments,
                    filter=row.filter,
                )
                keys.append(key)
        if row.comparability_key not in keys:
            found = keys[0][:12] if keys else "any, since no document has a score of it"
            raise Contradiction(
                f"{row.metric} of {row.task}: comparability_key is {row.comparability_key:.12}, "
                f"and not {found}"
            )


def _documents_by_column(samples: Path) -> dict[tuple[str, str, str, str], list[str]]:
    """By task, metric, filter and subset the digests of the documents that have a score; those of
    all subsets together under the empty name."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    with pq.ParquetFile(samples) as file:
        for batch in file.iter_batches(columns=["task", "subset", "doc_digest", "scores"]):
            for row in batch.to_pylist():
                for score in row["scores"]:
                    if score["value"] is score["item"] is None:
                        continue
                    column = row["task"], score["metric"], score["filter"]
                    for subset in {"", row["subset"] or ""}:
                        found.setdefault((*column, subset), []).append(row["doc_digest"])
    return found


def _metrics_behind(name: str, part: TaskSpec | GroupSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """The metrics with their arguments that may have given a number of this name.

    An aggregation that gives several numbers has the name of each behind its metric's.
    """
    if isinstance(part, GroupSpec):
        yield name, {}
        return
    arguments = {entry.name: dict(entry.arguments) for entry in part.metric_list}
    yield name, arguments.get(name, {})
    words = name.split("/")
    for at in range(1, len(words)):
        metric = "/".join(words[:at])
        yield metric, {**arguments.get(metric, {}), "number": "/".join(words[at:])}


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
    if record.engine.get("name") != "evalcore" or record.settings.get("predict_only"):
        raise Contradiction("it is no run of this engine that was scored")
    if record.groups != json_ready(groups_of(task)):
        raise Contradiction("groups: they are not those of the task's file")
    if record.without_text != tasks_without_text(task):
        raise Contradiction("without_text: the task's file says otherwise")
    leaves = {leaf.name: resolved_config(leaf) for leaf in task.leaves()}
    if leaves.keys() != record.configs.keys():
        raise Contradiction("configs: they are of other tasks than those that were asked")
    for name, config in leaves.items():
        stated = record.configs[name]
        for key in sorted({*config, *stated} - {"metadata"}):  # a class states its own version
            if config.get(key) != stated.get(key):
                raise Contradiction(f"configs: {key} of {name} is not what its file says")
    return task


def _check_footer(samples: Path) -> None:
    """A file's last bytes say how long the description is that a reader takes into memory."""
    with samples.open("rb") as file:
        file.seek(max(0, samples.stat().st_size - 8))
        if int.from_bytes(file.read(4), "little") > LARGEST_FOOTER:
            raise Contradiction("the sample file describes itself at length")


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
    groups = (file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
    if not all(groups):
        raise Contradiction("the sample file has groups without a question")


def _checked(file: pq.ParquetFile, task: TaskSpec | GroupSpec, withheld: set[str]) -> Iterator[str]:
    """The digest of each question, once all that its row says has been looked at."""
    leaves, in_group = {leaf.name: leaf for leaf in task.leaves()}, isinstance(task, GroupSpec)
    parts: set[tuple[str, str | None]] = set()
    last: dict[str, int] = {}
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
            for column in batch.schema:
                _check_column(column.name, batch.column(column.name))
            if wrong := _missing_or_below_0(batch):
                raise Contradiction(wrong)
            for row, lengths in zip(
                batch.select(_LOOKED_AT).to_pylist(), _lengths(batch), strict=True
            ):
                wrong = _wrong_in(
                    row,
                    lengths,
                    leaves.get(row["task"]),
                    withheld=row["task"] in withheld,
                    in_group=in_group,
                )
                if not last.get(row["task"], -1) < row["doc_id"] < HIGHEST_NUMBER:
                    wrong = "its number does not follow that of the one before"
                if wrong:
                    raise Contradiction(f"document {row['doc_id']}: {wrong}")
                last[row["task"]] = row["doc_id"]
                parts.add((row["task"], row["subset"]))
                yield row["doc_digest"]
            if len(parts) > MOST_PARTS:
                raise Contradiction(f"it has more than {MOST_PARTS:,} parts")
        whole += size
        if whole > LARGEST_FILE:
            raise Contradiction(f"it unpacks to more than {LARGEST_FILE >> 30} GiB")


_LOOKED_AT = [
    *("task", "doc_id", "doc_digest", "doc", "answer", "cluster", "subset", "filtered", "pick"),
    *("repeats", "several_answers", "prompt"),
]


def _check_column(name: str, values: pa.Array) -> None:
    """Raises Contradiction for a text or a list that is longer than any, or lacks an element."""
    kind = values.type
    if pa.types.is_list(kind):
        longest = pc.max(pc.list_value_length(values)).as_py() or 0
        if longest > MOST[name]:
            raise Contradiction(f"{name} has {longest:,} elements, and {MOST[name]:,} is the most")
        inner = values.flatten()
        if inner.null_count and name != "loglikelihoods":
            raise Contradiction(f"{name}: an element is missing")
        _check_column(name, inner)
    elif pa.types.is_struct(kind):
        for field in kind:
            _check_column(f"{name}.{field.name}", values.field(field.name))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        longest, most = (
            pc.max(pc.binary_length(values)).as_py() or 0,
            LONGEST.get(name, LONGEST_TEXT),
        )
        if longest > most:
            raise Contradiction(f"{name} has {longest:,} bytes, and {most:,} is the most")


def _lengths(batch: pa.RecordBatch) -> Iterator[dict[str, int]]:
    """Of each question how many choices, arguments and responses it has, and different scores."""
    names = ("choices", "arguments", "responses")
    counted = [pc.fill_null(pc.list_value_length(batch.column(name)), 0) for name in names]
    scores = batch.column("scores").to_pylist()
    for *lengths, of_row in zip(*(one.to_pylist() for one in counted), scores, strict=True):
        named = {(score["metric"], score["filter"]) for score in of_row}
        yield {**dict(zip(names, lengths, strict=True)), "twice": len(of_row) - len(named)}


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


def _wrong_in(
    row: dict[str, Any],
    lengths: dict[str, int],
    task: TaskSpec | None,
    *,
    withheld: bool,
    in_group: bool,
) -> str:
    """What is wrong with a question; empty for nothing."""
    if task is None:
        return f"it is of task {row['task']:.80}, which was not asked"
    doc, wrong = _from_json("doc", row["doc"])
    answers = [] if row["answer"] is None else [("answer", row["answer"])]
    filtered = (("filtered", of_filter["values"]) for of_filter in row["filtered"] or ())
    for name, text in (*answers, *filtered):
        wrong = wrong or _from_json(name, text)[1]
    if wrong:
        return wrong
    if lengths["responses"] != lengths["arguments"] * (row["repeats"] or 1):
        return f"{lengths['responses']} responses to {lengths['arguments']} requests"
    if lengths["twice"]:
        return "a score stands twice"
    if row["pick"] is not None and not -1 <= row["pick"] < max(lengths["choices"], 1):
        return f"pick is {row['pick']} of {lengths['choices']} choices"
    if row["prompt"] is None or row["several_answers"] is None:
        return "it has no prompt, or does not say whether several answers are right"
    return "" if withheld else _wrong_in_document(row, doc, task, in_group=in_group)


def _wrong_in_document(
    row: dict[str, Any], doc: dict[str, Any], task: TaskSpec, *, in_group: bool
) -> str:
    """What is not as the question's document has it; empty for nothing."""
    if (found := doc_digest(doc)) != row["doc_digest"]:
        return f"doc_digest is {row['doc_digest'][:12]}, that of its document {found[:12]}"
    for name in ("cluster", "subset"):
        column = getattr(task.about, name)
        value = str(doc[column]) if column in doc else column
        if name == "subset" and in_group:
            value = value or task.name
        if row[name] != value:
            return f"{name} is {row[name]!s:.40}, and not {value!s:.40}"
    return ""


def _from_json(name: str, text: str) -> tuple[Any, str]:
    """The value that this column's text holds, and what is wrong with it; empty for nothing."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        return None, f"{name}: no JSON ({_short(problem)})"
    if name == "doc" and not isinstance(value, dict):
        return None, f"{name}: no document"
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        return None, f"{name}: it is nested more than {DEEPEST} times"
    return value, ""


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

    Prints as JSON what is wrong and of what kind; nothing where nothing is. Where a form was met
    that nobody foresaw, the traceback goes to standard error.
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
        # Of much that a file may say, nobody has said which form it has. Its frames without its
        # texts: those are the file's, and may be as long as it is.
        sys.stderr.writelines(traceback.format_tb(problem.__traceback__))
        said = f"it is not as an engine writes it ({type(problem).__name__}: {_short(problem)})"
        wrong = {"kind": "Contradiction", "said": said}
    print(json.dumps(wrong))  # noqa: T201


if __name__ == "__main__":
    main()
