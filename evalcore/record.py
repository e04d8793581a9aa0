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
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evalcore.digest import digest_of, digest_of_file
from evalcore.errors import TaskError
from evalcore.model.base import SCORING_VERSION
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.digest import config_digest
from evalcore.task.fewshot import Draw

SCHEMA_VERSION = 1
ROWS_PER_GROUP = 500

Shots = int | Mapping[str, int]
"""Shots of all leaf tasks, or shots by leaf task where they differ."""


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
    """Counts: total, journalled (answered by an earlier process), truncated."""
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
    """The chat template (name, digest, text), how examples stand in it, and how many conversations
    so far it took only without their system turn; None: plain text."""
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
    schema_version: int = SCHEMA_VERSION

    def own_results(self) -> list[ResultRow]:
        """The numbers of the whole task or group."""
        return [row for row in self.results if row.task == self.task and not row.subset]

    def write(self, path: Path) -> None:
        text = json.dumps(asdict(self), ensure_ascii=False, indent=1, allow_nan=False)
        path.write_text(text, encoding="utf-8")

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
                    "results": [ResultRow(**row) for row in fields["results"]],
                    "samples": SampleFile(**fields["samples"]),
                    "failures": [Failure(**one) for one in fields.get("failures", [])],
                    "clean_results": [ResultRow(**row) for row in fields.get("clean_results", [])],
                }
            )
        except (TypeError, KeyError) as problem:
            raise ValueError(f"record: {problem}") from problem


_RESPONSE = pa.struct(
    [
        ("key", pa.string()),
        ("kind", pa.string()),
        ("loglikelihood", pa.float64()),
        ("is_greedy", pa.bool_()),
        ("token_ids", pa.list_(pa.int32())),
        ("token_logprobs", pa.list_(pa.float32())),
        ("n_context_tokens", pa.int32()),
        ("n_truncated", pa.int32()),
        ("text", pa.string()),
        ("finish_reason", pa.string()),
        ("path", pa.string()),
        # Of the tokens of a continuation, each by itself; null where the model does not show them.
        ("token_texts", pa.list_(pa.string())),
    ]
)
SAMPLE_SCHEMA = pa.schema(
    [
        ("schema_version", pa.int16()),
        ("task", pa.string()),
        ("split", pa.string()),
        ("doc_id", pa.int32()),
        ("doc_digest", pa.string()),
        ("doc", pa.string()),  # JSON with the document's own order of keys
        ("cluster", pa.string()),
        ("subset", pa.string()),
        ("shots", pa.list_(pa.struct([("split", pa.string()), ("row", pa.int32())]))),
        ("prompt", pa.string()),
        ("choices", pa.list_(pa.string())),
        ("gold", pa.list_(pa.int32())),
        ("target", pa.string()),
        ("answer", pa.string()),  # JSON of what doc_to_target gave: text, a position, or a list
        ("choices_are_contexts", pa.bool_()),
        ("pick", pa.int32()),  # the choice that the primary metric took for the answer
        ("correct", pa.float64()),  # the primary metric's score; null where unmeasured
        (
            "arguments",
            pa.list_(
                pa.struct(
                    [
                        ("context", pa.string()),
                        ("continuation", pa.string()),
                        ("kind", pa.string()),
                        ("generation", pa.string()),  # JSON; null but for generate_until
                    ]
                )
            ),
        ),
        ("repeats", pa.int16()),  # responses to each of the arguments, which follow one another
        ("responses", pa.list_(_RESPONSE)),
        (
            "filtered",  # by filter: JSON of what it made of the responses, one entry per argument
            pa.list_(pa.struct([("filter", pa.string()), ("values", pa.string())])),
        ),
        (
            "scores",
            pa.list_(
                pa.struct(
                    [
                        ("metric", pa.string()),
                        ("filter", pa.string()),
                        ("value", pa.float64()),
                        ("item", pa.string()),  # JSON of what is aggregated where it is no number
                    ]
                )
            ),
        ),
        ("why_null", pa.string()),
        ("contaminated", pa.bool_()),  # null where no training text was searched
        ("overlaps", pa.list_(pa.string())),  # the passages that the training text has, too
    ]
)


def write_samples(path: Path, rows: Iterable[Mapping[str, Any]]) -> SampleFile:
    """Write samples (dicts with the fields of SAMPLE_SCHEMA) in row groups that page quickly."""
    rows = iter(rows)
    count = 0
    with pq.ParquetWriter(path, SAMPLE_SCHEMA, compression="zstd") as writer:
        while block := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(pa.Table.from_pylist(block, SAMPLE_SCHEMA))
            count += len(block)
    return SampleFile(file=path.name, sha256=digest_of_file(path), rows=count)


