"""Has a benchmark been solved? How many models are at its ceiling, and are the best told apart?

Akhtar et al. 2026 (arXiv 2602.16763) call a benchmark saturated where its best five models are not
told apart and come near a ceiling. Both parts are given on their own here, without their index.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats import Block, Interval, wilson
from leaderboard.stats.contrast import Share, total_difference

BEST = 5
"""The paper's number of best models."""

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Saturation:
    ceiling: float
    """The score of a model that has all questions right but those of a likely wrong key."""
    reaching: int
    """Models whose 95 % interval reaches the ceiling."""
    share: Interval
    """Of the models, 95 % (Wilson), had other models of the kind been measured."""
    best_reach: bool
    """Whether all of the best five reach it."""
    gap: Interval
    """The best less the fifth, on the same questions: picked by these scores, so rather too far."""
    all_right: int
    """Questions that every model has right ..."""
    none_right: int
    """... and that none has."""

    @classmethod
    def of_json(cls, stored: dict[str, Any]) -> Self:
        """From what `asdict` made of one."""
        return cls(**stored | {name: Interval(**stored[name]) for name in ("share", "gap")})


def saturation(block: Block, scores: NDArray[np.floating], suspected: ArrayLike) -> Saturation:
    """Of `scores`, shape (models, documents), each from 0 to 1, and their block.

    `suspected` says of each document whether its key is likely wrong. A model's interval is
    Wilson's with the effective number of questions `p (1 − p) / SE²`. Raises ValueError for fewer
    than BEST models and for scores outside of 0 to 1.
    """
    models = len(scores)
    if models < BEST:
        raise ValueError(f"scores: expected {BEST} models or more, got {models}")
    if scores.min() < 0 or scores.max() > 1:
        raise ValueError("scores: expected numbers from 0 to 1")
    ceiling = 1 - float(np.mean(np.asarray(suspected, np.bool_)))
    errors = np.sqrt((block.deviations.astype(np.float64) ** 2).sum(axis=1))
    order = np.argsort(-block.means, kind="stable")
    units = block.deviations.shape[1]
    reaches = np.array(
        [
            _upper(mean, error, units) >= ceiling
            for mean, error in zip(block.means.tolist(), errors.tolist(), strict=True)
        ]
    )
    easiest, hardest = scores.min(axis=0), scores.max(axis=0)
    return Saturation(
        ceiling=ceiling,
        reaching=int(reaches.sum()),
        share=wilson(int(reaches.sum()), models),
        best_reach=bool(reaches[order[:BEST]].all()),
        gap=_gap(block, order),
        all_right=int((easiest == 1).sum()),
        none_right=int((hardest == 0).sum()),
    )


def _upper(mean: float, error: float, units: int) -> float:
    share = min(max(mean, 0.0), 1.0)
    spread = share * (1 - share)
    n = spread / error**2 if error > 0 and spread > 0 else float(units)
    return wilson(share * n, n).high


def _gap(block: Block, order: Places) -> Interval:
    first, fifth = order[0], order[BEST - 1]
    apart = block.deviations[first].astype(np.float64) - block.deviations[fifth]
    error = sqrt(float((apart**2).sum()))
    lead = float(block.means[first] - block.means[fifth])
    found = total_difference([Share(lead, error**2, float(block.freedom))])
    return Interval(found.low, lead, found.high)
