"""Two models: who leads by how much, on which benchmarks, and what turns it round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import wilson
from leaderboard.board import BoardQuery, chosen_board
from leaderboard.compare.differences import (
    Comparison,
    Contrast,
    Difference,
    How,
    Kind,
    NoDifference,
    Pair,
    claimed,
    compare,
    corrected,
    difference,
    reading,
)
from leaderboard.compare.query import Query
from leaderboard.compare.questions import Partings
from leaderboard.compare.table import Lineup, Number, Task, lineup_of_models
from leaderboard.models.run import run_url
from leaderboard.models.task import Style, is_share
from leaderboard.samples import Layout, Vector
from leaderboard.snapshot import OWN, Score
from leaderboard.templatetags.figures import (
    MINUS,
    bounds_in,
    exactly,
    in_unit,
    points,
    precise,
    precise_interval,
)
from leaderboard.web import Address

_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
_MOST_TICKS = 7
_NARROWEST = 1.0
"""Points that an axis shows to each side at least."""
_MARGIN = 4.0
"""Percent of the picture that stay free at either end of an axis."""
SMALLEST = 0.0005
"""A lead that would be written as 0.0 points."""


class Bar(NamedTuple):
    """An interval and its value, in percent of the picture's width."""

    x: str
    width: str
    at: str


@dataclass(frozen=True)
class Axis:
    """A scale of percent or points; places are percent of the picture."""

    start: float
    end: float

    @classmethod
    def around_zero(cls, differences: Iterable[Difference], *, even: bool = False) -> Self:
        """The axis of points that holds these intervals whole, with `even` as far to both sides."""
        bounds = [(100 * one.low, 100 * one.high) for one in differences]
        start = min((low for low, _ in bounds), default=0.0)
        end = max((high for _, high in bounds), default=0.0)
        start, end = min(start, -_NARROWEST), max(end, _NARROWEST)
        if even:
            end = 1.3 * max(-start, end)
            start = -end
        return cls(start, end)

    def x(self, value: float) -> float:
        """Percent from the left edge of a value in percent or points."""
        return _MARGIN + (100 - 2 * _MARGIN) * (value - self.start) / (self.end - self.start)

    def bar(self, found: Score | Difference) -> Bar:
        """Of an interval in shares of 1."""
        left, at, right = (self.x(100 * end) for end in (found.low, found.value, found.high))
        return Bar(f"{left:.2f}%", f"{right - left:.2f}%", f"{at:.2f}%")

    @property
    def zero(self) -> str:
        return f"{self.x(0):.2f}%"

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Place and label of a few round values, without zero."""
        span = self.end - self.start
        step = next((one for one in _STEPS if span / one <= _MOST_TICKS), _STEPS[-1])
        places = range(int(self.start / step) - 1, int(self.end / step) + 2)
        values = [step * place for place in places if place]
        return [
            (f"{self.x(value):.2f}%", f"{value:+g}".replace("-", MINUS))
            for value in values
            if self.start <= value <= self.end
        ]


@dataclass(frozen=True)
class InWords:
    """A difference of two numbers as pages write it."""

    contrast: Contrast
    metric: str = "acc"
    kind: Kind = "task"

    @property
    def known(self) -> Difference | None:
        """None where there is no difference, or it is exactly 0 and has no interval."""
        found = self.contrast
        return found if isinstance(found, Difference) and found.how is not How.SAME else None

    @property
    def value(self) -> str:
        if self.known:
            return signed(self.known.value, self.metric)
        return "0" if isinstance(self.contrast, Difference) else ""

    @property
    def bounds(self) -> str:
        """“2.4 to 4.6”: signs are signs here, so that a dash would be misread."""
        if self.known is None:
            return ""
        return " to ".join(in_unit(end, self.metric) for end in (self.known.low, self.known.high))

    @property
    def claim(self) -> str:
        """`a` where the first side leads beyond chance, `b` where the second does, else empty."""
        if self.known is None or not claimed(self.known, self.kind):
            return ""
        return "a" if self.known.ahead else "b"

    @property
    def lead(self) -> str:
        """How far the leading side lies ahead."""
        return self.value.lstrip(f"+{MINUS}")

    @property
    def verdict(self) -> str:
        if isinstance(self.contrast, NoDifference):
            return self.contrast.why
        if self.contrast.how is How.SAME:
            return "the same score on every question"
        return "beyond chance" if self.claim else "not told apart"

    @property
    def why(self) -> str:
        """Why there is none, or why it is not paired."""
        return self.contrast.why

    @property
    def exactly(self) -> str:
        """In full precision, for those who hover."""
        found = self.contrast
        if isinstance(found, NoDifference):
            return ""
        return f"{precise_interval(found.value, found.low, found.high)}, q = {found.q:.3g}"

    def bar(self, axis: Axis) -> Bar | None:
        return axis.bar(self.known) if self.known else None


def signed(value: float, metric: str = "acc") -> str:
    """A difference with its sign, in points or in the metric's own unit; 0.0 has none."""
    if not is_share(metric):
        return f"{value:+,.3f}".replace("-", MINUS)
    return points(value) if abs(value) >= SMALLEST else "0.0"


