"""How far apart are two sides on each part (subject, language) of a task?

A part is compared as a task of its own, with the questions that it has. What is claimed of the
parts of a table holds together (Benjamini and Hochberg).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import wilson
from leaderboard.compare.differences import Contrast, Difference, corrected, difference
from leaderboard.compare.questions import Partings
from leaderboard.compare.table import Number, Task
from leaderboard.samples import Layout, Vector
from leaderboard.snapshot import Score

MOST_PARTS = 300
"""Parts that are compared one by one; of more a table would not be read."""


@dataclass(frozen=True)
class PartOfTask:
    """Two sides on one part."""

    name: str
    n: int
    """Questions."""
    scores: tuple[float, float]
    """Means, over several draws of examples their mean."""
    contrast: Contrast
    """Corrected for the parts of the table."""


def parts_of(partings: Partings, vectors: Mapping[int, Vector]) -> list[PartOfTask]:
    """Every part with its difference, the largest first and those without one last.

    Empty for a task without parts or with more than MOST_PARTS.
    """
    layout = partings.layout
    if not 1 < len(layout.parts) <= MOST_PARTS:
        return []
    # One sort instead of a look at every question for each part.
    order = np.argsort(layout.part, kind="stable")
    ends = np.cumsum(np.bincount(layout.part, minlength=len(layout.parts)))
    parts = [
        _part(partings.task, partings.numbers, vectors, name, places)
        for name, places in zip(layout.parts, np.split(order, ends[:-1]), strict=True)
        if len(places)
    ]
    (contrasts,) = corrected([[part.contrast for part in parts]])
    parts = [replace(one, contrast=found) for one, found in zip(parts, contrasts, strict=True)]
    return sorted(parts, key=_largest_first)


def _largest_first(part: PartOfTask) -> tuple[bool, float]:
    found = part.contrast
    return (False, -found.value) if isinstance(found, Difference) else (True, 0.0)


def _part(
    task: Task,
    numbers: tuple[Number, Number],
    vectors: Mapping[int, Vector],
    name: str,
    places: NDArray[np.intp],
) -> PartOfTask:
    keys = (*numbers[0].results, *numbers[1].results)
    layout = _layout(vectors[keys[0]].layout, places)
    # A mean over tasks is one of a part only where that has several of them.
    several = len(layout.tasks) > 1
    own = {
        pk: Vector(layout, vectors[pk].by_part and several, vectors[pk].scores[places])
        for pk in keys
    }
    first, second = (
        replace(number, score=_score([own[pk] for pk in number.results]), normalised=None)
        for number in numbers
    )
    part = replace(task, numbers=(first, second), why=("", ""), chance=0.0, part_chances={})
    scores = first.score.value, second.score.value
    return PartOfTask(name, len(places), scores, difference(part, 0, 1, own))


def _layout(whole: Layout, places: NDArray[np.intp]) -> Layout:
    used, task = np.unique(whole.task[places], return_inverse=True)
    return Layout(
        docs_digest=whole.docs_digest,
        tasks=tuple(whole.tasks[place] for place in used.tolist()),
        task=task.astype(np.int32),
        doc_id=whole.doc_id[places],
        parts=("",),
        part=np.zeros(len(places), np.int32),
        cluster=None if whole.cluster is None else whole.cluster[places],
    )


def _score(by_draw: list[Vector]) -> Score:
    """The mean, with an interval where an unpaired difference can need one: all right or all wrong.

    Wilson's, with one question for each cluster. Any other mean has none here.
    """
    layout = by_draw[0].layout
    scores = np.mean([vector.scores for vector in by_draw], axis=0)
    if by_draw[0].by_part:
        value = float((np.bincount(layout.task, scores) / np.bincount(layout.task)).mean())
    else:
        value = float(scores.mean())
    low = high = value
    if value in (0.0, 1.0):
        units = layout.n if layout.cluster is None else len(np.unique(layout.cluster))
        bounds = wilson(value * units, units)
        low, high = bounds.low, bounds.high
    return Score(value, low, high, layout.n)
