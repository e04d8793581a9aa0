"""From the numbers of a group's tasks to the group's own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from evalcore.model.base import Mode
from evalcore.record import ResultRow
from evalcore.score.numbers.uncertainty import (
    Measured,
    measure,
    measure_group,
    measure_parts,
)
from evalcore.score.scored import Column, ScoredTask
from evalcore.stats import Interval, pooled_standard_error
from evalcore.task.config import AggregateSpec
from evalcore.task.functions import FunctionRef


@dataclass(frozen=True)
class Part:
    """A task of a group with its numbers."""

    task: ScoredTask
    rows: Sequence[ResultRow]

    def row(self, column: Column) -> ResultRow | None:
        return next((row for row in self.rows if (row.metric, row.filter) == column), None)

    @property
    def size(self) -> int:
        """Scored documents: the most that any of its metrics has (lm-eval's `sample_len`)."""
        return max((row.n for row in self.rows), default=0)


@dataclass(frozen=True)
class OfGroup:
    """One number of a group, and the parts that it is made of."""

    measured: Measured
    compat_stderr: float | None
    parts: Sequence[Part]


def aggregate_group(
    entry: AggregateSpec, parts: Sequence[Part], mode: Mode, *, same_questions: bool = False
) -> tuple[dict[Column, OfGroup], dict[Column, str]]:
    """One number for each filter of the entry: by default every filter that a task has.

    `same_questions`: the tasks ask them row by row, so that their scores depend on one another.

    The weighted mean over the tasks, by their documents or all alike. A task without the metric is
    passed over, as in lm-evaluation-harness; strict has no number then, and the second mapping says
    why.
    """
    metric = str(entry.metric)
    if mode == "strict" and isinstance(entry.aggregation, FunctionRef):
        why = f"{entry.aggregation} would never be called, as in lm-evaluation-harness: write mean"
        return {}, {(metric, "none"): why}
    filters = entry.filter_list or sorted(
        {row.filter for part in parts for row in part.rows if row.metric == metric}
    )
    found: dict[Column, OfGroup] = {}
    problems: dict[Column, str] = {}
    for filter in filters:
        column = (metric, filter)
        having = [part for part in parts if part.row(column)]
        lacking = [part.task.name for part in parts if not part.row(column)]
        if not having or (lacking and mode == "strict"):
            some = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if lacking[3:] else "")
            problems[column] = f"there is no such number of {some}"
            continue
        weighted = entry.weight_by_size
        found[column] = _of_column(column, having, weighted, mode, same_questions)
    if not filters:
        problems[metric, "none"] = "no task of the group has such a number"
    return found, problems


def _of_column(
    column: Column, parts: Sequence[Part], weighted: bool, mode: Mode, same_questions: bool
) -> OfGroup:
    rows = [row for part in parts if (row := part.row(column))]
    # lm-eval weights each metric by the documents of the task, whether all of them have it or not.
    sizes = [
        part.size if mode == "compat" else row.n for part, row in zip(parts, rows, strict=True)
    ]
    means = all(part.task.measures.aggregation(column[0]).name == "mean" for part in parts)
    if means and weighted and sizes == [row.n for row in rows]:
        scores = [[float(item) for item in part.task.items[column]] for part in parts]
        clusters = [part.task.clusters(column) for part in parts]
        if _ask_the_same_documents(parts, column):
            # Each counts once, with its mean; how far the ways lie apart is another figure.
            measured = measure([float(score) for score in np.mean(scores, axis=0)], clusters[0])
        elif same_questions and len(parts) > 1:
            labels = _labels_of_questions(parts, column)
            measured = measure([score for of_part in scores for score in of_part], labels)
        else:
            measured = measure_group(scores, clusters)
    else:
        of_tasks = [
            Measured(Interval(row.low, row.value, row.high), row.stderr, row.interval, row.n)
            for row in rows
        ]
        measured = measure_parts(of_tasks, sizes, by_size=weighted)
    return OfGroup(measured, _compat_stderr(rows, sizes if weighted else None), parts)


def _labels_of_questions(parts: Sequence[Part], column: Column) -> list[Hashable]:
    """One label for each score, the same for the same question in every part.

    That of its cluster where the parts name theirs alike, else the cluster's place among those of
    the part, as where passages are translated; without clusters the row.
    """
    clusters = [part.task.clusters(column) for part in parts]
    named = [set(labels) for labels in clusters if labels is not None]
    if len(named) < len(parts):
        rows = ([sample["doc_id"] for sample in part.task.samples_of(column)] for part in parts)
        return [row for of_part in rows for row in of_part]
    if all(labels == named[0] for labels in named):
        return [label for of_part in clusters for label in of_part or ()]
    places = [{label: at for at, label in enumerate(dict.fromkeys(one or ()))} for one in clusters]
    return [
        place[label]
        for place, of_part in zip(places, clusters, strict=True)
        for label in of_part or ()
    ]


def _ask_the_same_documents(parts: Sequence[Part], column: Column) -> bool:
    """Whether the tasks are several ways of asking the same: their scores then depend."""
    asked = {
        tuple(sample["doc_digest"] for sample in part.task.samples_of(column)) for part in parts
    }
    return len(parts) > 1 and len(asked) == 1


def _compat_stderr(rows: Sequence[ResultRow], sizes: Sequence[int] | None) -> float | None:
    """lm-evaluation-harness's: of the weighted mean pooled, of the plain one by its variance."""
    errors = [row.compat_stderr for row in rows if row.compat_stderr is not None]
    if len(errors) < len(rows):
        return None
    if sizes is None:
        return sqrt(sum(error**2 for error in errors)) / len(errors)
    return pooled_standard_error(errors, sizes) if sum(sizes) > len(sizes) else None
