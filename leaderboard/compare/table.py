"""The table of differences, made ready for its template: text, place in the plot, reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from leaderboard.compare.differences import By, Compared, Found, claimed
from leaderboard.compare.lineup import Number, Side, Task
from leaderboard.compare.pair import Difference, How, Tally
from leaderboard.compare.words import p_value, reading, signed, state
from leaderboard.templatetags.figures import margin_in, precise_interval
from leaderboard.web import Address

MIDDLE, HALF = 50.0, 46.0
"""Percent: where zero is, and how far the axis reaches to each side."""
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
_MOST_TICKS = 3
_NARROWEST = 1.0
"""Points that an axis shows to each side at least."""


@dataclass(frozen=True)
class Mark:
    """One interval, its ends as the drawing writes them."""

    low: str
    x: str
    high: str


@dataclass(frozen=True)
class Axis:
    """As far to the left as to the right of zero, in points; places are percent of the cell."""

    reach: float

    @classmethod
    def around(cls, differences: Iterable[Difference]) -> Self:
        """The axis that holds every one of these intervals whole."""
        ends = [abs(end) for difference in differences for end in (difference.low, difference.high)]
        return cls(max(100 * max(ends, default=0.0), _NARROWEST))

    def x(self, value: float) -> float:
        """Percent from the cell's left edge of a difference in shares of 1."""
        return MIDDLE + HALF * 100 * value / self.reach

    def mark(self, found: Difference) -> Mark | None:
        """None where there is nothing to draw: the same score on every question."""
        if found.how is How.SAME:
            return None
        low, x, high = (f"{self.x(end):.2f}%" for end in (found.low, found.value, found.high))
        return Mark(low, x, high)

    @property
    def ticks(self) -> list[tuple[str, str]]:
        """Place and label of a few round values on both sides."""
        fitting = (step for step in _STEPS if self.reach / step < _MOST_TICKS + 1)
        step = next(fitting, _STEPS[-1])
        count = min(int(self.reach / step), _MOST_TICKS)
        values = [sign * step * place for place in range(1, count + 1) for sign in (-1, 1)]
        return [
            (f"{self.x(value / 100):.2f}", f"{value:+g}".replace("-", "−"))
            for value in sorted(values)
        ]


@dataclass(frozen=True, kw_only=True)
class Told:
    """A difference as a table tells it; all but its reading is empty where there is none."""

    reading: str
    value: str = ""
    half: str = ""
    """± half of the interval, or both its ends; empty where there is none."""
    full: str = ""
    """In full precision, for those who hover."""
    mark: Mark | None = None
    state: str = ""
    """One of `words.State`."""
    who: str = ""
    """`base` or `other` where one is ahead, else empty."""


def told(
    found: Found, metric: str, names: tuple[str, str], axis: Axis | None, by: By = "task"
) -> Told:
    """`names` are those of the baseline and of the other side."""
    text = reading(found, metric, *names, by=by)
    if not isinstance(found, Difference):
        return Told(reading=text)
    alone = found.how is How.SAME
    return Told(
        reading=text,
        value="0" if alone else signed(found.value, metric),
        half="" if alone else margin_in(found, metric),
        full=precise_interval(found.value, found.low, found.high),
        mark=axis.mark(found) if axis else None,
        state=state(found, metric, by),
        who=("other" if found.ahead else "base") if claimed(found, by) else "",
    )


@dataclass(frozen=True, kw_only=True)
class Cell(Told):
    """One side against the baseline on one task, or on average."""

    side: Side
    found: Found
    number: Number | None
    tally: Tally | None = None
    resolved: str = ""
    p: str = ""
    p_holm: str = ""
    p_bh: str = ""
    deciding: int = 0
    """Of a lead, on how many questions it hangs; 0 where that is not known."""
    deciding_url: str = ""
    """Of those questions."""


