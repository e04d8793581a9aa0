"""What a comparison says, in sentences that can be quoted alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from leaderboard.compare.differences import Against, By, Compared, claimed
from leaderboard.compare.pair import Apart, Difference, How
from leaderboard.compare.pins import Pins, Setting
from leaderboard.models.task import is_share
from leaderboard.templatetags.figures import MINUS, in_unit, points

NOTABLE = 0.05
"""A difference of so many points as a share of 1: what would miss it rests on too few questions."""
_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class State(StrEnum):
    """What one difference says; each has a mark of its own."""

    AHEAD = "ahead"
    OPEN = "open"
    """Not told apart, by a measurement that would have shown a notable difference."""
    FEW = "few"
    """Not told apart, and a notable difference would be missed more often than once in five."""


@dataclass(frozen=True)
class Verdict:
    """One bold sentence and one on how it is known; `kind` is a class of the style sheet."""

    kind: str
    sentence: str
    how: str


def asked_alike(pins: Pins, sides: int) -> Verdict:
    """Whether they were asked the same thing, and what was computed otherwise."""
    asked, computed = pins.asked_otherwise, pins.computed_otherwise
    they = "Both" if sides == 2 else "All"
    if asked:
        names = {setting.name for setting in asked}
        refused = names & {"Prompt style", "Questions"}
        if refused:
            what = _names(sorted(name.lower() for name in refused))
            return Verdict(
                "fail",
                f"They were not asked the same thing: other {what}.",
                "Where that is so no difference is computed: it would be one of the question, not "
                "of the model.",
            )
        return Verdict(
            "warn",
            f"They were asked the same questions, but not in the same way: {_list(asked)}.",
            "The differences below are as much of the way of asking as of the models.",
        )
    if computed:
        return Verdict(
            "ok",
            f"{they} were asked the same thing. Computed otherwise: {_list(computed)}.",
            "Questions, prompts’ making, examples and scoring are the same by their digests.",
        )
    return Verdict(
        "ok",
        f"{they} were asked the same thing and computed alike.",
        "Every setting that is recorded agrees: questions, examples, scoring, precision, versions.",
    )


def verdict(compared: Compared) -> Verdict | None:
    """Who is ahead; None where nothing can be said."""
    sides, base = compared.lineup.sides, compared.lineup.sides[compared.base]
    averaged = [pair for pair in compared.against if isinstance(pair.average, Difference)]
    if len(compared.against) == 1:
        (only,) = compared.against
        other = sides[only.side].name
        if isinstance(only.average, Difference):
            return _pair(only.average, "acc", base.name, other, _average_of(compared, only))
        if len(only.by_task) > 1:
            return _over_tasks(compared, only)
        (found,) = only.by_task
        if isinstance(found, Apart):
            return None
        metric = compared.lineup.tasks[0].metric
        return _pair(found, metric, base.name, other, _of_task(compared, found))
    if len(averaged) == len(compared.against):
        return _of_several(compared)
    return None


def headline(compared: Compared) -> str:
    """The verdict, which names all, without its full stop; the names alone where there is none."""
    said = verdict(compared)
    return said.sentence.rstrip(".") if said else _names([s.name for s in compared.lineup.sides])


def _pair(found: Difference, metric: str, base: str, other: str, basis: str) -> Verdict:
    unit = " points" if is_share(metric) else f" in {metric}"
    if found.how is How.SAME:
        return Verdict(
            "even",
            f"{base} and {other} have the same score on every question.",
            f"{basis} The difference is exactly 0, so nothing here tells how far apart they would "
            "be on other questions.",
        )
    if not found.clear:
        return Verdict(
            "even",
            f"{base} and {other} cannot be told apart: the difference is "
            f"{signed(found.value, metric)}{unit} ({bounds(found, metric)}).",
            basis,
        )
    first, second = (other, base) if found.ahead else (base, other)
    ends = sorted((abs(found.low), abs(found.high)))
    resolved = (
        "A difference this large is found in four of five such measurements, or more often."
        if found.resolved
        else "A difference this large is missed more often than once in five such measurements."
    )
    return Verdict(
        "ok",
        f"{first} is ahead of {second} by {in_unit(abs(found.value), metric)}{unit} "
        f"({in_unit(ends[0], metric)} to {in_unit(ends[1], metric)}).",
        f"{basis} {resolved}",
    )


def _average_of(compared: Compared, against: Against) -> str:
    counted = sum(task.weight > 0 for task in compared.lineup.tasks)
    average = against.average
    tasks = f"{_number(counted)} task{'' if counted == 1 else 's'}"
    unpaired = f", {average.why}" if isinstance(average, Difference) and average.why else ""
    return (
        f"Average of {tasks} on the same questions{unpaired}. A hard question is hard for both, "
        "so this interval is narrower than those of the two scores."
    )


def _of_task(compared: Compared, found: Difference) -> str:
    title = compared.lineup.tasks[0].title
    if found.how is How.UNPAIRED:
        return f"{title}, as two independent scores: {found.why}."
    return f"{title}, question by question: one that is hard is hard for both."


def _over_tasks(compared: Compared, against: Against) -> Verdict:
    tally, other = against.tasks, compared.lineup.sides[against.side].name
    average = against.average
    why = average.why if isinstance(average, Apart) else ""
    told = tally.better + tally.worse + tally.equal
    return Verdict(
        "ok" if tally.better or tally.worse else "even",
        f"{other} is ahead of {compared.lineup.sides[compared.base].name} on {tally.better} of "
        f"{told} tasks and behind on {tally.worse}; on {tally.equal} the two cannot be told apart.",
        f"There is no difference of averages: {why}.",
    )


def _of_several(compared: Compared) -> Verdict:
    """Every other model against the baseline; p-values of the averages after Holm."""
    sides = compared.lineup.sides
    groups: dict[str, list[str]] = {"ahead": [], "behind": [], "not told apart": []}
    for pair in compared.against:
        if not isinstance(pair.average, Difference):
            continue
        if not claimed(pair.average):
            groups["not told apart"].append(sides[pair.side].name)
        else:
            groups["ahead" if pair.average.ahead else "behind"].append(sides[pair.side].name)
    base = sides[compared.base].name
    said = [
        text.format(_names(names), "are" if len(names) > 1 else "is")
        for text, names in (
            ("{} {} ahead", groups["ahead"]),
            ("{} {} behind", groups["behind"]),
            ("{} cannot be told apart from it", groups["not told apart"]),
        )
        if names
    ]
    return Verdict(
        "ok" if groups["ahead"] or groups["behind"] else "even",
        f"Against {base}: {'; '.join(said)}.",
        "Averages on the same questions, held to a stricter measure because there are "
        f"{len(compared.against)} comparisons with one baseline.",
    )


def state(found: Difference, metric: str, by: By = "task") -> State:
    """The one verdict on a difference. What is notable is known of points only."""
    if claimed(found, by):
        return State.AHEAD
    coarse = is_share(metric) and found.detectable > NOTABLE
    return State.FEW if coarse else State.OPEN


def reading(found: Difference | Apart, metric: str, base: str, other: str, by: By = "task") -> str:
    """The same in words."""
    if isinstance(found, Apart):
        return found.why
    if found.how is How.SAME:
        return "same on every question"
    said = {State.OPEN: "not told apart", State.FEW: "too few questions"}
    ahead = f"{other if found.ahead else base} ahead"
    return said.get(state(found, metric, by), ahead)


def beats(compared: Compared, against: Against) -> list[str]:
    """On which tasks one is ahead of the other: the verdicts of the table, in sentences."""
    base, other = compared.lineup.sides[compared.base], compared.lineup.sides[against.side]
    better: list[str] = []
    worse: list[str] = []
    for task, found in zip(compared.lineup.tasks, against.by_task, strict=True):
        if isinstance(found, Difference) and claimed(found):
            (better if found.ahead else worse).append(task.title)
    return [
        f"{first.name} is ahead of {second.name} on {_names(titles)}."
        for first, second, titles in ((other, base, better), (base, other, worse))
        if titles
    ]


def signed(value: float, metric: str = "acc") -> str:
    """A difference with its sign, in points or in the metric's own unit."""
    return points(value) if is_share(metric) else f"{value:+,.3f}".replace("-", MINUS)


def bounds(found: Difference, metric: str = "acc") -> str:
    return f"{signed(found.low, metric)} to {signed(found.high, metric)}"


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _list(settings: Sequence[Setting]) -> str:
    return _names([setting.name[:1].lower() + setting.name[1:] for setting in settings])


def _names(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _number(n: int) -> str:
    return _SMALL[n] if n < len(_SMALL) else f"{n:,}"
