"""How far each side lies from each other one: on one task, on the average, and how sure that is.

Where both sides' scores by question are known a difference is paired (docs/method.md); where they
are not, its error is that of two independent scores, and it says so. Begin with `compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from math import inf
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from evalcore.stats import benjamini_hochberg, difference_interval, holm, mcnemar
from evalcore.stats.interval import Interval, normal_quantile
from evalcore.stats.resolution import POWER, power_quantile
from leaderboard.compare.table import Lineup, Number, Task, vectors_of
from leaderboard.models.task import is_share
from leaderboard.samples import Vector
from leaderboard.snapshot import Floats
from leaderboard.stats import Places, Share, deciding, paired_share, total_difference

LEVEL = 0.05
NOTABLE = 0.05
"""A difference of so many points as a share of 1: what would miss it rests on too few questions."""
_Z = normal_quantile(0.95)


class How(StrEnum):
    PAIRED = "paired"
    UNPAIRED = "unpaired"
    SAME = "same"
    """The same score on every question: exactly 0, and nothing to make an interval of."""


class Tally(NamedTuple):
    """How many questions, or tasks, the first side does better, worse or as well on."""

    better: int = 0
    worse: int = 0
    equal: int = 0
    missing: int = 0

    @property
    def known(self) -> int:
        return self.better + self.worse + self.equal


class Crosstab(NamedTuple):
    """Which of two sides was right on how many questions."""

    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def n(self) -> int:
        return sum(self)

    @property
    def parting(self) -> int:
        return self.only_first + self.only_second

    @property
    def both_or_first(self) -> int:
        return self.both + self.only_first

    @property
    def any_right(self) -> int:
        return self.both + self.parting

    @property
    def p_value(self) -> float:
        """McNemar's, exact."""
        return mcnemar(self.only_first, self.only_second)


