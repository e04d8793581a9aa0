"""A published number counted again while a reader waits.

Two counts that share nothing but the file. All numbers, from the scores that the samples state; and
the scores of some questions drawn at random, or of all where they are few, from the responses on.
`verify` does both for everything, which takes half a minute for 14,000 questions.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from evalcore.digest import digest_of_file
from evalcore.errors import EvalError
from evalcore.formats.run_files import Run
from evalcore.model.base import SCORING_VERSION, Mode
from evalcore.record import Place, ResultRow, RunRecord
from evalcore.score.numbers.aggregate import aggregate
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.functions import TRANSFORMS
from evalcore.task.library.load import TaskLibrary
from evalcore.verify.report import Report, same
from evalcore.verify.scores import scored_tasks
from evalcore.verify.specs import SCORING, has_code, spec_of

Sample = dict[str, Any]

ALL_OF = 400
"""Of so many questions all are scored again, of more as many as `DRAWN`; a second at most."""
DRAWN = 200
LONGEST = 60.0
"""Seconds that the run's own scoring took: what took longer (a parser of formulas, say) no page
tries, since no one can stop it on the way."""
_LIGHT = ["task", "doc_id", "doc_digest", "subset", "cluster", "contaminated", "scores"]
"""What numbers are made of; texts and responses are most of a file."""
COMPARED = ("value", "stderr", "low", "high", "n")


@dataclass
class Recount:
    """What was counted again, and whatever is not the same."""

    questions: int
    """In the file."""
    digest: str
    """Of the file as it is now."""
    scored: int = 0
    """Questions whose responses were scored again."""
    seconds: float = 0.0
    rows: dict[Place, ResultRow] = field(default_factory=dict)
    """The numbers as they come out now."""
    differences: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What was not counted again, and why."""


def recount(
    record: RunRecord,
    samples: Path,
    library: TaskLibrary,
    *,
    seed: int,
    spec: TaskSpec | GroupSpec | None = None,
) -> Recount:
    """Counts a run again from its samples; `seed` decides which questions are drawn.

    `spec`: the task, where the caller knows it better than by what the record says, and waits
    however long its scoring takes. Runs no code but the engine's own. Raises ValueError where the
    file is none of samples.
    """
    began = time.perf_counter()
    found = Recount(questions=0, digest=digest_of_file(samples))
    if found.digest != record.samples.sha256:
        stated = record.samples.sha256
        found.differences.append(
            f"SHA-256 of the answers: stated {stated}, computed {found.digest}"
        )
    try:
        with pq.ParquetFile(samples) as file:
            _count(record, file, library, seed, found, spec)
    except (OSError, pa.ArrowException, KeyError, TypeError) as error:
        raise ValueError(f"the file of the answers cannot be read ({error})") from error
    found.seconds = time.perf_counter() - began
    return found


def _count(
    record: RunRecord,
    file: pq.ParquetFile,
    library: TaskLibrary,
    seed: int,
    found: Recount,
    known: TaskSpec | GroupSpec | None,
) -> None:
    """First the numbers, then scores; what cannot be had is noted, and the rest stands."""
    found.questions = file.metadata.num_rows
    if found.questions != record.samples.rows:
        stated = record.samples.rows
        found.differences.append(f"questions: stated {stated}, in the file {found.questions}")
    if why := _is_foreign(record):
        found.left.append(f"the numbers: {why}")
        return
    try:
        spec = known or spec_of(record, library)
        _count_numbers(record, spec, list(_light(file)), found)
    except EvalError as error:
        found.left.append(f"the numbers: {error.reason}")
        return
    if record.clean_results:
        found.left.append("the numbers on questions that training text does not have")
    if why := _why_not_scored(record, patient=known is not None):
        found.left.append(f"the scores of the questions: {why}")
        return
    count = found.questions if found.questions <= ALL_OF else DRAWN
    drawn = random.Random(seed).sample(range(found.questions), count)  # noqa: S311 no secret
    try:
        _score(record, spec, list(_rows(file, sorted(drawn))), found)
    except EvalError as error:
        found.left.append(f"the scores of the questions: {error.reason}")


