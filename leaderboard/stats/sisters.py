"""Does a model answer a benchmark better than its answers on a sister let one expect?

After Dekoninck et al. 2024 (ConStat, arXiv 2405.16281): the score on the benchmark is held beside
what other models with such a score on the sister reach. Theirs is a smoothing spline and one test a
model; here each model is left out of its own relation, the interval is that of questions and of
models of reference, and a model stands out only beyond what models usually scatter around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from evalcore.stats import Block

DRAWS = 400
FEWEST = 10
"""Models: of fewer no relation is drawn."""
BENDS = 30
"""From so many models on the relation may bend."""
KNOTS = (0.1, 0.5, 0.9)
"""Quantiles of the sister's scores (Harrell 2015, table 2.3)."""
RELIABLE = 0.9
"""Share of the spread of the sister's scores that must be the models', not the questions'."""
LEVEL = 0.05
OUTLIERS = 0.1
"""Share of the models that are set aside one after the other."""

Values = NDArray[np.float64]


class Unanswered(StrEnum):
    """Why nothing is said of a pair."""

    FEW_MODELS = "few models"
    NOISE = "noise"
    """The sister's questions tell the models hardly apart."""


@dataclass(frozen=True)
class Redrawn:
    """The models' scores on one column, and what they would be on other questions of the kind."""

    scores: Values
    """Shape (models,)."""
    replicates: Values
    """Shape (models, draws)."""


@dataclass(frozen=True)
class SisterGaps:
    """Of each model, shape (models,), in the scale of the scores."""

    sister: Values
    """Its score on the sister."""
    expected: Values
    """The score that the other models let one expect, from its score on the sister."""
    gap: Values
    """Its score less that."""
    low: Values
    high: Values
    """95 %, of this model alone, on other questions and beside other models of the kind."""
    p_value: Values
    """That models scatter so far, to either side, adjusted for all models."""
    beyond: NDArray[np.bool_]
    """Whether no other model's score on the sister is as low, or as high: the relation is drawn on
    as a straight line."""
    scatter: float
    """Standard deviation of the models around their relation, without the chance of questions."""

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        return self.p_value <= LEVEL


def redrawn(block: Block, *, seed: int, draws: int = DRAWS) -> Redrawn:
    """The block's scores on `draws` redrawn sets of questions.

    Each unit (question or cluster) counts with a normal weight of its own, the same for all models
    (the multiplier bootstrap; van der Vaart and Wellner 1996, section 2.9), so that strata and
    clusters count as the block says. Blocks of the same questions with one seed belong together:
    parts of a board, and a benchmark and a sister that asks the same questions in another way.
    """
    units = block.deviations.shape[1]
    weights = np.random.default_rng(seed).standard_normal((units, draws), dtype=np.float32)
    moved = block.deviations.astype(np.float32, copy=False) @ weights
    scores = np.asarray(block.means, np.float64)
    return Redrawn(scores, scores[:, None] + moved)


def sister_gaps(column: Redrawn, sister: Redrawn, *, seed: int) -> SisterGaps | Unanswered:
    """The gap of each model between `column` and `sister`, whose rows are the same models.

    The relation is a straight line, from BENDS models on a natural cubic spline with three knots,
    drawn by least squares through all other models. Its error is the standard deviation over the
    redrawn questions, with weights for the models from an exponential distribution (the Bayesian
    bootstrap, Rubin 1981); the interval is `gap ± t · SE`. A model stands out where its gap is
    large beside `sqrt(SE² + τ²)`, τ² the mean of `gap² - SE²` over the others: how far they
    scatter beyond their own errors. Raises ValueError for shapes that do not fit.
    """
    from scipy.stats import t  # imported late: half a second that most callers need not spend

    models = len(column.scores)
    if column.replicates.shape != sister.replicates.shape or len(sister.scores) != models:
        raise ValueError(
            f"sister: expected {models} models and as many draws, got {sister.replicates.shape}"
        )
    if models < FEWEST:
        return Unanswered.FEW_MODELS
    if not _told_apart(sister):
        return Unanswered.NOISE
    relation = _Relation.of(sister.scores)
    gap = relation.gaps(column.scores, sister.scores, np.ones(models))
    weights = np.random.default_rng(seed).exponential(size=(models, column.replicates.shape[1]))
    moved = np.array(
        [
            relation.gaps(*drawn)
            for drawn in zip(column.replicates.T, sister.replicates.T, weights.T, strict=True)
        ]
    )
    error = moved.std(axis=0, ddof=1)
    freedom = models - relation.terms - 1
    half = t.ppf(1 - LEVEL / 2, freedom) * error
    p_value, scatter = _standing_out(gap, error, freedom)
    return SisterGaps(
        sister=sister.scores,
        expected=column.scores - gap,
        gap=gap,
        low=gap - half,
        high=gap + half,
        p_value=p_value,
        beyond=_alone_at_an_end(sister.scores),
        scatter=scatter,
    )


