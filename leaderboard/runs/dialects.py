"""A run in the forms that other tools read, each made from its record and samples as it is asked.

One entry of DIALECTS is one form: its link on the run's page, its address and its file follow. The
texts come from evalcore's writers, the same that `evalcore convert` uses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evalcore.formats.every_eval_ever import aggregate, instances
from evalcore.formats.lmeval.results import results_json
from evalcore.formats.lmeval.samples import HASHED, sample_lines, task_hashes
from evalcore.record import RunRecord, read_samples

RECALLED = "recalled"
"""The key under which a form says that its numbers are wrong, and why."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a form is made of."""

    record: RunRecord
    samples: Path
    finished: datetime
    site: str
    """The host name of this site, which ran it."""
    recalled: str = ""
    """Why its numbers are wrong, where they are; the forms say so."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One form; `pieces` are its text, made as they are sent."""

    file: str
    """The last part of its address, and of the file's name where `name` gives no other."""
    title: str
    holds: str
    format: str
    content_type: str
    pieces: Callable[[Source], Iterator[str]]
    name: Callable[[RunRecord], str] | None = None


def lm_eval_samples(source: Source) -> Iterator[str]:
    """lm-evaluation-harness's samples, one line for each question and filter."""
    lines = sample_lines(read_samples(source.samples))
    if not source.recalled:
        return lines
    return (_as_line({**json.loads(line), RECALLED: source.recalled}) for line in lines)


def lm_eval_results(source: Source) -> Iterator[str]:
    """lm-evaluation-harness's results file, with the hash that it has of each task's samples."""
    hashes = task_hashes(read_samples(source.samples, HASHED))
    results = results_json([source.record], {}, hashes)
    yield _as_file({**results, **({RECALLED: source.recalled} if source.recalled else {})})


def every_eval_ever_aggregate(source: Source) -> Iterator[str]:
    _, lines = aggregate.places_of(source.record)
    pointer = {"format": "jsonl", "file_path": lines.as_posix()}
    yield _as_file({**_aggregate(source), "detailed_evaluation_results": pointer})


def every_eval_ever_samples(source: Source) -> Iterator[str]:
    """One line for each question and score."""
    lines = instances.instances_of(
        source.record, read_samples(source.samples), _aggregate(source)["evaluation_id"]
    )
    if source.recalled:
        told = {RECALLED: source.recalled}
        lines = ({**line, "metadata": {**line["metadata"], **told}} for line in lines)
    return (_as_line(line) for line in lines)


def _aggregate(source: Source) -> dict[str, Any]:
    found = aggregate.aggregate_of(source.record, organization=source.site, now=source.finished)
    if source.recalled:
        found["eval_library"]["additional_details"][RECALLED] = source.recalled
    return found


def _as_line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


def _as_file(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


DIALECTS = (
    Dialect(
        file="results.json",
        title="lm-evaluation-harness, results",
        holds="All numbers as its results file has them, with its configuration and hashes",
        format="JSON",
        content_type="application/json",
        pieces=lm_eval_results,
    ),
    Dialect(
        file="samples.jsonl",
        title="lm-evaluation-harness, samples",
        holds="One line a question and filter: document, requests, responses, scores",
        format="JSONL",
        content_type="application/x-ndjson",
        pieces=lm_eval_samples,
    ),
    Dialect(
        file="every_eval_ever.json",
        title="Every Eval Ever, aggregate",
        holds="All numbers with their uncertainty, by version 0.3.0 of its schema",
        format="JSON",
        content_type="application/json",
        pieces=every_eval_ever_aggregate,
        name=lambda record: aggregate.places_of(record)[0].name,
    ),
    Dialect(
        file="every_eval_ever_samples.jsonl",
        title="Every Eval Ever, instances",
        holds="One line a question and score, with our whole sample in it",
        format="JSONL",
        content_type="application/x-ndjson",
        pieces=every_eval_ever_samples,
        name=lambda record: aggregate.places_of(record)[1].name,
    ),
)
