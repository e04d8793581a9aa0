"""The run record and the sample record: the only formats between processes (schema_version 1).

A record is one JSON file for one task or group of one evaluation; its samples are one parquet file
beside it. Fields are only ever added; a reader refuses a schema_version that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from evalcore.digest import digest_of_file, without_half_characters
from evalcore.lengths import Lengths
from evalcore.model.base import name_of
from evalcore.task.asking.shot_rule import Shots
from evalcore.whole_file import whole_file, write_whole

SCHEMA_VERSION = 1
ROWS_PER_GROUP = 500
LARGEST_GROUP = 256 << 20
"""Bytes, unpacked, of questions that are read together."""


class Place(NamedTuple):
    """What tells a number from the others of its record; see `ResultRow`."""

    task: str
    subset: str
    metric: str
    filter: str


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One number, with what is needed to read it."""

    task: str
    """The leaf task or (sub)group that was measured."""
    subset: str
    """Empty for the record's own task or group; else the part that this number is about."""
    metric: str
    filter: str
    value: float
    stderr: float | None
    low: float
    high: float
    interval: str
    """How the 95 % interval was made: normal, clustered, wilson, pooled, bootstrap or none."""
    n: int
    higher_is_better: bool
    comparability_key: str
    compat_stderr: float | None = None
    """lm-evaluation-harness's own standard error, for its files; None where it prints N/A."""
    lengths: Lengths | None = None
    """What was cut short of that which it is about; None in records from before it was counted."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ResultRow:
        counts = fields.get("lengths")
        return cls(**{**fields, "lengths": None if counts is None else Lengths(**counts)})

    def as_json(self) -> dict[str, Any]:
        """Records from before lengths were counted are what they were."""
        found = {name: value for name, value in vars(self).items() if name != "lengths"}
        return found if self.lengths is None else {**found, "lengths": self.lengths.as_json()}

    @property
    def place(self) -> Place:
        return Place(self.task, self.subset, self.metric, self.filter)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A metric that could not be computed; everything else of the record stands."""

    task: str
    metric: str
    filter: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SampleFile:
    """The samples behind a record: a parquet file in the record's folder."""

    file: str
    sha256: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything about one task or group of one evaluation but for the samples themselves."""

    task: str
    version: str
    benchmark: str
    style: str
    primary_metric: str
    chance: float | None
    shots: Shots
    shot_rule: str
    shot_seed: int | None
    mode: str
    limit: float | None
    config_digest: str
    docs_digest: str
    run_key: str
    results: list[ResultRow]
    samples: SampleFile
    engine: dict[str, Any]
    model: dict[str, Any]
    datasets: dict[str, dict[str, Any]]
    """By leaf task: path, name, split and commit (None where nobody read one from a Hub)."""
    settings: dict[str, Any]
    environment: dict[str, Any]
    requests: dict[str, int]
    """Counts: total, journalled (answered by an earlier process), truncated; of what was written as
    `Lengths` has them, where they are not 0."""
    paths: dict[str, int]
    """How many responses each execution path gave."""
    started: str
    seconds: float
    configs: dict[str, Any] = field(default_factory=dict)
    """By leaf task: its resolved configuration."""
    groups: dict[str, Any] = field(default_factory=dict)
    """By group, from the whole to its parts: alias, version and the names of its members."""
    failures: list[Failure] = field(default_factory=list)
    """Metrics that could not be computed, and why."""
    chat: dict[str, Any] | None = None
    """The chat template (name, digest, text), how examples stand in it, what it is told besides
    (arguments), how many conversations so far it wrote without their system turn (without_system)
    or others' (left_out, by role), and whether it reads lists of parts; None: plain text."""
    system_instruction: str | None = None
    generation: dict[str, Any] = field(default_factory=dict)
    """By leaf task that generates: the generation arguments in force."""
    execution: dict[str, Any] = field(default_factory=dict)
    """By kind of request: how the model was computed and why so, and whether memory ran short."""
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds, which add up to `seconds`: prompts, tokens, answers (of what was asked together its
    share), scores. Work on the next benchmark goes on meanwhile, so a whole command may take less.
    Of the command, where it was one: load (the model), first_forward (from its start)."""
    energy: list[dict[str, Any]] = field(default_factory=list)
    """What the machine's counters say of the time in which the model answered: source, part of the
    machine and joules, of what was asked together its share. Empty where nothing measured it, or
    where an earlier process had answered some."""
    clean_results: list[ResultRow] = field(default_factory=list)
    """The numbers on the documents without overlap, where training text was searched."""
    distribution: list[dict[str, Any]] = field(default_factory=list)
    """Of one task under several prompts: by metric and filter how its scores are distributed over
    them (k, lowest, median, highest, mean, sd)."""
    without_text: list[str] = field(default_factory=list)
    """Leaf tasks whose samples carry ids, digests and scores only (`publish_samples: ids`)."""
    unanswerable: dict[str, int] = field(default_factory=dict)
    """By leaf task: documents whose right answer is none of the choices; compat scores them 0."""
    schema_version: int = SCHEMA_VERSION

    @property
    def model_name(self) -> str:
        """Under which name the numbers are filed (`evalcore.model.base.name_of`)."""
        put_on = self.model.get("adapter") or self.model.get("delta")
        return name_of(str(self.model["repository"]), put_on)

    def own_results(self) -> list[ResultRow]:
        """The numbers of the whole task or group."""
        return [row for row in self.results if row.task == self.task and not row.subset]

    def as_json(self) -> dict[str, Any]:
        rows = {
            "results": [row.as_json() for row in self.results],
            "clean_results": [row.as_json() for row in self.clean_results],
        }
        return {**asdict(self), **rows}

    def write(self, path: Path) -> None:
        """Raises InfraError where it cannot be written; nothing is left then."""
        text = json.dumps(self.as_json(), ensure_ascii=False, indent=1, allow_nan=False)
        write_whole(path, text)

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """Raises ValueError for another schema_version or for fields that do not fit it."""
        return cls.of(json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> RunRecord:
        if fields.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"record: schema_version is {fields.get('schema_version')!r}, "
                f"this version reads {SCHEMA_VERSION}"
            )
        try:
            return cls(
                **{
                    **fields,
                    "results": [ResultRow.of(row) for row in fields["results"]],
                    "samples": SampleFile(**fields["samples"]),
                    "failures": [Failure(**failure) for failure in fields.get("failures", [])],
                    "clean_results": [ResultRow.of(row) for row in fields.get("clean_results", [])],
                }
            )
        except (TypeError, KeyError) as problem:
            raise ValueError(f"record: {problem}") from problem


def _list_of(**fields: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct(fields.items()))


_TEXT, _COUNT, _NUMBER = pa.string(), pa.int32(), pa.float64()
_RESPONSES = _list_of(
    key=_TEXT,
    kind=_TEXT,
    loglikelihood=_NUMBER,
    is_greedy=pa.bool_(),
    token_ids=pa.list_(_COUNT),
    token_logprobs=pa.list_(pa.float32()),
    n_context_tokens=_COUNT,
    n_truncated=_COUNT,
    text=_TEXT,
    finish_reason=_TEXT,
    path=_TEXT,
    # Of the tokens of a continuation, each by itself; null where the model does not show them.
    token_texts=pa.list_(_TEXT),
    # What a model thought before its text, and how its thinking ended; null where it did not.
    thoughts=_TEXT,
    n_thought_tokens=_COUNT,
    thinking=_TEXT,
)
SAMPLE_SCHEMA = pa.schema(
    [
        ("schema_version", pa.int16()),
        ("task", _TEXT),
        ("split", _TEXT),
        ("doc_id", _COUNT),
        ("doc_digest", _TEXT),
        ("doc", _TEXT),  # JSON with the document's own order of keys
        ("cluster", _TEXT),
        ("subset", _TEXT),
        ("shots", _list_of(split=_TEXT, row=_COUNT)),
        ("prompt", _TEXT),
        ("choices", pa.list_(_TEXT)),
        ("gold", pa.list_(_COUNT)),
        ("target", _TEXT),
        ("answer", _TEXT),  # JSON of what doc_to_target gave: text, a position, or a list
        ("choices_are_contexts", pa.bool_()),
        # Whether it was scored as a list of right answers: in compat document 0 decides for all.
        ("several_answers", pa.bool_()),
        ("pick", _COUNT),  # the choice that the primary metric took for the answer
        ("correct", _NUMBER),  # the primary metric's score; null where unmeasured
        # `generation` is JSON; null but for generate_until
        ("arguments", _list_of(context=_TEXT, continuation=_TEXT, kind=_TEXT, generation=_TEXT)),
        ("repeats", pa.int16()),  # responses to each of the arguments, which follow one another
        ("responses", _RESPONSES),
        # by filter: JSON of what it made of the responses, one entry per argument
        ("filtered", _list_of(filter=_TEXT, values=_TEXT)),
        # `item` is JSON of what is aggregated where it is no number
        ("scores", _list_of(metric=_TEXT, filter=_TEXT, value=_NUMBER, item=_TEXT)),
        ("why_null", _TEXT),
        ("contaminated", pa.bool_()),  # null where no training text was searched
        ("overlaps", pa.list_(_TEXT)),  # the passages that the training text has, too
        # In the order of the prompt: `thumbnail` is a small JPEG; null where there is no image.
        ("images", _list_of(digest=_TEXT, width=_COUNT, height=_COUNT, thumbnail=pa.binary())),
        ("sounds", _list_of(digest=_TEXT, seconds=_NUMBER, rate=_COUNT)),  # in the same way
        # Of each response, in their order, what `responses` has; null for what a model wrote.
        # Written along for those who read tables: older files lack it, and nothing here reads it.
        ("loglikelihoods", pa.list_(_NUMBER)),
    ]
)


def samples_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema = SAMPLE_SCHEMA) -> pa.Table:
    """Samples (dicts with the fields of SAMPLE_SCHEMA) as a table, with its flat columns."""
    flat = [{**row, "loglikelihoods": _loglikelihoods(row)} for row in rows]
    try:
        return pa.Table.from_pylist(flat, schema)
    except UnicodeEncodeError:  # half a character, of a task's own code
        return pa.Table.from_pylist([_whole_characters(row) for row in flat], schema)


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return without_half_characters(value)
    if isinstance(value, Mapping):
        return {name: _whole_characters(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_characters(entry) for entry in value]
    return value


def _loglikelihoods(row: Mapping[str, Any]) -> list[float | None]:
    return [
        None if response["kind"] == "generate_until" else response["loglikelihood"]
        for response in row.get("responses", ())
    ]


def write_samples(path: Path, rows: Iterable[Mapping[str, Any]]) -> SampleFile:
    """Write samples (dicts with the fields of SAMPLE_SCHEMA) in row groups that page quickly.

    Raises InfraError where they cannot be written; nothing is left then.
    """
    rows = iter(rows)
    count = 0
    with whole_file(path) as unfinished:
        with pq.ParquetWriter(unfinished, SAMPLE_SCHEMA, compression="zstd") as writer:
            while block := list(islice(rows, ROWS_PER_GROUP)):
                table = samples_table(block)
                # Long texts in smaller groups, each far below the most.
                pieces = -(-table.nbytes // (LARGEST_GROUP // 4))
                writer.write_table(table, row_group_size=-(-len(block) // pieces))
                count += len(block)
        digest = digest_of_file(unfinished)
    return SampleFile(file=path.name, sha256=digest, rows=count)


def read_samples(
    path: Path | pa.NativeFile, fields: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Samples one after the other, never more than one block of them in memory.

    `fields`: those that are wanted of each; by default all.
    """
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_PER_GROUP, columns=fields):
            yield from batch.to_pylist()
