"""Scores by question of a handful of models on many tasks, in one query.

`vectors.matrix` loads many models on one set of questions; a page that compares two models on sixty
tasks needs the opposite, and the number of its queries must not grow with the tasks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaderboard.compare.lineup import Task
from leaderboard.models import QuestionSet, ScoreVector
from leaderboard.samples.vectors import Layout, unpack_layout, unpack_values

Floats = NDArray[np.float64]

_LAYOUTS: dict[str, Layout] = {}
"""By digest, which says all of a layout; those that came first make room."""
_MOST_LAYOUTS = 256


@dataclass(frozen=True, eq=False)
class Vector:
    """One result's scores by question."""

    layout: Layout
    by_part: bool
    """Whether the result is the mean over its parts' means."""
    scores: Floats


def of_tasks(tasks: Sequence[Task]) -> dict[int, Vector]:
    """By primary key the vector of each result behind these tasks' numbers that has one."""
    results = [pk for task in tasks for number in task.numbers if number for pk in number.results]
    rows = ScoreVector.objects.filter(result_id__in=results, questions__isnull=False)
    found = list(rows.values_list("result_id", "questions__digest", "weighting", "values"))
    layouts = _layouts({digest for _, digest, _, _ in found})
    return {
        pk: _vector(layouts[digest], weighting, values) for pk, digest, weighting, values in found
    }


def _vector(layout: Layout, weighting: str, values: Any) -> Vector:
    scores = unpack_values(bytes(values), layout.n).astype(np.float64)
    return Vector(layout, weighting == ScoreVector.Weighting.PARTS, scores)


def _layouts(digests: Collection[str]) -> dict[str, Layout]:
    # Asked once each: another thread may make room between two questions.
    found = {digest: _LAYOUTS.get(digest) for digest in digests}
    known = {digest: layout for digest, layout in found.items() if layout is not None}
    missing = set(digests) - known.keys()
    if missing:
        for row in QuestionSet.objects.filter(digest__in=missing):
            known[row.digest] = unpack_layout(bytes(row.layout), row.docs_digest)
        _LAYOUTS.update((digest, known[digest]) for digest in missing)
        for oldest in list(_LAYOUTS)[:-_MOST_LAYOUTS]:
            _LAYOUTS.pop(oldest, None)
    return known
