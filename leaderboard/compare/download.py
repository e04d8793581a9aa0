"""A comparison by question as a file: every question of the shown task, or of all of them.

One row a question with each side's score, pick and margin; a side that was asked other questions,
or has no scores by question, is empty there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from django.http import HttpRequest
from django.urls import reverse

from leaderboard.compare.pins import in_full, runs_of
from leaderboard.compare.query import DETAIL, JOINED, fields, read
from leaderboard.compare.questions import facts_at
from leaderboard.compare.table import Lineup, Task, stored_files, vectors_of
from leaderboard.models import Artifact, Run
from leaderboard.models.run import run_url
from leaderboard.samples import NO_PICK, Facts, Vector, letter, path_of
from leaderboard.snapshot import Refused, TableFile, table_file
from leaderboard.web import Address


def file(request: HttpRequest) -> TableFile:
    address = Address(request, fields(), JOINED)
    query = read(address)
    if query.problems:
        raise Refused(problem.text for problem in query.problems)
    lineup = query.lineup
    if lineup is None:
        raise Refused([f"m: name two to six models, as in {request.path}?m=12,34."])
    tasks = [task for task in lineup.tasks if address["task"] in ("", task.key)]
    if not tasks:
        known = ", ".join(task.key for task in lineup.tasks)
        raise Refused([f"task: there is no task “{address['task'][:40]}”. There are {known}."])
    runs = [number.run for task in tasks for number in task.numbers if number]
    # Unavailable is raised before the first byte is sent, where the store does not answer.
    for sha256 in list(stored_files(runs, Artifact.Kind.SAMPLES).values())[:1]:
        path_of(sha256)
    site = request.build_absolute_uri("/").rstrip("/")
    gone = {name: default for name, default in fields().items() if name in DETAIL}
    shown = address.url(**gone | {"q": "", "task": address["task"]}).partition("?")[2]
    board = query.board
    return TableFile(
        name=f"plumbline-compare-{'-'.join(side.name for side in lineup.sides)}"[:120],
        built=board.built if board else _newest(tasks),
        about={
            **_models(lineup),
            "address": f"{site}{reverse('compare')}?{shown}",
            **({"data_version": board.data_version} if board else {}),
        },
        details={"pins": _pins(lineup, tasks, site)},
        batches=lambda: _batches(lineup, tasks, site),
        rows="questions",
    )


def _pins(lineup: Lineup, tasks: Sequence[Task], site: str) -> list[dict[str, Any]]:
    """What every run was asked and computed with, by task and side; no digest is cut short."""
    runs = runs_of([number for task in tasks for number in task.numbers if number])
    return [
        {
            "benchmark": task.benchmark,
            "side": side.letter,
            "run": f"{site}{run_url(number.run)}",
            **in_full(runs[number.run]),
        }
        for task in tasks
        for side, number in zip(lineup.sides, task.numbers, strict=True)
        if number and number.run in runs
    ]


def _newest(tasks: Sequence[Task]) -> datetime:
    runs = [run for task in tasks for number in task.numbers if number for run in number.runs]
    ended = Run.objects.filter(pk__in=runs).values_list("finished", flat=True)
    return max((at for at in ended if at), default=datetime.now(UTC))


def _models(lineup: Lineup) -> dict[str, str]:
    """Which letter is which model."""
    return {
        f"{side.letter}.{name}": value
        for side in lineup.sides
        for name, value in (
            ("model", side.repo_id),
            ("commit", side.commit),
            ("precision", side.quantisation or side.dtype),
            ("way", side.way),
        )
    }


def _batches(lineup: Lineup, tasks: Sequence[Task], site: str) -> Iterator[pa.RecordBatch]:
    vectors = vectors_of(tasks)
    runs = [number.run for task in tasks for number in task.numbers if number]
    files = stored_files(runs, Artifact.Kind.SAMPLES)
    for task in tasks:
        # Of several draws of examples the first.
        of_sides = [
            vectors.get(number.results[0]) if number and number.results else None
            for number in task.numbers
        ]
        layout = next((vector.layout for vector in of_sides if vector), None)
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
        for side, number, vector in zip(lineup.sides, task.numbers, of_sides, strict=True):
            run, facts = None, None
            same = vector is not None and vector.layout.docs_digest == layout.docs_digest
            if number and same:
                digest = files.get(number.run)
                facts = facts_at(path_of(digest) if digest else None, layout.n)
                run = f"{site}{run_url(number.run)}"
            columns |= _of_side(side.letter, layout.n, vector if same else None, facts, run)
        yield pa.RecordBatch.from_pydict(columns)


def _of_side(
    name: str, n: int, vector: Vector | None, facts: Facts | None, run: str | None
) -> dict[str, pa.Array]:
    nothing = np.full(n, np.nan)
    picks = facts.pick if facts else np.full(n, NO_PICK)
    letters = [letter(place) if place != NO_PICK else None for place in picks.tolist()]
    return {
        f"{name}.run": pa.repeat(pa.scalar(run, pa.string()), n),
        f"{name}.score": table_file.numbers(vector.scores if vector else nothing),
        f"{name}.pick": pa.array(letters, pa.string()),
        f"{name}.margin": table_file.numbers(facts.margin if facts else nothing),
    }
