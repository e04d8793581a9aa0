"""One task and one pair in detail: who was right on which questions, and one of them in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leaderboard.compare.differences import Compared, Found
from leaderboard.compare.lineup import Number, Side, Task, stored_files
from leaderboard.compare.pair import ByQuestion, Difference
from leaderboard.compare.parts import PartTable, by_part, part_table
from leaderboard.compare.question import Pair, read_pair
from leaderboard.compare.question_list import (
    Answer,
    Half,
    Partings,
    Questions,
    answers_to,
    half_of,
    list_of,
    name_of,
    neighbour,
)
from leaderboard.compare.words import p_value
from leaderboard.models import Artifact
from leaderboard.models.run import run_url
from leaderboard.samples import Layout, Unavailable, Vector, rows_in
from leaderboard.web import Address, kept

MOST_SHOWN = 40
"""Characters of an unknown question that are shown again."""


@dataclass(frozen=True)
class Shown:
    """The one question in full."""

    name: str
    part: str
    """Where its name does not say it."""
    pair: Pair
    answers: tuple[Answer, Answer]
    number: int | None
    """Its place in the list, from 1; None where the filter leaves it out."""
    before: tuple[str, str] | None
    after: tuple[str, str] | None
    permalink: str
    spaces_url: str
    run_urls: tuple[str, str]
    """The same question on either run's page."""


@dataclass(frozen=True)
class Detail:
    task: Task
    base: Side
    other: Side
    found: Found
    counted: ByQuestion | None
    draws: int
    run_urls: tuple[str, str]
    has_files: bool = False
    questions: Questions | None = None
    """None where either side has no scores by question."""
    shown: Shown | None = None
    problems: Sequence[str] = ()
    parts: PartTable | None = None
    part: str = ""
    """The only part whose questions are listed; empty for all."""
    all_parts_url: str = ""

    @property
    def mcnemar(self) -> str:
        """What the exact test says, where every score is 0 or 1."""
        crosstab = self.counted.crosstab if self.counted else None
        if crosstab is None:
            return ""
        said = p_value(crosstab.p_value)
        return f"p {said}" if said.startswith("<") else f"p = {said}"


def detail(compared: Compared, task: Task, vs: int, address: Address) -> Detail | None:
    """The baseline and the side `vs` on one task; None where one has no number on it."""
    base, other = task.numbers[compared.base], task.numbers[vs]
    if base is None or other is None:
        return None
    found = compared.of(vs).by_task[compared.lineup.tasks.index(task)]
    counted = found.questions if isinstance(found, Difference) else None
    plain = Detail(
        task=task,
        base=compared.lineup.sides[compared.base],
        other=compared.lineup.sides[vs],
        found=found,
        counted=counted,
        draws=len(base.runs),
        run_urls=(run_url(base.run), run_url(other.run)),
    )
    if counted is None:
        return plain
    problems = []
    vectors = compared.vectors[base.results[0]], compared.vectors[other.results[0]]
    files = stored_files([base.run, other.run], Artifact.Kind.SAMPLES)
    part = _part(vectors[0].layout, address["part"])
    if address["part"] and part is None:
        unknown = address["part"][:MOST_SHOWN]
        problems.append(f"part: {task.title} has no part “{unknown}”. Choose one from the table.")
    partings = Partings(
        _half(vectors[0], files.get(base.run)),
        _half(vectors[1], files.get(other.run)),
        higher_is_better=task.higher_is_better,
        part=part,
        deciding=counted.deciding,
    )
    doc = vectors[0].layout.called(address["doc"]) if address["doc"] else None
    questions = list_of(partings, doc, address)
    shown = None
    if doc is not None:
        shown = _shown(partings, questions, (base, other), doc, address)
    elif address["doc"]:
        unknown = address["doc"][:MOST_SHOWN]
        problems.append(f"doc: {task.title} has no question “{unknown}”. Choose one from the list.")
    parts = by_part(task, compared.base, vs, compared.vectors)
    return replace(
        plain,
        has_files=any(half.path for half in partings.halves),
        questions=questions,
        shown=shown,
        problems=problems,
        parts=part_table(parts, task, (plain.base.name, plain.other.name), address),
        part="" if part is None else address["part"],
        all_parts_url=address.url("questions", part="", page="", doc=""),
    )


def _half(vector: Vector, sha256: str | None) -> Half:
    """Without texts while the store does not answer: who was right is known from the database."""
    try:
        return half_of(vector, sha256)
    except Unavailable:
        kept.only_for_now()
        return Half(vector)


def _part(layout: Layout, name: str) -> int | None:
    """The place of the part of this name; None where the task has none such."""
    return layout.parts.index(name) if len(layout.parts) > 1 and name in layout.parts else None


def _shown(
    partings: Partings,
    questions: Questions,
    numbers: tuple[Number, Number],
    doc: int,
    address: Address,
) -> Shown:
    samples: list[dict[str, Any] | None] = [
        rows_in(half.path, [doc])[doc] if half.path else None for half in partings.halves
    ]
    layout = partings.layout
    label = layout.label(doc)
    several = len(layout.parts) > 1 and len(layout.tasks) == 1
    part = layout.parts[int(layout.part[doc])] if several else ""
    here = np.flatnonzero(questions.places == doc)
    first, second = (f"{run_url(number.run)}?doc={label}#question" for number in numbers)
    return Shown(
        name=name_of(partings, doc),
        part=part,
        pair=read_pair(*samples),
        answers=answers_to(partings, doc),
        number=int(here[0]) + 1 if len(here) else None,
        before=neighbour(partings, questions, doc, -1, address),
        after=neighbour(partings, questions, doc, 1, address),
        permalink=address.url(
            "question", doc=label, show="all", sort="size", page="", spaces="", part=""
        ),
        spaces_url=address.url(
            "question", doc=label, page="", spaces="" if address["spaces"] else "1"
        ),
        run_urls=(first, second),
    )
