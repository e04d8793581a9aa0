"""How far apart are two sides on each part (subject, language) of a task?

A part is compared as a task of its own, with the questions that it has: `pair` makes the
difference. What is claimed of the parts of a table holds together (Benjamini and Hochberg).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import wilson
from leaderboard.compare.differences import Found, corrected
from leaderboard.compare.lineup import Number, Task
from leaderboard.compare.pair import Apart, Difference, difference
from leaderboard.compare.table import Axis, Told, told
from leaderboard.compare.words import p_value
from leaderboard.samples import Layout, Vector
from leaderboard.snapshot import Score
from leaderboard.web import Address

MOST = 300
"""Parts that are compared one by one; of more a table would not be read."""


@dataclass(frozen=True)
class OfPart:
    """Two sides on one part."""

    name: str
    n: int
    """Questions."""
    base: float
    """Mean scores, over several draws of examples their mean."""
    other: float
    found: Found
    """Corrected for the parts of the table."""


def by_part(task: Task, base: int, side: int, vectors: Mapping[int, Vector]) -> list[OfPart]:
    """Every part with its difference, the largest first and those without one last.

    Empty for a task without parts or with more than MOST. Both sides' vectors are of the same
    questions.
    """
    first, second = task.numbers[base], task.numbers[side]
    if first is None or second is None:
        return []
    keys = (*first.results, *second.results)
    layout = vectors[keys[0]].layout
    if not 1 < len(layout.parts) <= MOST:
        return []
    # One sort instead of a look at every question for each part.
    order = np.argsort(layout.part, kind="stable")
    ends = np.cumsum(np.bincount(layout.part, minlength=len(layout.parts)))
    parts = [
        _part(task, (first, second), vectors, name, places)
        for name, places in zip(layout.parts, np.split(order, ends[:-1]), strict=True)
        if len(places)
    ]
    (found,) = corrected([[part.found for part in parts]])
    parts = [replace(part, found=told) for part, told in zip(parts, found, strict=True)]
    return sorted(parts, key=_largest_first)


def _largest_first(one: OfPart) -> tuple[bool, float]:
    return (False, -one.found.value) if isinstance(one.found, Difference) else (True, 0.0)


def _part(
    task: Task,
    numbers: tuple[Number, Number],
    vectors: Mapping[int, Vector],
    name: str,
    places: NDArray[np.intp],
) -> OfPart:
    keys = (*numbers[0].results, *numbers[1].results)
    layout = _layout(vectors[keys[0]].layout, places)
    own = {pk: _restricted(vectors[pk], layout, places) for pk in keys}
    base, other = (
        replace(number, score=_score([own[pk] for pk in number.results]), normalised=None)
        for number in numbers
    )
    part = replace(task, numbers=(base, other), why=("", ""), chance=0.0, part_chances={})
    found = difference(part, 0, 1, own)
    return OfPart(name, len(places), base.score.value, other.score.value, found)


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


def _restricted(vector: Vector, layout: Layout, places: NDArray[np.intp]) -> Vector:
    """The vector on the questions of one part; its mean is over tasks only where it has several."""
    return Vector(layout, vector.by_part and len(layout.tasks) > 1, vector.scores[places])


def _score(drawn: list[Vector]) -> Score:
    """The mean, with an interval where an unpaired difference can need one: all right or all wrong.

    Wilson's, with one question for each cluster. Any other mean has none here.
    """
    layout = drawn[0].layout
    scores = np.mean([vector.scores for vector in drawn], axis=0)
    if drawn[0].by_part:
        value = float((np.bincount(layout.task, scores) / np.bincount(layout.task)).mean())
    else:
        value = float(scores.mean())
    low = high = value
    if value in (0.0, 1.0):
        units = layout.n if layout.cluster is None else len(np.unique(layout.cluster))
        bounds = wilson(value * units, units)
        low, high = bounds.low, bounds.high
    return Score(value, low, high, layout.n)


@dataclass(frozen=True, kw_only=True)
class PartRow(Told):
    """One part; texts are empty where there is no difference."""

    name: str
    url: str
    """Of the questions of this part alone."""
    chosen: bool
    n: int
    base: float
    other: float
    why: str
    """Why the difference is not paired."""
    p: str


@dataclass(frozen=True)
class PartTable:
    rows: list[PartRow]
    axis: Axis | None
    """None where differences are not drawn."""
    count: int
    """Differences, for which p is corrected."""
    higher: int
    """Parts on which the other side is ahead beyond doubt ..."""
    lower: int
    """... and on which the baseline is."""


def part_table(
    parts: Sequence[OfPart], task: Task, names: tuple[str, str], address: Address
) -> PartTable | None:
    """None for a task without parts; `names` are those of the baseline and of the other side."""
    found = [part.found for part in parts if isinstance(part.found, Difference)]
    axis = Axis.around(found) if found and task.drawn_to_scale else None
    rows = [_row(part, task, names, axis, address) for part in parts]
    if not rows:
        return None
    ahead = [row.who for row in rows]
    return PartTable(rows, axis, len(found), ahead.count("other"), ahead.count("base"))


def _row(
    one: OfPart, task: Task, names: tuple[str, str], axis: Axis | None, address: Address
) -> PartRow:
    found = one.found
    return PartRow(
        name=one.name,
        url=address.url("questions", part=one.name, page="", doc=""),
        chosen=one.name == address["part"],
        n=one.n,
        base=one.base,
        other=one.other,
        why="" if isinstance(found, Apart) else found.why,
        p="" if isinstance(found, Apart) else p_value(found.p_bh),
        **vars(told(found, task.metric, names, axis, by="part")),
    )
