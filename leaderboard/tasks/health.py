"""How good a column is as an instrument: does it tell models apart, and what stands in its way?

Computed with the item analysis and stored with it; the task's page and the board's legend read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import Block, Interval, block, kendall_interval
from evalcore.stats.interval import normal_quantile
from evalcore.stats.resolution import POWER, power_quantile
from leaderboard.models import Result, ScoreVector, SuiteEntry
from leaderboard.models.task import is_share
from leaderboard.models.vector import CEILING, KEYS, NOISE
from leaderboard.samples import vectors
from leaderboard.snapshot import EVERY, Board, Floats, published
from leaderboard.stats import BEST, Saturation, Separation, saturation, separation

AT_ONCE = 2**22
"""Scores held at once as double precision, about."""
FEWEST = 10
"""Models: of fewer an order says nothing."""
MANY_KEYS = 0.02
"""From this share of likely wrong keys on a column is marked."""

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class OtherStyle:
    """What it does to the column's scores that its questions are put in another style."""

    suite: str
    style: str
    task: str
    difference: float
    """The other style less this one, median over models."""
    moved: int
    """Models whose difference is beyond chance, each by its own 95 % interval."""
    models: int
    tau: Interval | None
    """Kendall's τ_b of the two orders; None where they are none."""


@dataclass(frozen=True)
class Health:
    """None where there are too few models, or scores are not of that kind."""

    models: int
    separation: Separation | None
    saturation: Saturation | None
    styles: tuple[OtherStyle, ...]

    @property
    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, stored: dict[str, Any]) -> Self | None:
        """None for an analysis of before this was computed."""
        if not stored:
            return None
        found, solved = stored["separation"], stored["saturation"]
        return cls(
            models=stored["models"],
            separation=found and Separation(**found | {"ratio": Interval(**found["ratio"])}),
            saturation=solved and Saturation.of_json(solved),
            styles=tuple(
                OtherStyle(**style | {"tau": style["tau"] and Interval(**style["tau"])})
                for style in stored["styles"]
            ),
        )

    def marks(self, suspected: float) -> list[str]:
        """What a board's legend warns of; `suspected` is the share of likely wrong keys."""
        found = self.separation
        marks = {
            NOISE: found is not None and found.ratio.low < 1,
            CEILING: self.saturation is not None and self.saturation.best_reach,
            KEYS: suspected >= MANY_KEYS,
        }
        return [mark for mark, holds in marks.items() if holds]


def of_column(
    comparability_key: str,
    results: Sequence[int],
    scores: Scores,
    suspicious: NDArray[np.bool_],
    errors: Block | None,
) -> Health:
    """`results` are those of the rows of `scores`; `errors` as `errors_of` has them."""
    solved = None
    if errors is not None and len(scores) >= BEST and scores.min() >= 0 and scores.max() <= 1:
        solved = saturation(errors, scores, suspicious)
    return Health(
        models=len(scores),
        separation=separation(errors, _sizes(results)) if errors is not None else None,
        saturation=solved,
        styles=tuple(_other_styles(comparability_key)),
    )


def errors_of(scores: Scores, found: vectors.Matrix) -> Block | None:
    """What each question adds to each model's error; None for one cluster, which says nothing.

    In single precision: of a thousand models on MMLU that is 56 MB.
    """
    layout, step = found.layout, max(1, AT_ONCE // found.layout.n)
    blocks = []
    for start in range(0, len(scores), step):
        try:
            part = block(
                scores[start : start + step],
                clusters=layout.cluster,
                strata=layout.strata,
                by_part=found.weighting == ScoreVector.Weighting.PARTS,
            )
        except ValueError:
            return None
        blocks.append(Block(part.means, part.deviations.astype(np.float32), part.freedom))
    return Block(
        np.concatenate([part.means for part in blocks]),
        np.concatenate([part.deviations for part in blocks]),
        blocks[0].freedom,
    )


def detectable(errors: Block) -> float:
    """The median over neighbours in rank of the difference that these questions would show.

    `(1.96 + 0.84) · SE` of the paired difference (docs/method.md).
    """
    order = np.argsort(-errors.means, kind="stable")
    found = [
        float(np.square(errors.deviations[one] - errors.deviations[next_one], dtype=float).sum())
        for one, next_one in pairwise(order.tolist())
    ]
    factor = normal_quantile(0.95) + power_quantile(POWER)
    return factor * float(np.median(np.sqrt(found)))


def _sizes(results: Sequence[int]) -> list[int]:
    of = dict(Result.objects.filter(pk__in=results).values_list("pk", "run__variant__parameters"))
    return [of[pk] for pk in results]


def _other_styles(comparability_key: str) -> list[OtherStyle]:
    """In the newest suite that asks the column in several styles and has a board of them."""
    entries = SuiteEntry.objects.filter(comparability_key=comparability_key, draw=0)
    for entry in entries.select_related("suite").order_by("-suite__created", "suite_id"):
        board = published.newest(entry.suite, EVERY)
        place = _place(board, comparability_key) if board else None
        if board and place is not None and (found := _styles_on(board, place)):
            return found
    return []


def _place(board: Board, key: str) -> int | None:
    columns = enumerate(board.columns)
    return next((at for at, column in columns if column.comparability_key == key), None)


def _styles_on(board: Board, place: int) -> list[OtherStyle]:
    own = board.columns[place]
    rows = board.comparable_rows
    found = []
    for gap in board.gaps:
        if place not in (gap.first, gap.second):
            continue
        other = gap.second if gap.first == place else gap.first
        column = board.columns[other]
        sides = [side[rows] for side in gap.difference.sides]
        both = ~np.isnan(sides[0])
        value, low, high = (side[both] for side in sides)
        if len(value) < FEWEST or not (is_share(own.metric) and is_share(column.metric)):
            continue
        scores = [board.scores.value[rows, at][both] for at in (place, other)]
        sign = -1.0 if gap.first == place else 1.0
        found.append(
            OtherStyle(
                suite=board.suite,
                style=column.style,
                task=column.task,
                difference=sign * float(np.median(value)),
                moved=int(((low > 0) | (high < 0)).sum()),
                models=len(value),
                tau=_agreement(*scores),
            )
        )
    return found


def _agreement(first: Floats, second: Floats) -> Interval | None:
    try:
        return kendall_interval(first, second)
    except ValueError:  # models that are all equal, or all but one, have no order
        return None
