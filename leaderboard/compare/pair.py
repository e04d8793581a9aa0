"""Two results on one task: how far the second lies from the first, and how sure that is.

Where both sides' scores by question are known the difference is paired (docs/method.md); where they
are not, its error is that of two independent scores, and it says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from statistics import NormalDist

import numpy as np

from evalcore.stats import difference_interval, mcnemar
from evalcore.stats.interval import Interval, normal_quantile
from evalcore.stats.resolution import POWER, power_quantile
from leaderboard.compare.lineup import Number, Task
from leaderboard.samples import Vector
from leaderboard.snapshot import Floats
from leaderboard.stats import Places, Share, deciding, paired_share, total_difference

_Z = normal_quantile(0.95)


class How(StrEnum):
    PAIRED = "paired"
    UNPAIRED = "unpaired"
    SAME = "same"
    """The same score on every question: exactly 0, and nothing to make an interval of."""


@dataclass(frozen=True)
class Tally:
    """How many questions, or tasks, a side does better, worse or as well on as the baseline."""

    better: int = 0
    worse: int = 0
    equal: int = 0
    missing: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.better + other.better,
            self.worse + other.worse,
            self.equal + other.equal,
            self.missing + other.missing,
        )


@dataclass(frozen=True)
class Crosstab:
    """Who was right on how many questions."""

    both: int
    only_base: int
    only_other: int
    neither: int
    clustered: bool
    """Whether questions depend on each other, which the test takes no notice of."""

    @property
    def n(self) -> int:
        return self.both + self.only_base + self.only_other + self.neither

    @property
    def parting(self) -> int:
        return self.only_base + self.only_other

    @property
    def p_value(self) -> float:
        """McNemar's, exact."""
        return mcnemar(self.only_base, self.only_other)


@dataclass(frozen=True)
class ByQuestion:
    """What counting questions says."""

    tally: Tally
    crosstab: Crosstab | None
    """Where every score is 0 or 1."""
    deciding: Places | None
    """Places of the fewest questions without which the other would be ahead; None for no such."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A side's score less the baseline's, as a share of 1 or in the metric's own unit."""

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
    """Corrected for all differences by task on the page."""
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
        """Whether the side, and not the baseline, is the better one as measured."""
        return self.value > 0 if self.higher_is_better else self.value < 0


@dataclass(frozen=True)
class Apart:
    """No difference, and why."""

    why: str


def difference(
    task: Task, base: int, side: int, vectors: Mapping[int, Vector]
) -> Difference | Apart:
    """The number of `side` less that of `base`; `vectors` are those of the results behind them."""
    first, second = task.numbers[base], task.numbers[side]
    if first is None or second is None or task.why[side] or task.why[base]:
        return Apart(task.why[side] or task.why[base] or "not measured")
    pairs = _pairs(first, second, vectors)
    if not pairs:
        return _unpaired(task, first, second, "it is no mean of scores by question")
    layout, by_part = pairs[0][0].layout, pairs[0][0].by_part
    by_draw = np.array([other.scores - own.scores for own, other in pairs])
    mean = by_draw.mean(axis=0)
    parts = layout.task if by_part else None
    counted = ByQuestion(_tally(mean, task), _crosstab(pairs), deciding(mean, parts))
    if not by_draw.any():
        nothing = Share(0.0, 0.0, inf)
        return Difference(
            value=0.0,
            low=0.0,
            high=0.0,
            p_value=1.0,
            q=0.0,
            how=How.SAME,
            higher_is_better=task.higher_is_better,
            questions=counted,
            shares=(nothing,),
        )
    try:
        found = paired_share(mean, clusters=layout.cluster, strata=layout.strata, by_part=by_part)
        normalised = _from_chance(task, found, mean, pairs[0][0])
    except ValueError:  # one cluster, or parts of one question each
        return _unpaired(task, first, second, "its questions show no spread", counted)
    draws = [_of_draws(by_draw)] if len(pairs) > 1 else []
    total = total_difference([found, *draws])
    if total.stderr == 0:
        return _unpaired(task, first, second, "every question differs alike", counted)
    return Difference(
        value=total.difference,
        low=total.low,
        high=total.high,
        p_value=total.p_value,
        q=total.q,
        how=How.PAIRED,
        higher_is_better=task.higher_is_better,
        questions=counted,
        shares=(normalised, *(scaled(draw, 1 / (1 - task.chance)) for draw in draws)),
    )


def scaled(share: Share, factor: float) -> Share:
    return Share(share.difference * factor, share.variance * factor**2, share.freedom)


def _pairs(
    first: Number, second: Number, vectors: Mapping[int, Vector]
) -> list[tuple[Vector, Vector]]:
    """By draw of examples both sides' vectors; none where one misses or asks something else."""
    if len(first.results) != len(second.results):
        return []
    if not all(pk in vectors for pk in (*first.results, *second.results)):
        return []
    pairs = [
        (vectors[own], vectors[other])
        for own, other in zip(first.results, second.results, strict=True)
    ]
    same = all(
        own.layout.docs_digest == other.layout.docs_digest and own.by_part == other.by_part
        for own, other in pairs
    )
    return pairs if same else []


def _from_chance(task: Task, found: Share, mean: Floats, one: Vector) -> Share:
    """The share as the average takes it; by part where guessing gives something else on each."""
    if not task.part_chances:
        return scaled(found, 1 / (1 - task.chance))
    layout = one.layout
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
    task: Task, first: Number, second: Number, why: str, counted: ByQuestion | None = None
) -> Difference | Apart:
    """As two independent scores; p and q by the side of the interval that faces zero.

    A score of which no interval is known has none to another either.
    """
    if any(number.score.low == number.score.high for number in (first, second)):
        return Apart(f"{why}, and of one score no interval is known")
    found = difference_interval(second.score.interval, first.score.interval)
    shares: tuple[Share, ...] = ()
    if first.normalised and second.normalised:
        average = difference_interval(second.normalised, first.normalised)
        error = (average.high - average.low) / (2 * _Z)
        shares = (Share(average.value, error**2, inf),)
    errors = _errors_from_zero(found)
    return Difference(
        value=found.value,
        low=found.low,
        high=found.high,
        p_value=2 * NormalDist().cdf(-errors),
        q=(errors / (_Z + power_quantile(POWER))) ** 2,
        how=How.UNPAIRED,
        why=why,
        higher_is_better=task.higher_is_better,
        questions=counted,
        shares=shares,
    )


def _errors_from_zero(found: Interval) -> float:
    """How many standard errors the value lies from zero, by the interval's side towards it."""
    side = found.value - found.low if found.value > 0 else found.high - found.value
    if side == 0:
        return inf if found.value else 0.0
    return abs(found.value) * _Z / side


def _tally(mean: Floats, task: Task) -> Tally:
    above, below = int((mean > 0).sum()), int((mean < 0).sum())
    better, worse = (above, below) if task.higher_is_better else (below, above)
    return Tally(better=better, worse=worse, equal=len(mean) - above - below)


def _crosstab(pairs: Sequence[tuple[Vector, Vector]]) -> Crosstab | None:
    if len(pairs) > 1:
        return None
    ((own, other),) = pairs
    if not all(np.isin(side.scores, (0.0, 1.0)).all() for side in (own, other)):
        return None
    first, second = own.scores == 1, other.scores == 1
    return Crosstab(
        both=int((first & second).sum()),
        only_base=int((first & ~second).sum()),
        only_other=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
        clustered=own.layout.cluster is not None,
    )
