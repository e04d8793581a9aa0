"""Three to six models: who beats whom, their averages, and their scores by benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

from leaderboard.compare.differences import Comparison, Difference, Tally, claimed
from leaderboard.compare.pair import Axis, Bar, Cell, InWords, cell_of
from leaderboard.compare.pins import in_words
from leaderboard.compare.query import Query
from leaderboard.compare.table import Side, Task
from leaderboard.models.task import Style, is_share
from leaderboard.snapshot import Score

COUNTS = ("no", "one", "two", "three", "four", "five")


class Place(NamedTuple):
    """One side in the list of averages."""

    side: Side
    bar: Bar | None
    without_url: str


class Meeting(NamedTuple):
    """One cell of the matrix: the side of the row less that of the column."""

    column: Side
    url: str
    """Of the two alone; empty on the diagonal."""
    words: InWords | None
    kind: str
    """`win`, `lose`, `tie`, `none`, or `self` on the diagonal."""
    tasks: Tally
    """On how many benchmarks either leads."""


class DotRow(NamedTuple):
    """The scores of all sides on one benchmark."""

    title: str
    middle: float
    """Pixels from the top."""
    bottom: float
    dots: list[tuple[Side, float, float]]
    """Each with its place, from the left."""
    best: str


class Dots(NamedTuple):
    """Scores by benchmark, drawn for one width; pixels."""

    width: int
    height: float
    rows: list[DotRow]
    ticks: list[tuple[float, str]]


@dataclass(frozen=True)
class Six:
    """The page of three to six."""

    sentence: str
    """With letters, as the page's title has it."""
    shared: str
    """With names, for places that show it alone."""
    order: list[int]
    """Places of the sides, the best average first."""
    places: list[Place]
    ticks: list[tuple[str, str]]
    matrix: list[tuple[Side, list[Meeting]]]
    wide: Dots | None
    thin: Dots | None
    scores: list[tuple[Task, list[Cell]]]
    """The same scores as a table."""


def six(comparison: Comparison, query: Query) -> Six:
    lineup, sides = comparison.lineup, comparison.lineup.sides
    order = sorted(range(len(sides)), key=lambda place: _best_first(sides[place]))
    known = [side.score for side in sides if side.score]
    axis = _axis(known) if known and is_share(lineup.metric) else None
    return Six(
        sentence=_sentence(comparison, order, letters=True),
        shared=_sentence(comparison, order, letters=False),
        order=order,
        places=[
            Place(
                side,
                axis.bar(side.score) if axis and side.score else None,
                query.url(other.key for other in sides if other is not side),
            )
            for side in (sides[place] for place in order)
        ],
        ticks=axis.ticks if axis else [],
        matrix=[
            (sides[row], [_meeting(comparison, row, column, query) for column in order])
            for row in order
        ],
        wide=_dots(comparison, width=1376, labels=300),
        thin=_dots(comparison, width=358, labels=150),
        scores=[
            (
                task,
                [
                    cell_of(*both, metric=task.metric)
                    for both in zip(task.numbers, task.why, strict=True)
                ],
            )
            for task in lineup.tasks
        ],
    )


def _best_first(side: Side) -> float:
    return -side.score.value if side.score else 1.0


def _meeting(comparison: Comparison, row: int, column: int, query: Query) -> Meeting:
    sides, metric = comparison.lineup.sides, comparison.lineup.metric
    if row == column:
        return Meeting(sides[column], "", None, "self", Tally())
    contrast, tasks = comparison.result(row, column)
    words = InWords(contrast, metric)
    # Without averages nothing is claimed of two models as a whole.
    compared = isinstance(contrast, Difference) or tasks.known
    kind = {"a": "win", "b": "lose"}.get(words.claim, "tie" if compared else "none")
    url = query.url((sides[row].key, sides[column].key))
    return Meeting(sides[column], url, words, kind, tasks)


# In words


