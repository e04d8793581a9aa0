"""What do K answers to each question say?

Sources: Chen et al. 2021 (arXiv 2107.03374), eq. 1, for pass@k; Miller 2024 (arXiv 2411.00640),
section 3.1, for the two parts of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import ArrayLike


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Chance that one of k answers is right, without bias, from n answers of which some are.

    `1 - C(n - correct, k) / C(n, k)`, as a product so that nothing overflows. Raises ValueError
    unless 1 <= k <= n and 0 <= correct <= n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k: expected 1 to {n}, got {k}")
    if not 0 <= correct <= n:
        raise ValueError(f"correct: expected 0 to {n}, got {correct}")
    if n - correct < k:
        return 1.0
    return 1.0 - prod(1.0 - k / total for total in range(n - correct + 1, n + 1))


@dataclass(frozen=True)
class RepeatedScore:
    """Mean over questions of the mean over their K answers, and where its variance comes from."""

    value: float
    stderr: float
    k: int
    between_questions: float
    """Variance of the questions' true scores."""
    within_question: float
    """Mean variance of the answers to one question; more answers make its part smaller."""


def repeated_score(scores: ArrayLike) -> RepeatedScore:
    """Score and standard error of `scores`, shape (n questions, K answers).

    `Var(mean) = (between + within / K) / n`, within from the answers' sample variances. Raises
    ValueError for fewer than two questions or answers, and NaN.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        raise ValueError(f"scores: expected two questions and answers or more, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores: contain NaN or infinity")
    n, k = values.shape
    total = float(values.mean(axis=1).var(ddof=1))
    within = float(values.var(axis=1, ddof=1).mean())
    return RepeatedScore(
        value=float(values.mean()),
        stderr=sqrt(total / n),
        k=k,
        between_questions=max(0.0, total - within / k),  # the estimate can fall below 0
        within_question=within,
    )