def _standing_out(gap: Values, error: Values, freedom: int) -> tuple[Values, float]:
    """Adjusted p of each model, and the scatter of those that do not stand out.

    Rosner's generalised test for several outliers (1983): the farthest is held beside the scatter
    of all others and set aside, then the next, up to a tenth of the models, so that a few far off
    do not hide each other; a model stands out where its own test or a later one says so. Each p is
    Bonferroni's over the models still there.
    """
    from scipy.stats import t

    models = len(gap)
    there, p_value = np.ones(models, np.bool_), np.ones(models)
    surplus = gap**2 - error**2
    aside: list[int] = []
    for step in range(max(1, int(OUTLIERS * models)) + 1):
        others = np.maximum((surplus[there].sum() - surplus) / (there.sum() - 1), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.nan_to_num(np.abs(gap) / np.sqrt(error**2 + others), nan=0.0)
        p = np.minimum(1.0, there.sum() * 2 * t.sf(far, freedom - step))
        p_value[there] = p[there]
        farthest = int(np.argmax(np.where(there, far, -1.0)))
        there[farthest] = False
        aside.append(farthest)
    p_value[aside] = np.minimum.accumulate(p_value[aside][::-1])[::-1]
    rest = p_value > LEVEL
    return p_value, float(np.sqrt(max(surplus[rest].mean(), 0.0))) if rest.any() else 0.0


def _told_apart(sister: Redrawn) -> bool:
    """Whether the scores' spread is the models' for the most part: questions move all alike."""
    spread = float(sister.scores.var(ddof=1))
    moved = sister.replicates - sister.replicates.mean(axis=0)
    noise = float(moved.var(axis=1, ddof=1).mean())
    return spread > 0 and 1 - noise / spread >= RELIABLE


def _alone_at_an_end(scores: Values) -> NDArray[np.bool_]:
    ends = (scores.min(), scores.max())
    alone = [(scores == end) & ((scores == end).sum() == 1) for end in ends]
    return np.asarray(alone[0] | alone[1])


@dataclass(frozen=True)
class _Relation:
    """From scores on the sister to scores on the benchmark."""

    low: float
    high: float
    """Of the sister's scores: what is between is 0 to 1, so that no power grows too large."""
    knots: tuple[float, ...]
    """Three on that scale; none for a straight line."""

    @classmethod
    def of(cls, scores: Values) -> _Relation:
        low, high = float(scores.min()), float(scores.max())
        knots = np.quantile((scores - low) / (high - low), KNOTS)
        bends = len(scores) >= BENDS and (np.diff(knots) > 0.05).all()
        return cls(low, high, tuple(knots.tolist()) if bends else ())

    @property
    def terms(self) -> int:
        return 3 if self.knots else 2

    def gaps(self, column: Values, sister: Values, weights: Values) -> Values:
        """Each model's score less what the others let one expect.

        As if fitted without it: its residual by `1 − w h`, w its weight and h its leverage.
        """
        basis = self._basis((sister - self.low) / (self.high - self.low))
        weighted = basis * weights[:, None]
        inverse = np.linalg.pinv(weighted.T @ basis)
        residual = column - basis @ (inverse @ (weighted.T @ column))
        leverage = np.einsum("ij,jk,ik->i", basis, inverse, basis)
        return np.asarray(residual / np.maximum(1 - weights * leverage, 1e-9))

    def _basis(self, x: Values) -> Values:
        """Shape (models, terms): Harrell 2015, eq. 2.24, for three knots."""
        terms = [np.ones_like(x), x]
        if self.knots:
            first, middle, last = self.knots
            above = [np.maximum(x - knot, 0) ** 3 for knot in self.knots]
            bend = (
                above[0]
                - above[1] * (last - first) / (last - middle)
                + above[2] * (middle - first) / (last - middle)
            )
            terms.append(bend / (last - first) ** 2)
        return np.stack(terms, axis=1)