def read_samples(
    path: Path | pa.NativeFile, fields: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Samples one after the other, never more than one block of them in memory.

    `fields`: those that are wanted of each; by default all.
    """
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_PER_GROUP, columns=fields):
            yield from batch.to_pylist()


def run_key(
    spec: TaskSpec | GroupSpec,
    *,
    shots: Shots,
    mode: str,
    fewshot_seed: int = 1234,
    fewshot_draw: Draw = "per-document",
    chat: Mapping[str, Any] | None = None,
    system_instruction: str | None = None,
    generation: Mapping[str, Any] | None = None,
) -> str:
    """The comparability key as far as it is known before a run: without metric and documents.

    `shots` as in the record; `chat` is the policy (which template, whether examples are turns),
    `generation` the arguments given over those of the tasks. Two runs of one variant with the same
    key would give the same numbers.
    Raises TaskError for a mode that does not exist.
    """
    if mode not in ("strict", "compat"):
        raise TaskError(f"mode: expected 'strict' or 'compat', got {mode!r}")
    rule = shot_rule(spec, shots, fewshot_draw)
    return _run_digest(
        task=spec.name,
        version=spec.version,
        config_digest=config_digest(spec),
        style=spec.about.style,
        shots=shots,
        shot_rule=rule,
        shot_seed=fewshot_seed if draws_at_random(rule) else None,
        mode=mode,
        chat=chat,
        system_instruction=system_instruction,
        generation=generation,
        scoring_version=SCORING_VERSION,
    )


def run_key_of(record: RunRecord) -> str:
    """The run key that a record's own fields give, for who doubts the one that it states."""
    return _run_digest(
        task=record.task,
        version=record.version,
        config_digest=record.config_digest,
        style=record.style or None,
        shots=record.shots,
        shot_rule=record.shot_rule,
        shot_seed=record.shot_seed,
        mode=record.mode,
        chat=chat_policy(record.chat),
        system_instruction=record.system_instruction,
        generation=record.settings.get("gen_kwargs") if record.generation else None,
        scoring_version=record.engine["scoring_version"],
    )


def chat_policy(chat: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What of a record's `chat` decides whether two numbers compare.

    A model's own template is its own; a named one is the same for all.
    """
    if chat is None:
        return None
    template = "own" if chat["name"] is None else chat["digest"]
    return {"template": template, "multiturn": chat["multiturn"]}


def _run_digest(
    *,
    shots: Shots,
    chat: Mapping[str, Any] | None,
    system_instruction: str | None,
    generation: Mapping[str, Any] | None,
    **others: str | int | None,
) -> str:
    return digest_of(
        {
            **others,
            "shots": shots if isinstance(shots, int) else dict(shots),
            "chat": None if chat is None else dict(chat),
            "system_prompt": None if system_instruction is None else digest_of(system_instruction),
            "generation": dict(generation) if generation else None,
        }
    )


def shot_rule(spec: TaskSpec | GroupSpec, shots: Shots, draw: Draw = "per-document") -> str:
    """How examples are chosen: none, first_n, per-document, fixed; of a split or inline; or mixed.

    `draw` counts where a task leaves the draw to us.
    """
    if isinstance(spec, GroupSpec):
        rules = {shot_rule(leaf, shots, draw) for leaf in spec.leaves()}
        return rules.pop() if len(rules) == 1 else "mixed"
    if (shots if isinstance(shots, int) else shots[spec.name]) == 0:
        return "none"
    sampler = spec.fewshot.sampler
    rule = "first_n" if sampler == "first_n" else "per-document"
    if sampler == "default":
        rule = draw
    inline = spec.fewshot.samples is not None and not spec.fewshot.split
    return f"inline {rule}" if inline else rule


def draws_at_random(rule: str) -> bool:
    """Whether a seed decides the examples under this rule."""
    return rule == "mixed" or rule.endswith(("per-document", "fixed"))


def comparability_key(
    run: str, *, docs_digest: str, metric: str, arguments: Mapping[str, Any], filter: str
) -> str:
    """What two numbers must share to stand in one column; `run` is a `run_key`."""
    return digest_of(
        {
            "run": run,
            "docs_digest": docs_digest,
            "metric": metric,
            "arguments": dict(arguments),
            "filter": filter,
        }
    )