def _sentence(comparison: Comparison, order: Sequence[int], *, letters: bool) -> str:
    """Who leads whom, and who cannot be told apart, of the averages as far as they are known."""
    sides = comparison.lineup.sides
    names = [side.letter if letters else side.name for side in sides]
    order = [
        place
        for place in order
        if any(
            isinstance(comparison.result(place, other)[0], Difference)
            for other in range(len(sides))
            if other != place
        )
    ]
    missing = [name for place, name in enumerate(names) if place not in order]
    if len(order) < 2:
        return f"{in_words(names)} have no averages that compare" if letters else in_words(names)
    groups = _groups(comparison, order)
    top = groups[0]
    beaten = [
        place
        for place in order
        if place not in top and all(_beats(comparison, one, place) for one in top)
    ]
    told = set(top)
    parts = []
    if len(top) > 1:
        parts.append(f"{in_words([names[p] for p in top])} cannot be told apart")
    if beaten:
        who = names[top[0]] if len(top) == 1 else "both" if len(top) == 2 else "all"
        verb = "leads" if len(top) == 1 else "lead"
        whom = COUNTS[len(beaten)] if letters else in_words([names[p] for p in beaten])
        parts.append(f"{who} {verb} {whom}")
        told |= set() if letters else set(beaten)
    alike = max(groups[1:], key=len, default=[])
    if len(alike) > 1:
        parts.append(f"{in_words([names[p] for p in alike])} cannot be told apart")
        told |= set(alike)
    sentence = "; ".join(parts) or f"{in_words([names[p] for p in order])} compared"
    rest = [] if letters else [names[p] for p in order if p not in told] + missing
    return f"{sentence}; compared with {in_words(rest)}" if rest else sentence


def _groups(comparison: Comparison, order: Sequence[int]) -> list[list[int]]:
    """Neighbours of whom no two are told apart, the best first."""
    groups: list[list[int]] = []
    for place in order:
        if groups and not any(claimed(comparison.result(one, place)[0]) for one in groups[-1]):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _beats(comparison: Comparison, one: int, other: int) -> bool:
    return InWords(comparison.result(one, other)[0]).claim == "a"


# By benchmark, as dots

RADIUS = 6.5
LIFT = 13.0
"""Pixels by which a mark that would cover another one is lifted or lowered."""
APART = 46
"""Pixels from row to row, where no more than three marks would cover one another."""
TOP = 20.0
"""Pixels above the first row, for the scale."""


def _axis(scores: Sequence[Score]) -> Axis:
    """A scale of percent with some room on both sides."""
    low = min(score.low for score in scores)
    high = max(score.high for score in scores)
    return Axis(100 * low - 0.5, 100 * high + 0.5)


def _dots(comparison: Comparison, *, width: int, labels: int) -> Dots | None:
    """None where no score is percent."""
    tasks = [task for task in comparison.lineup.tasks if task.drawn_to_scale]
    known = [100 * number.score.value for task in tasks for number in task.numbers if number]
    if not known:
        return None
    start, end = 10 * floor(min(known) / 10), 10 * ceil(max(known) / 10)
    left, right = labels + RADIUS, width - 52.0

    def x(percent: float) -> float:
        return round(left + (right - left) * (percent - start) / max(end - start, 1), 1)

    times = Counter(task.title for task in tasks)
    rows: list[DotRow] = []
    top = TOP
    for task in sorted(tasks, key=lambda task: -(task.n or 0)):
        values = [
            (100 * number.score.value, place) for place, number in enumerate(task.numbers) if number
        ]
        if not values:
            continue
        marks = sorted((x(value), place) for value, place in values)
        lifts = _lifts([at for at, _ in marks])
        height = APART + 2 * max(0.0, max(map(abs, lifts)) - LIFT)
        middle = top + height / 2
        rows.append(
            DotRow(
                title=task.title if times[task.title] == 1 else _with_style(task),
                middle=middle,
                bottom=top + height,
                dots=[
                    (comparison.lineup.sides[place], at, middle + lift)
                    for (at, place), lift in zip(marks, lifts, strict=True)
                ],
                best=f"{max(values)[0]:.1f}",
            )
        )
        top += height
    ticks = [(x(value), str(value)) for value in range(start, end + 1, 10 if width > 600 else 20)]
    return Dots(width, top, rows, ticks)


def _with_style(task: Task) -> str:
    return f"{task.title}, {Style(task.style).label}"


def _lifts(places: Sequence[float]) -> list[float]:
    """How far each mark, from left to right, is moved up or down so that none covers another."""
    levels: list[list[float]] = []
    lifts = []
    for at in places:
        level = next(
            (n for n, used in enumerate(levels) if at - used[-1] >= 2 * RADIUS), len(levels)
        )
        if level == len(levels):
            levels.append([])
        levels[level].append(at)
        # 0, then once up, once down, twice up ...
        lifts.append((level + 1) // 2 * LIFT * (-1 if level % 2 else 1))
    return lifts