@dataclass(frozen=True)
class Headline:
    """The difference that a pair's page is about."""

    sentence: str
    words: InWords
    about: str
    """Which questions it rests on."""
    axis: Axis | None
    """None where it is not drawn."""
    bar: Bar | None


def headline(comparison: Comparison) -> Headline:
    """Who leads by how much."""
    (pair,) = comparison.pairs
    lineup = comparison.lineup
    sentence = _sentence(lineup, pair, [side.name for side in lineup.sides])
    only = lineup.tasks[0] if len(lineup.tasks) == 1 else None
    words = InWords(pair.result, lineup.metric)
    drawn = words.known if not only or only.drawn_to_scale else None
    axis = Axis.around_zero([drawn], even=True) if drawn else None
    counted = [
        found.questions.n
        for task, found in zip(lineup.tasks, pair.by_task, strict=True)
        if isinstance(found, Difference) and found.questions and (task.weight or only)
    ]
    about = f"same {sum(counted):,} questions" if counted else ""
    return Headline(sentence, words, about, axis, words.bar(axis) if axis else None)


def _sentence(lineup: Lineup, pair: Pair, names: Sequence[str]) -> str:
    result, (first, second) = pair.result, names
    if isinstance(result, NoDifference):
        if len(lineup.tasks) == 1 or not pair.differences:
            return f"{first} and {second} have no numbers that compare"
        better, worse, known = pair.tasks.better, pair.tasks.worse, pair.tasks.known
        if better == worse:
            return f"{first} and {second} each lead on {better} of {known} benchmarks"
        if better < worse:
            first, second, better, worse = second, first, worse, better
        trails = f" and trails on {worse}" if worse else ""
        return f"{first} leads {second} on {better} of {known} benchmarks{trails}"
    if result.how is How.SAME:
        return f"{first} and {second} have the same score on every question"
    if not claimed(result):
        return f"{first} and {second} cannot be told apart"
    if not result.ahead:
        first, second = second, first
    only = lineup.tasks[0] if len(lineup.tasks) == 1 else None
    lead = _lead(result.value, lineup.metric)
    return f"{first} leads {second} by {lead}" + (f" on {only.title}" if only else "")


def _lead(value: float, metric: str) -> str:
    """How far two sides lie apart."""
    if not is_share(metric):
        return f"{abs(value):,.3f} in {metric}"
    return "less than 0.1 points" if abs(value) < SMALLEST else f"{100 * abs(value):.1f} points"


# By benchmark, and by part


class Cell(NamedTuple):
    """One side's score as a table has it."""

    value: str
    range: str = ""
    url: str = ""
    exactly: str = ""
    why: str = ""
    """Why there is none."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One benchmark, or one part of it."""

    title: str
    n: int | None
    url: str
    """Of its questions."""
    cells: tuple[Cell, Cell]
    words: InWords
    reading: str
    bar: Bar | None
    style: str = ""
    note: str = ""
    current: bool = False
    deciding: int = 0
    """Of a lead, on how many questions it hangs; 0 where that is not known."""
    deciding_url: str = ""


@dataclass(frozen=True)
class Forest:
    rows: list[Row]
    axis: Axis
    count: int
    """Differences, for all of which together a claim holds."""


def forest(comparison: Comparison, address: Address, current: Task | None) -> Forest:
    """A row for each benchmark, what the first side leads by most on top."""
    (pair,) = comparison.pairs
    lineup = comparison.lineup
    results = sorted(zip(lineup.tasks, pair.by_task, strict=True), key=_lead_first)
    axis = Axis.around_zero(
        found for task, found in results if isinstance(found, Difference) and task.drawn_to_scale
    )
    rows = []
    for task, contrast in results:
        words = InWords(contrast, task.metric)
        here = address.at(task=task.key, part="", show="", page="", doc="")
        hangs_on = _deciding(contrast) if words.claim else 0
        first, second = (
            cell_of(*both, metric=task.metric) for both in zip(task.numbers, task.why, strict=True)
        )
        rows.append(
            Row(
                title=task.title,
                style=task.style,
                n=task.n,
                note="" if task.weight or not lineup.averaged else "not in the average",
                url=here.url("questions"),
                current=task is current,
                cells=(first, second),
                words=words,
                reading=_reading(lineup, words),
                bar=words.bar(axis) if task.drawn_to_scale else None,
                deciding=hangs_on,
                deciding_url=here.url("questions", show="decide") if hangs_on else "",
            )
        )
    return Forest(rows, axis, comparison.count)


