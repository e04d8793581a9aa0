"""A comparison by question as a file: every question of the shown task, or of all of them.

One row a question with each side's score, pick and margin; a side that was asked other questions,
or has no scores by question, is empty there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from django.http import HttpRequest
from django.urls import reverse

from leaderboard.compare import pins
from leaderboard.compare.lineup import Lineup, Number, Task, stored_files, vectors_of
from leaderboard.compare.page import JOINED, fields, read
from leaderboard.compare.question_list import Half, half_of
from leaderboard.models import Artifact, Run
from leaderboard.models.run import run_url
from leaderboard.samples import NO_PICK, Vector, letter, path_of
from leaderboard.snapshot import Refused, TableFile, table_file
from leaderboard.web import Address


def file(request: HttpRequest) -> TableFile:
    address = Address(request, fields(), JOINED)
    asked = read(address)
    lineup = asked.lineup
    if asked.problems:
        raise Refused(problem.text for problem in asked.problems)
    if lineup is None:
        raise Refused([f"m: name two to six models, as in {request.path}?m=12,34."])
    tasks = [task for task in lineup.tasks if address["task"] in ("", task.key)]
    if not tasks:
        known = ", ".join(task.key for task in lineup.tasks)
        raise Refused([f"task: there is no task “{address['task'][:40]}”. There are {known}."])
    _reach(tasks)
    site = request.build_absolute_uri("/").rstrip("/")
    newest = _newest(tasks)
    return TableFile(
        name=f"plumbline-compare-{'-'.join(side.name for side in lineup.sides)}"[:120],
        built=asked.board.built if asked.board else newest,
        about={
            **_about(lineup, f"{site}{reverse('compare')}", address),
            **({"data_version": asked.board.data_version} if asked.board else {}),
        },
        details={"pins": _pins(lineup, tasks, site)},
        batches=lambda: _batches(lineup, tasks, site),
        rows="questions",
    )


def _reach(tasks: Sequence[Task]) -> None:
    """Raises Unavailable before the first byte is sent, where the store does not answer."""
    runs = [number.run for task in tasks for number in task.numbers if number]
    for sha256 in list(stored_files(runs, Artifact.Kind.SAMPLES).values())[:1]:
        path_of(sha256)


def _pins(lineup: Lineup, tasks: Sequence[Task], site: str) -> list[dict[str, Any]]:
    """What every run was asked and computed with, by task and side; no digest is cut short."""
    runs = pins.runs_of(tasks)
    return [
        {
            "benchmark": task.benchmark,
            "side": side.letter,
            "run": f"{site}{run_url(number.run)}",
            **pins.in_full(runs[number.run]),
        }
        for task in tasks
        for side, number in zip(lineup.sides, task.numbers, strict=True)
        if number and number.run in runs
    ]


def _newest(tasks: Sequence[Task]) -> datetime:
    runs = [run for task in tasks for number in task.numbers if number for run in number.runs]
    ended = Run.objects.filter(pk__in=runs).values_list("finished", flat=True)
    return max((at for at in ended if at), default=datetime.now(UTC))


def _about(lineup: Lineup, page: str, address: Address) -> dict[str, Any]:
    """Which letter is which model, and the page that shows it."""
    models = {
        f"{side.letter}.{name}": value
        for side in lineup.sides
        for name, value in (
            ("model", side.repo_id),
            ("commit", side.commit),
            ("precision", side.quantisation or side.dtype),
            ("way", side.way),
        )
    }
    query = address.url(
        part="", show="all", sort="size", page="", doc="", spaces="", q=""
    ).partition("?")[2]
    return {**models, "address": f"{page}?{query}"}


def _batches(lineup: Lineup, tasks: Sequence[Task], site: str) -> Iterator[pa.RecordBatch]:
    vectors = vectors_of(tasks)
    runs = [number.run for task in tasks for number in task.numbers if number]
    files = stored_files(runs, Artifact.Kind.SAMPLES)
    for task in tasks:
        found = [_vector(number, vectors) for number in task.numbers]
        layout = next((vector.layout for vector in found if vector), None)
        if layout is None:
            continue
        columns: dict[str, pa.Array] = {
            "benchmark": pa.repeat(task.benchmark, layout.n),
            "style": pa.repeat(task.style, layout.n),
            "metric": pa.repeat(task.metric, layout.n),
            "task": pa.array(layout.tasks).take(pa.array(layout.task)),
            "doc_id": pa.array(layout.doc_id, pa.int32()),
            "part": pa.array(layout.parts).take(pa.array(layout.part)),
            "cluster": pa.nulls(layout.n, pa.int32())
            if layout.cluster is None
            else pa.array(layout.cluster, pa.int32()),
        }
        for side, number, vector in zip(lineup.sides, task.numbers, found, strict=True):
            half, run = None, None
            if number and vector and vector.layout.docs_digest == layout.docs_digest:
                half = half_of(vector, files.get(number.run))
                run = f"{site}{run_url(number.run)}"
            columns |= _of_side(side.letter, layout.n, half, run)
        yield pa.RecordBatch.from_pydict(columns)


def _vector(number: Number | None, vectors: Mapping[int, Vector]) -> Vector | None:
    """Of several draws of examples the first."""
    return vectors.get(number.results[0]) if number and number.results else None


def _of_side(name: str, n: int, half: Half | None, run: str | None) -> dict[str, pa.Array]:
    nothing = np.full(n, np.nan)
    answers = half.answers if half else None
    picks = answers.pick if answers else np.full(n, NO_PICK)
    letters = pa.array(
        [letter(place) if place != NO_PICK else None for place in picks.tolist()], pa.string()
    )
    return {
        f"{name}.run": pa.repeat(pa.scalar(run, pa.string()), n),
        f"{name}.score": table_file.numbers(half.vector.scores if half else nothing),
        f"{name}.pick": letters,
        f"{name}.margin": table_file.numbers(answers.margin if answers else nothing),
    }