def _is_foreign(record: RunRecord) -> str:
    """Why not even its numbers can be had without code that is not ours; empty where they can."""
    if record.engine["name"] != "evalcore":
        return "the record is another program's"
    names = {name for config in record.configs.values() for name in _functions(_scoring(config))}
    foreign = sorted(name for name in names if not name.startswith(TRANSFORMS))
    if foreign or any("class" in config for config in record.configs.values()):
        return "the benchmark is scored by code of its own, which a page does not run"
    return ""


def _why_not_scored(record: RunRecord, *, patient: bool) -> str:
    """Why responses are not scored again here; empty where they are."""
    if record.without_text:
        return "the benchmark's texts are withheld, so there is nothing to score"
    if record.settings.get("predict_only"):
        return "the answers were recorded without being scored"
    if any(has_code(_scoring(config)) for config in record.configs.values()):
        return "the benchmark is scored by code, which a page does not run"
    if (version := record.engine.get("scoring_version")) != SCORING_VERSION:
        return f"scoring version {version} made them, and this is version {SCORING_VERSION}"
    if not patient and record.timing.get("scores", 0.0) > LONGEST:
        return f"scoring took {record.timing['scores']:.0f} s when the run was made"
    return ""


def _scoring(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: config[key] for key in SCORING if key in config}


def _functions(value: Any) -> Iterator[str]:
    """The functions that a part of a configuration names, and the metrics of another library."""
    if isinstance(value, Mapping):
        if value.keys() == {"function", "digest"}:
            yield str(value["function"])
        if value.get("hf_evaluate"):
            yield f"evaluate's {value.get('metric')}"
        value = list(value.values())
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _functions(entry)


def _light(file: pq.ParquetFile) -> Iterator[Sample]:
    for batch in file.iter_batches(columns=_LIGHT):
        yield from ({**row, "responses": ()} for row in batch.to_pylist())


def _rows(file: pq.ParquetFile, wanted: Sequence[int]) -> Iterator[Sample]:
    """Whole samples at these places, never more than one block of the file in memory."""
    start = 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        if here := [place - start for place in wanted if start <= place < end]:
            yield from file.read_row_group(group).take(here).to_pylist()
        start = end


def _count_numbers(
    record: RunRecord, spec: TaskSpec | GroupSpec, samples: list[Sample], found: Recount
) -> None:
    """All numbers of the record, from the scores that the samples state."""
    run = Run(record, samples, Path(record.samples.file))
    report = Report(record.task, run.source, "aggregate")
    rows, _ = aggregate(
        spec,
        scored_tasks(run, spec, report),
        {part.name: record.run_key for part in spec.parts()},
        mode=cast(Mode, record.mode),
        bootstrap_iters=0,  # lm-evaluation-harness's own errors: minutes, and on no page
        seed=record.settings.get("seed", 1234),
    )
    found.rows = {row.place: row for row in rows}
    for row in record.results:
        again = found.rows.get(row.place)
        found.differences += differences(row, again)


def differences(stated: Any, again: ResultRow | None) -> Iterator[str]:
    """How a stated number (with the fields of a row) is not what came out."""
    name = stated.task if isinstance(stated, ResultRow) else stated.task_name
    what = " ".join(part for part in (name, stated.subset, stated.metric, stated.filter) if part)
    if again is None:
        yield f"{what}: stated {stated.value!r}, the answers give none"
        return
    for figure in COMPARED:
        one, other = getattr(stated, figure), getattr(again, figure)
        if not same(one, other):
            yield f"{what}, {figure}: stated {one!r}, computed {other!r}"


def _score(
    record: RunRecord, spec: TaskSpec | GroupSpec, samples: list[Sample], found: Recount
) -> None:
    """The scores of these questions, from their responses on."""
    report = Report(record.task, Path(record.samples.file), "rescore")
    scored_tasks(Run(record, samples, report.source), spec, report)
    found.scored = len(samples) if report.scores else 0
    found.differences += report.differences
    found.left += report.unchecked
