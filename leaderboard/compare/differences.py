"""How far is each model from the baseline, over all tasks and on average?

Read `compare` first; one difference is made in `pair.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Literal

from evalcore.stats import benjamini_hochberg, holm
from leaderboard.compare.lineup import Lineup, vectors_of
from leaderboard.compare.pair import Apart, Difference, How, Tally, difference, scaled
from leaderboard.samples import Vector
from leaderboard.stats import Share, total_difference

LEVEL = 0.05

Found = Difference | Apart
By = Literal["task", "part"]
"""What a difference is one of."""


@dataclass(frozen=True)
class Against:
    """One side against the baseline."""

    side: int
    by_task: tuple[Found, ...]
    average: Found

    @property
    def tasks(self) -> Tally:
        """Better and worse are what is claimed of the tasks."""
        return sum((_claim(found) for found in self.by_task), Tally())


@dataclass(frozen=True, eq=False)
class Compared:
    """Every other side against the baseline."""

    lineup: Lineup
    base: int
    against: tuple[Against, ...]
    vectors: Mapping[int, Vector]

    @property
    def count(self) -> int:
        """Differences by task on the page, for which Holm's correction is."""
        return sum(isinstance(found, Difference) for a in self.against for found in a.by_task)

    def of(self, side: int) -> Against:
        return next(pair for pair in self.against if pair.side == side)

    def questions(self, against: Against) -> Tally:
        """Over all tasks; those of a task without scores by question are missing."""
        return sum(
            (
                found.questions.tally
                if isinstance(found, Difference) and found.questions
                else Tally(missing=task.n or 0)
                for task, found in zip(self.lineup.tasks, against.by_task, strict=True)
            ),
            Tally(),
        )


def compare(lineup: Lineup, base: int) -> Compared:
    """Every other side of a lineup against the side at place `base`."""
    vectors = vectors_of(lineup.tasks)
    others = [place for place in range(len(lineup.sides)) if place != base]
    found: list[list[Found]] = [
        [difference(task, base, side, vectors) for task in lineup.tasks] for side in others
    ]
    averages = [_average(lineup, base, side, row) for side, row in zip(others, found, strict=True)]
    against = zip(others, corrected(found), corrected([averages])[0], strict=True)
    return Compared(lineup, base, tuple(starmap(Against, against)), vectors)


def claimed(found: Difference, by: By = "task") -> bool:
    """Whether a difference stands when all of its kind on the page are allowed for.

    Over tasks none of the claims may be wrong (Holm), over parts one in twenty (Benjamini and
    Hochberg).
    """
    p = found.p_holm if by == "task" else found.p_bh
    return found.clear and p <= LEVEL


def _claim(found: Found) -> Tally:
    if isinstance(found, Apart):
        return Tally(missing=1)
    if not claimed(found):
        return Tally(equal=1)
    return Tally(better=1) if found.ahead else Tally(worse=1)


def corrected(found: Sequence[Sequence[Found]]) -> list[tuple[Found, ...]]:
    """With p-values that allow for how many there are: over all rows (Holm), and within a row."""
    by_pair = [[one.p_value for one in row if isinstance(one, Difference)] for row in found]
    of_page = iter(_adjusted(holm, [p for row in by_pair for p in row]))
    rows: list[tuple[Found, ...]] = []
    for row, p_values in zip(found, by_pair, strict=True):
        of_pair = iter(_adjusted(benjamini_hochberg, p_values))
        rows.append(
            tuple(
                replace(one, p_holm=next(of_page), p_bh=next(of_pair))
                if isinstance(one, Difference)
                else one
                for one in row
            )
        )
    return rows


def _adjusted(correct: Callable[[list[float]], Any], p_values: list[float]) -> list[float]:
    return [float(p) for p in correct(p_values)] if p_values else []


def _average(lineup: Lineup, base: int, side: int, found: Sequence[Found]) -> Found:
    """The difference of the suite's averages; none where a task that counts has none."""
    if not lineup.averaged:
        return Apart("no average is made of these")
    shares: list[Share] = []
    counted: list[Difference] = []
    for task, one in zip(lineup.tasks, found, strict=True):
        if task.weight and (isinstance(one, Apart) or not one.shares):
            lacking = lineup.sides[base if task.numbers[base] is None else side]
            return Apart(f"{lacking.name} has no number for {task.title} that compares")
        if task.weight and isinstance(one, Difference):
            shares += [scaled(share, task.weight) for share in one.shares]
            counted.append(one)
    total = total_difference(shares)
    unpaired = sum(found.how is How.UNPAIRED for found in counted)
    return Difference(
        value=total.difference,
        low=total.low,
        high=total.high,
        p_value=total.p_value,
        q=total.q,
        how=How.SAME if all(found.how is How.SAME for found in counted) else How.PAIRED,
        why=f"{unpaired} of {len(counted)} tasks are not paired" if unpaired else "",
    )
