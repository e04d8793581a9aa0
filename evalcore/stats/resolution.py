"""How small a difference can a benchmark show?

Source: Miller 2024 (arXiv 2411.00640), section 5.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalcore.stats.interval import checked, normal_quantile

POWER = 0.8
"""The usual chance with which a difference that exists shall be found."""


def minimum_detectable_difference(
    scores_a: ArrayLike, scores_b: ArrayLike, power: float = POWER, confidence: float = 0.95
) -> float:
    """The true difference of two models that n questions like these show with chance `power`.

    `(z_confidence + z_power) · sqrt(Var(d) / n)`, d the difference of each question. Scores have
    shape (n,), or (n, K) for K answers to each question: then d is the difference of the means, and
    its variance holds the answers' own, `ω² + σ_A² / K_A + σ_B² / K_B`. Raises ValueError for
    fewer than two questions, numbers of questions that differ, and NaN.
    """
    a, b = _of_questions(scores_a, "scores_a"), _of_questions(scores_b, "scores_b")
    if len(a) != len(b):
        raise ValueError(f"scores_b: {len(b)} questions for {len(a)} of scores_a")
    if len(a) < 2:
        raise ValueError("scores_a: a variance needs at least two questions")
    factor = normal_quantile(confidence) + power_quantile(power)
    return factor * sqrt(float((a - b).var(ddof=1)) / len(a))


def power_quantile(power: float) -> float:
    """One-sided quantile of the standard normal: 0.84 for 0.8."""
    if not 0 < power < 1:
        raise ValueError(f"power: expected between 0 and 1, got {power}")
    return NormalDist().inv_cdf(power)


def _of_questions(scores: ArrayLike, name: str) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 2 and values.shape[1]:
        values = values.mean(axis=1)
    return checked(values, name)