@dataclass(frozen=True)
class Line:
    """One task with a cell for each side but the baseline."""

    task: Task
    url: str
    chosen: bool
    base: Number | None
    base_why: str
    cells: list[Cell]


@dataclass(frozen=True)
class Summary:
    """One side against the baseline over all tasks."""

    side: Side
    average: Cell
    tasks: Tally
    questions: Tally
    url: str
    chosen: bool


@dataclass(frozen=True)
class Table:
    lines: list[Line]
    averages: list[Cell]
    """Empty where the tasks make no average."""
    summaries: list[Summary]
    axis: Axis
    baseline: Side
    others: list[Side]


def table(compared: Compared, address: Address, chosen: Task | None, vs: int) -> Table:
    """Everything against the baseline; `chosen` and `vs` are what is shown in detail."""
    lineup, base = compared.lineup, compared.base
    axis = Axis.around(_drawn(compared))
    lines = [
        Line(
            task=task,
            url=address.url("task", task=task.key, part="", show="", page="", doc=""),
            chosen=task is chosen,
            base=task.numbers[base],
            base_why=task.why[base],
            cells=[
                _decided(
                    compared,
                    _cell(compared, pair.side, pair.by_task[place], axis, task),
                    task,
                    address,
                )
                for pair in compared.against
            ],
        )
        for place, task in enumerate(lineup.tasks)
    ]
    summaries = [
        Summary(
            side=lineup.sides[pair.side],
            average=_cell(compared, pair.side, pair.average, axis, None),
            tasks=pair.tasks,
            questions=compared.questions(pair),
            url=address.url("task", vs=lineup.sides[pair.side].key, page="", doc=""),
            chosen=pair.side == vs,
        )
        for pair in compared.against
    ]
    return Table(
        lines=lines,
        averages=[summary.average for summary in summaries] if lineup.averaged else [],
        summaries=summaries,
        axis=axis,
        baseline=lineup.sides[base],
        others=[lineup.sides[pair.side] for pair in compared.against],
    )


def _drawn(compared: Compared) -> list[Difference]:
    """The differences that one axis of points can hold."""
    found = [
        one
        for against in compared.against
        for task, one in zip(compared.lineup.tasks, against.by_task, strict=True)
        if task.drawn_to_scale
    ]
    found += [against.average for against in compared.against]
    return [difference for difference in found if isinstance(difference, Difference)]


def _decided(compared: Compared, cell: Cell, task: Task, address: Address) -> Cell:
    """Where one is ahead, with the questions that decide it."""
    vs = "" if cell.side is _first_other(compared) else cell.side.key
    questions = cell.found.questions if isinstance(cell.found, Difference) else None
    if not cell.who or questions is None or questions.deciding is None:
        return cell
    gone = dict.fromkeys(("part", "page", "doc"), "")
    url = address.url("questions", task=task.key, vs=vs, show="decide", **gone)
    return replace(cell, deciding=len(questions.deciding), deciding_url=url)


def _first_other(compared: Compared) -> Side:
    """The side that is shown in detail unless the address names another."""
    return compared.lineup.sides[compared.against[0].side]


def _cell(compared: Compared, side: int, found: Found, axis: Axis, task: Task | None) -> Cell:
    lineup = compared.lineup
    base, other = lineup.sides[compared.base], lineup.sides[side]
    number = task.numbers[side] if task else None
    drawn = axis if task is None or task.drawn_to_scale else None
    said = told(found, task.metric if task else "acc", (base.name, other.name), drawn)
    cell = Cell(side=other, found=found, number=number, **vars(said))
    if not isinstance(found, Difference):
        return cell
    return replace(
        cell,
        full=f"{said.full}, q = {found.q:.3g}",
        tally=found.questions.tally if found.questions else None,
        resolved="yes" if found.resolved else "no",
        p=p_value(found.p_value),
        p_holm=p_value(found.p_holm),
        p_bh=p_value(found.p_bh),
    )
