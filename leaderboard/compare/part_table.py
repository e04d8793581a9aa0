"""The parts of a task for their template: who is ahead on which, and the questions of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.compare.differences import claimed
from leaderboard.compare.forest import Axis, Mark
from leaderboard.compare.lineup import Task
from leaderboard.compare.pair import Difference, How
from leaderboard.compare.parts import OfPart
from leaderboard.compare.words import p_value, reading, signed, state
from leaderboard.templatetags.figures import margin_in
from leaderboard.web.address import Address


@dataclass(frozen=True)
class PartRow:
    """One part; texts are empty where there is no difference."""

    name: str
    url: str
    """Of the questions of this part alone."""
    chosen: bool
    n: int
    base: float
    other: float
    value: str
    half: str
    """± half of the interval, or both its ends; empty where there is none."""
    full: str
    """In full precision, for those who hover."""
    why: str
    """Why the difference is not paired."""
    mark: Mark | None
    p: str
    state: str
    """One of `compare_words.State`; empty where there is no difference."""
    who: str
    """`base` or `other` where one is ahead, else empty."""
    reading: str


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
    found = [one.found for one in parts if isinstance(one.found, Difference)]
    axis = Axis.around(found) if found and task.drawn_to_scale else None
    rows = [_row(one, task, names, axis, address) for one in parts]
    if not rows:
        return None
    ahead = [row.who for row in rows]
    return PartTable(rows, axis, len(found), ahead.count("other"), ahead.count("base"))


def _row(
    one: OfPart, task: Task, names: tuple[str, str], axis: Axis | None, address: Address
) -> PartRow:
    found, metric = one.found, task.metric
    value = half = full = why = p = told = who = ""
    mark = None
    if isinstance(found, Difference):
        alone = found.how is How.SAME
        value = "0" if alone else signed(found.value, metric)
        half = "" if alone else margin_in(found, metric)
        full = f"{found.value!r}, 95% interval {found.low!r} to {found.high!r}"
        why, p = found.why, p_value(found.p_bh)
        mark = axis.mark(found) if axis else None
        told = state(found, metric, by="part")
        if claimed(found, by="part"):
            who = "other" if found.ahead else "base"
    return PartRow(
        name=one.name,
        url=address.url("questions", part=one.name, page="", doc=""),
        chosen=one.name == address["part"],
        n=one.n,
        base=one.base,
        other=one.other,
        value=value,
        half=half,
        full=full,
        why=why,
        mark=mark,
        p=p,
        state=told,
        who=who,
        reading=reading(found, metric, *names, by="part"),
    )