@dataclass(frozen=True, eq=False)
class ByQuestion:
    """Two sides' scores on the same questions, and what counting the questions says."""

    vectors: tuple[tuple[Vector, Vector], ...]
    """By draw of examples, that of the first side first."""
    mean: Floats
    """The first side's score less the second's, over the draws; shape (questions,)."""
    higher_is_better: bool

    @property
    def n(self) -> int:
        return len(self.mean)

    @cached_property
    def clustered(self) -> bool:
        """Whether questions depend on each other, which McNemar's test takes no notice of."""
        return self.vectors[0][0].layout.cluster is not None

    @cached_property
    def tally(self) -> Tally:
        above, below = int((self.mean > 0).sum()), int((self.mean < 0).sum())
        better, worse = (above, below) if self.higher_is_better else (below, above)
        return Tally(better=better, worse=worse, equal=self.n - above - below)

    @cached_property
    def crosstab(self) -> Crosstab | None:
        """None where a score is neither 0 nor 1, or there are several draws."""
        if len(self.vectors) > 1:
            return None
        first, second = (vector.scores for vector in self.vectors[0])
        if not all(((scores == 0) | (scores == 1)).all() for scores in (first, second)):
            return None
        a, b = first == 1, second == 1
        counts = ((a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum())
        return Crosstab(*map(int, counts))

    @cached_property
    def deciding(self) -> Places | None:
        """Places of the fewest questions without which the other side leads; None for no such."""
        vector = self.vectors[0][0]
        return deciding(self.mean, vector.layout.task if vector.by_part else None)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first side's score less the second's, as a share of 1 or in the metric's own unit."""

    value: float
    low: float
    high: float
    p_value: float
    q: float
    how: How
    why: str = ""
    """Why it is not paired."""
    higher_is_better: bool = True
    questions: ByQuestion | None = None
    shares: tuple[Share, ...] = ()
    """Its independent sources, from chance where the suite's average is; empty where unknown."""
    p_holm: float = 1.0
    """Corrected for all differences of its kind (by task, of averages) on the page."""
    p_bh: float = 1.0
    """Corrected for the tasks of this pair, so that 5 % of what is claimed is wrong."""

    @property
    def clear(self) -> bool:
        """Whether the interval misses zero."""
        return self.how is not How.SAME and (self.low > 0 or self.high < 0)

    @property
    def resolved(self) -> bool:
        """Whether such a difference is found in four of five such measurements, or more often."""
        return self.q >= 1

    @property
    def detectable(self) -> float:
        """The difference that such a measurement finds in four of five cases."""
        return (self.high - self.low) / 2 * (1 + power_quantile(POWER) / _Z)

    @property
    def ahead(self) -> bool:
        """Whether the first side is the better one as measured."""
        return self.value > 0 if self.higher_is_better else self.value < 0

    @property
    def turned(self) -> Difference:
        """The second side's score less the first's; without its questions."""
        low, high = 0.0 - self.high, 0.0 - self.low
        return replace(self, value=0.0 - self.value, low=low, high=high, questions=None, shares=())


@dataclass(frozen=True)
class NoDifference:
    """That two numbers have no difference, and why."""

    why: str


Contrast = Difference | NoDifference
Kind = Literal["task", "part"]
"""What a difference is one of."""


def claimed(result: Contrast, kind: Kind = "task") -> bool:
    """Whether a difference is beyond chance when all of its kind on the page are allowed for.

    Of tasks and averages none of the claims may be wrong (Holm), of parts one in twenty (Benjamini
    and Hochberg).
    """
    if isinstance(result, NoDifference):
        return False
    p = result.p_holm if kind == "task" else result.p_bh
    return result.clear and p <= LEVEL


def reading(result: Contrast, metric: str, first: str, second: str, kind: Kind = "task") -> str:
    """The one verdict on a difference, in words; `first` and `second` are the sides' names.

    It is "too few questions" where even a difference of NOTABLE would be missed more often than
    once in five.
    """
    if isinstance(result, NoDifference):
        return result.why
    if result.how is How.SAME:
        return "same on every question"
    if claimed(result, kind):
        return f"{first if result.ahead else second} ahead"
    few = is_share(metric) and result.detectable > NOTABLE
    return "too few questions" if few else "not told apart"


@dataclass(frozen=True)
class Pair:
    """One side less another."""

    first: int
    second: int
    by_task: tuple[Contrast, ...]
    average: Contrast

    @property
    def tasks(self) -> Tally:
        """Better and worse are what is claimed of the tasks."""
        return Tally(*map(sum, zip(*map(_tally_of, self.by_task), strict=True)))

    @property
    def differences(self) -> list[Difference]:
        return [result for result in self.by_task if isinstance(result, Difference)]

    @property
    def result(self) -> Contrast:
        """The difference of averages; of a single task that of the task."""
        return self.by_task[0] if len(self.by_task) == 1 else self.average


@dataclass(frozen=True, eq=False)
class Comparison:
    """Every side less every later one."""

    lineup: Lineup
    pairs: tuple[Pair, ...]
    vectors: Mapping[int, Vector]

    @cached_property
    def count(self) -> int:
        """Differences by task on the page, for which Holm's correction is."""
        return sum(len(pair.differences) for pair in self.pairs)

    def result(self, row: int, column: int) -> tuple[Contrast, Tally]:
        """Side `row` less side `column`: their headline difference, and what is claimed by task."""
        places = tuple(sorted((row, column)))
        pair = next(pair for pair in self.pairs if (pair.first, pair.second) == places)
        if row < column:
            return pair.result, pair.tasks
        contrast, tasks = pair.result, pair.tasks
        turned = contrast.turned if isinstance(contrast, Difference) else contrast
        return turned, tasks._replace(better=tasks.worse, worse=tasks.better)


def compare(lineup: Lineup) -> Comparison:
    """Every two sides of a lineup against each other."""
    vectors = vectors_of(lineup.tasks)
    places = list(combinations(range(len(lineup.sides)), 2))
    by_task: list[list[Contrast]] = [
        [difference(task, first, second, vectors) for task in lineup.tasks]
        for first, second in places
    ]
    averages = [_average(lineup, *pair, row) for pair, row in zip(places, by_task, strict=True)]
    (of_averages,) = corrected([averages])
    pairs = tuple(
        Pair(*pair, of_tasks, average)
        for pair, of_tasks, average in zip(places, corrected(by_task), of_averages, strict=True)
    )
    return Comparison(lineup, pairs, vectors)


def _tally_of(result: Contrast) -> Tally:
    if isinstance(result, NoDifference):
        return Tally(missing=1)
    if not claimed(result):
        return Tally(equal=1)
    return Tally(better=1) if result.ahead else Tally(worse=1)


def corrected(results: Sequence[Sequence[Contrast]]) -> list[tuple[Contrast, ...]]:
    """With p-values that allow for how many there are: over all rows (Holm), and within a row."""
    by_row = [[one.p_value for one in row if isinstance(one, Difference)] for row in results]
    over_all = iter(_adjusted(holm, [p for row in by_row for p in row]))
    rows: list[tuple[Contrast, ...]] = []
    for row, p_values in zip(results, by_row, strict=True):
        within = iter(_adjusted(benjamini_hochberg, p_values))
        rows.append(
            tuple(
                replace(one, p_holm=next(over_all), p_bh=next(within))
                if isinstance(one, Difference)
                else one
                for one in row
            )
        )
    return rows


def _adjusted(correct: Callable[[list[float]], Any], p_values: list[float]) -> list[float]:
    return [float(p) for p in correct(p_values)] if p_values else []


def _average(lineup: Lineup, first: int, second: int, results: Sequence[Contrast]) -> Contrast:
    """The difference of the suite's averages; none where a task that counts has none."""
    if not lineup.averaged:
        return NoDifference("no average is made of these")
    shares: list[Share] = []
    counted: list[Difference] = []
    for task, result in zip(lineup.tasks, results, strict=True):
        if not task.weight:
            continue
        if isinstance(result, NoDifference) or not result.shares:
            lacking = lineup.sides[first if task.numbers[first] is None else second]
            return NoDifference(f"{lacking.name} has no number for {task.title} that compares")
        shares += [scaled(share, task.weight) for share in result.shares]
        counted.append(result)
    total = total_difference(shares)
    unpaired = sum(result.how is How.UNPAIRED for result in counted)
    return Difference(
        value=total.difference,
        low=total.low,
        high=total.high,
        p_value=total.p_value,
        q=total.q,
        how=How.SAME if all(result.how is How.SAME for result in counted) else How.PAIRED,
        why=f"{unpaired} of {len(counted)} tasks are not paired" if unpaired else "",
    )


# One task


def difference(task: Task, first: int, second: int, vectors: Mapping[int, Vector]) -> Contrast:
    """The number of `first` less that of `second`; `vectors` are of the results behind them."""
    a, b = task.numbers[first], task.numbers[second]
    if a is None or b is None:
        return NoDifference(task.why[second] or task.why[first] or "not measured")
    if a.style != b.style:
        return NoDifference("asked in another style")
    if a.docs_digest != b.docs_digest:
        return NoDifference(f"asked other questions (n = {a.score.n:,} and {b.score.n:,})")
    pairs = _pairs(a, b, vectors)
    if not pairs:
        return _unpaired(task, a, b, "it is no mean of scores by question")
    layout, by_part = pairs[0][0].layout, pairs[0][0].by_part
    by_draw = np.array([one.scores - other.scores for one, other in pairs])
    mean = by_draw.mean(axis=0)
    questions = ByQuestion(pairs, mean, task.higher_is_better)
    if not by_draw.any():
        return Difference(
            value=0.0,
            low=0.0,
            high=0.0,
            p_value=1.0,
            q=0.0,
            how=How.SAME,
            higher_is_better=task.higher_is_better,
            questions=questions,
            shares=(Share(0.0, 0.0, inf),),
        )
    try:
        share = paired_share(mean, clusters=layout.cluster, strata=layout.strata, by_part=by_part)
        normalised = _from_chance(task, share, mean, pairs[0][0])
    except ValueError:  # one cluster, or parts of one question each
        return _unpaired(task, a, b, "its questions show no spread", questions)
    draws = [_of_draws(by_draw)] if len(pairs) > 1 else []
    total = total_difference([share, *draws])
    if total.stderr == 0:
        return _unpaired(task, a, b, "every question differs alike", questions)
    return Difference(
        value=total.difference,
        low=total.low,
        high=total.high,
        p_value=total.p_value,
        q=total.q,
        how=How.PAIRED,
        higher_is_better=task.higher_is_better,
        questions=questions,
        shares=(normalised, *(scaled(draw, 1 / (1 - task.chance)) for draw in draws)),
    )


def scaled(share: Share, factor: float) -> Share:
    return Share(share.difference * factor, share.variance * factor**2, share.freedom)


def _pairs(
    a: Number, b: Number, vectors: Mapping[int, Vector]
) -> tuple[tuple[Vector, Vector], ...]:
    """By draw of examples both sides' vectors; none where one misses or asks something else."""
    if len(a.results) != len(b.results):
        return ()
    if not all(pk in vectors for pk in (*a.results, *b.results)):
        return ()
    pairs = tuple(
        (vectors[own], vectors[other]) for own, other in zip(a.results, b.results, strict=True)
    )
    same = all(
        own.layout.docs_digest == other.layout.docs_digest and own.by_part == other.by_part
        for own, other in pairs
    )
    return pairs if same else ()


def _from_chance(task: Task, share: Share, mean: Floats, vector: Vector) -> Share:
    """The share as the average takes it; by part where guessing gives something else on each."""
    if not task.part_chances:
        return scaled(share, 1 / (1 - task.chance))
    layout = vector.layout
    if not task.part_chances.keys() >= set(layout.tasks):
        raise ValueError(f"part_chances: {task.title} has parts without any")
    chances = np.array([task.part_chances[name] for name in layout.tasks])[layout.task]
    return paired_share(
        mean / (1 - chances), clusters=layout.cluster, strata=layout.strata, by_part=True
    )


def _of_draws(by_draw: Floats) -> Share:
    """What the choice of examples adds; both sides saw the same ones in each draw."""
    means = by_draw.mean(axis=1)
    return Share(0.0, float(means.var(ddof=1)) / len(means), len(means) - 1)


def _unpaired(
    task: Task, a: Number, b: Number, why: str, questions: ByQuestion | None = None
) -> Contrast:
    """As two independent scores; p and q by the side of the interval that faces zero.

    A score without an interval has no difference from another.
    """
    if any(number.score.low == number.score.high for number in (a, b)):
        return NoDifference(f"{why}, and of one score no interval is known")
    bounds = difference_interval(a.score.interval, b.score.interval)
    shares: tuple[Share, ...] = ()
    if a.normalised and b.normalised:
        average = difference_interval(a.normalised, b.normalised)
        error = (average.high - average.low) / (2 * _Z)
        shares = (Share(average.value, error**2, inf),)
    errors = _errors_from_zero(bounds)
    return Difference(
        value=bounds.value,
        low=bounds.low,
        high=bounds.high,
        p_value=2 * NormalDist().cdf(-errors),
        q=(errors / (_Z + power_quantile(POWER))) ** 2,
        how=How.UNPAIRED,
        why=why,
        higher_is_better=task.higher_is_better,
        questions=questions,
        shares=shares,
    )


def _errors_from_zero(bounds: Interval) -> float:
    """How many standard errors the value lies from zero, by the interval's side towards it."""
    side = bounds.value - bounds.low if bounds.value > 0 else bounds.high - bounds.value
    if side == 0:
        return inf if bounds.value else 0.0
    return abs(bounds.value) * _Z / side