def forest_of_parts(
    parts: Sequence[PartOfTask], task: Task, lineup: Lineup, address: Address
) -> Forest | None:
    """A row for each part of a task; None for a task without parts."""
    if not parts:
        return None
    known = [part.contrast for part in parts if isinstance(part.contrast, Difference)]
    axis = Axis.around_zero(known)
    rows = []
    for part in parts:
        words = InWords(part.contrast, task.metric, "part")
        first, second = (
            Cell(in_unit(score, task.metric), exactly=precise(score)) for score in part.scores
        )
        rows.append(
            Row(
                title=part.name,
                n=part.n,
                url=address.url("questions", part=part.name, page="", doc=""),
                current=part.name == address["part"],
                cells=(first, second),
                words=words,
                reading=_reading(lineup, words),
                bar=words.bar(axis) if task.drawn_to_scale else None,
            )
        )
    return Forest(rows, axis, len(known))


def _lead_first(result: tuple[Task, Contrast]) -> tuple[int, float]:
    """Those on one scale by the first side's lead, then the others, then those without any."""
    task, contrast = result
    if isinstance(contrast, NoDifference):
        return 2, 0.0
    return (0, -contrast.value) if task.drawn_to_scale else (1, 0.0)


def cell_of(number: Number | None, why: str, *, metric: str) -> Cell:
    if number is None:
        return Cell("", why=why or "not measured")
    return Cell(
        value=in_unit(number.score.value, metric),
        range=bounds_in(number.score, metric),
        url=run_url(number.run),
        exactly=exactly(number.score),
    )


def _deciding(contrast: Contrast) -> int:
    questions = contrast.questions if isinstance(contrast, Difference) else None
    places = questions.deciding if questions else None
    return 0 if places is None else len(places)


def _reading(lineup: Lineup, words: InWords) -> str:
    first, second = (f"{side.letter} {side.name}" for side in lineup.sides)
    return reading(words.contrast, words.metric, first, second, words.kind)


# The other ways of asking


@dataclass(frozen=True)
class Styles:
    """What the averages in the suite's other styles say of the two."""

    leads: list[tuple[str, str, str]]
    """Of every other style its name, its label and the first side's lead."""
    turned: str = ""
    """Style in which one leads beyond chance who does not in the shown one; empty for none."""
    label: str = ""
    words: InWords | None = None
    url: str = ""
    told_apart: bool = False
    """Whether the two are told apart in the shown style, too: then the style turns them round."""


def other_styles(query: Query, comparison: Comparison) -> Styles | None:
    """None where there is no other style with averages of both.

    The averages alone say in which styles the order may be another one; only there the two are
    compared question by question, or in all where they are not told apart in the shown one.
    """
    board, average = query.board, comparison.pairs[0].average
    if board is None or query.suite is None or isinstance(average, NoDifference):
        return None
    variants = [board.models[row].variant for row in query.rows]
    leads: list[tuple[str, str, str]] = []
    turned: dict[str, Difference] = {}
    for style in dict.fromkeys((OWN, *board.styles)):
        other = chosen_board(query.suite, BoardQuery(style=style, at=query.address["at"]))
        if style == board.style or other is None or not other.row_of.keys() >= set(variants):
            continue
        rows = [other.row_of[variant] for variant in variants]
        first, second = (other.average_of(row) for row in rows)
        if first is None or second is None:
            continue
        lead = first.value - second.value
        leads.append((style, _label(style), signed(lead)))
        if lead * average.value < 0 or not claimed(average):
            contrast = compare(lineup_of_models(other, rows)).pairs[0].average
            if isinstance(contrast, Difference) and claimed(contrast):
                turned[style] = contrast
    if not leads or not turned:
        return Styles(leads) if leads else None
    style = max(turned, key=lambda style: abs(turned[style].value))
    return Styles(
        leads,
        turned=style,
        label=_label(style),
        words=InWords(turned[style]),
        url=query.address.url(style=style, task="", part="", page="", doc="", show=""),
        told_apart=claimed(average),
    )


def _label(style: str) -> str:
    return str(Style(style).label) if style in Style.values else "each task’s own style"


# Each part of a task


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
