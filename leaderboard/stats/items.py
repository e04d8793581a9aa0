"""How hard is each question, does it tell good models from bad ones, and is its key right?

Classical item analysis: a question that the better models get wrong more often than the worse ones
most likely has a wrong key. Sources: Lord and Novick 1968 (Statistical Theories of Mental Test
Scores), chapter 15; Benjamini and Hochberg 1995.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalcore.stats.comparisons import benjamini_hochberg

BLOCK = 2**22
"""Scores held at once as double precision, about."""
SAME = 1e-12
"""Below this share of its parts' variances, the variance of a rest score is rounding."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Items:
    """Each question over all models, every array of shape (documents,)."""

    difficulty: Values
    """Mean score, so 1 is the easiest: the share of models that are right."""
    discrimination: Values
    """Point-biserial correlation of the question with the rest of the test; 0 where undefined."""
    defined: NDArray[np.bool_]
    """False where all models, or all the models' rest scores, agree: there is no correlation."""
    suspicious: NDArray[np.bool_]
    """True where the correlation is below 0 by more than chance: the key is likely wrong."""


def item_analysis(scores: NDArray[Any], false_share: float = 0.05) -> Items:
    """Item analysis of `scores`, shape (models, documents), of any number type.

    The rest score of a model is its sum over all other questions: with the question itself in the
    sum, it would agree with itself. A question is suspicious where Student's one-sided test
    (models - 2 degrees of freedom) finds its correlation below 0, after Benjamini and Hochberg over
    all questions: at most `false_share` of those flagged are expected to be so by chance. It takes
    models as independent. Raises ValueError for fewer than three models or two documents, NaN, and
    a share not between 0 and 1.
    """
    if scores.ndim != 2 or scores.shape[0] < 3 or scores.shape[1] < 2:
        raise ValueError(
            f"scores: expected shape (models, documents) with three models and two documents or "
            f"more, got {scores.shape}"
        )
    if not 0 < false_share < 1:
        raise ValueError(f"false_share: expected between 0 and 1, got {false_share}")
    models, documents = scores.shape
    total = scores.sum(axis=1, dtype=np.float64)
    if not np.isfinite(total).all():
        raise ValueError("scores: contain NaN or infinity")
    total -= total.mean()
    difficulty, discrimination = np.empty(documents), np.zeros(documents)
    defined = np.zeros(documents, dtype=np.bool_)
    for part in _parts(models, documents):
        values = scores[:, part].astype(np.float64)
        difficulty[part] = values.mean(axis=0)
        values -= difficulty[part]
        variance = np.einsum("ij,ij->j", values, values)
        with_total = total @ values
        of_rest = total @ total + variance - 2 * with_total
        varied = (values.max(axis=0) > values.min(axis=0)) & (
            of_rest > SAME * (total @ total + variance)
        )
        found = (with_total - variance)[varied] / np.sqrt((variance * of_rest)[varied])
        discrimination[part][varied] = np.clip(found, -1.0, 1.0)
        defined[part] = varied
    suspicious = np.zeros(documents, dtype=np.bool_)
    if defined.any():
        p = _chance_of_lower(discrimination[defined], models)
        suspicious[defined] = benjamini_hochberg(p) <= false_share
    return Items(difficulty, discrimination, defined, suspicious)


def _parts(models: int, documents: int) -> Iterator[slice]:
    width = max(1, BLOCK // models)
    for start in range(0, documents, width):
        yield slice(start, min(start + width, documents))


def _chance_of_lower(correlations: Values, models: int) -> Values:
    """One-sided p of a correlation so low where there is none."""
    from scipy.stats import t  # imported late: half a second that most callers need not spend

    with np.errstate(divide="ignore"):  # a correlation of -1 is at minus infinity
        at = correlations * np.sqrt((models - 2) / (1 - correlations**2))
    return np.asarray(t.cdf(at, models - 2))
