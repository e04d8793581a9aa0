"""Gaps to a sister: by hand, and against made-up models whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import block
from leaderboard.stats import SISTERS_FEWEST, Redrawn, SisterGaps, Unanswered, redrawn, sister_gaps

HARDER = 0.5
"""How much harder the sister's questions are."""


def right(draw: np.random.Generator, chance: np.ndarray) -> np.ndarray:
    return (draw.random(chance.shape) < chance).astype(np.float32)


def chances(skill: np.ndarray, hard: np.ndarray) -> np.ndarray:
    """Of each model to be right on each question (Rasch 1960)."""
    return 1 / (1 + np.exp(hard - skill[:, None]))


@cache
def _many(harder: float) -> np.ndarray:
    return np.random.default_rng(99).normal(harder, 1.2, 5_000)


def gaps_of(
    draw: np.random.Generator,
    models: int,
    questions: int,
    *,
    scatter: float = 0.0,
    lifted: Sequence[int] = (),
    same: bool = False,
) -> tuple[SisterGaps, np.ndarray]:
    """What is found, and the true gaps.

    Models of one skill on both, but for `scatter`; the `lifted` know 40 % of what they would get
    wrong on the benchmark.
    """
    skill = draw.normal(0.3, 1.0, models)
    own = skill + draw.normal(0, scatter, models)
    hard = draw.normal(0, 1.2, questions)
    known = np.where(np.isin(np.arange(models), lifted), 0.4, 0.0)[:, None]

    def with_known(chance: np.ndarray) -> np.ndarray:
        return chance + known * (1 - chance)

    of_sister = hard + HARDER if same else draw.normal(HARDER, 1.2, questions)
    column = block(right(draw, with_known(chances(own, hard))))
    sister = block(right(draw, chances(skill, of_sister)))
    found = sister_gaps(
        redrawn(column, seed=0, draws=150),
        redrawn(sister, seed=0 if same else 1, draws=150),
        seed=0,
    )
    assert isinstance(found, SisterGaps)
    truth = with_known(chances(own, _many(0.0))).mean(axis=1)
    return found, truth - chances(skill, _many(0.0)).mean(axis=1)


@pytest.mark.parametrize(
    ("models", "questions", "scatter", "same"),
    [(12, 400, 0.0, False), (40, 400, 0.0, True), (40, 400, 0.2, False)],
)
def test_an_interval_holds_the_true_gap_about_as_often_as_it_says(
    models: int, questions: int, scatter: float, same: bool
) -> None:
    draw = np.random.default_rng(1)
    held = []
    for _ in range(40):
        found, truth = gaps_of(draw, models, questions, scatter=scatter, same=same)
        held.append(np.mean((found.low <= truth) & (truth <= found.high)))
    assert 0.93 <= np.mean(held) <= 0.985


@pytest.mark.parametrize(("models", "scatter"), [(12, 0.0), (12, 0.3), (40, 0.3)])
def test_where_models_differ_by_their_scatter_alone_hardly_any_stands_out(
    models: int, scatter: float
) -> None:
    draw = np.random.default_rng(2)
    found = [gaps_of(draw, models, 300, scatter=scatter)[0] for _ in range(60)]
    assert np.mean([one.stands_out.any() for one in found]) <= 0.12


def test_models_that_knew_many_answers_stand_out_above_also_where_they_are_several() -> None:
    draw = np.random.default_rng(3)
    lifted = [3, 11, 17]
    found = [gaps_of(draw, 40, 800, lifted=lifted) for _ in range(15)]
    above = np.array([one.stands_out & (one.gap > 0) for one, _ in found])
    assert above[:, lifted].mean() >= 0.8
    others = np.delete(above, lifted, axis=1)
    assert others.mean() <= 0.01


def test_the_farthest_do_not_hide_each_other() -> None:
    """Three alike make a scatter that would hold any one of them; the test for several does not."""
    draw = np.random.default_rng(4)
    x = np.linspace(0.2, 0.8, 30)
    y = x + draw.normal(0, 0.004, 30)
    y[[5, 14, 23]] += 0.03
    found = sister_gaps(sure(y), sure(x), seed=0)
    assert isinstance(found, SisterGaps)
    assert np.flatnonzero(found.stands_out).tolist() == [5, 14, 23]
    assert found.scatter < 0.008


def sure(scores: np.ndarray, draws: int = 50) -> Redrawn:
    """Scores of so many questions that chance has hardly a part in them."""
    shifts = np.random.default_rng(0).normal(0, 1e-6, (len(scores), draws))
    return Redrawn(scores, scores[:, None] + shifts)


def test_each_model_is_left_out_of_what_it_is_held_beside() -> None:
    draw = np.random.default_rng(5)
    x, y = draw.uniform(0.2, 0.9, (2, 12))
    found = sister_gaps(sure(y), sure(x), seed=0)
    assert isinstance(found, SisterGaps)
    for left_out in range(12):
        others = np.arange(12) != left_out
        slope, start = np.polyfit(x[others], y[others], 1)
        assert found.expected[left_out] == pytest.approx(start + slope * x[left_out])


def test_a_relation_that_bends_is_followed_where_there_are_models_enough() -> None:
    x = np.linspace(0.1, 0.9, 60)
    y = x**2
    found = sister_gaps(sure(y), sure(x), seed=0)
    assert isinstance(found, SisterGaps)
    straight = y - np.polyval(np.polyfit(x, y, 1), x)
    assert np.abs(found.gap[1:-1]).max() < 0.25 * np.abs(straight).max()


def test_who_is_alone_at_an_end_of_the_sisters_scores_is_said_to_be() -> None:
    x = np.concatenate([np.linspace(0.3, 0.7, 12), [0.7, 0.95]])
    found = sister_gaps(sure(x), sure(x), seed=0)
    assert isinstance(found, SisterGaps)
    assert np.flatnonzero(found.beyond).tolist() == [0, 13]


def test_too_few_models_get_no_number() -> None:
    x = np.linspace(0.2, 0.8, SISTERS_FEWEST - 1)
    assert sister_gaps(sure(x), sure(x), seed=0) is Unanswered.FEW_MODELS


@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_questions_that_tell_models_hardly_apart_get_no_number(spread: float) -> None:
    draw = np.random.default_rng(6)
    answers = right(draw, np.linspace(0.5 - spread, 0.5 + spread, 20)[:, None].repeat(60, axis=1))
    few = redrawn(block(answers), seed=0)
    assert sister_gaps(sure(np.linspace(0.1, 0.9, 20), 400), few, seed=0) is Unanswered.NOISE


def test_models_in_other_numbers_on_the_sister_are_refused() -> None:
    with pytest.raises(ValueError, match="sister: expected 12 models"):
        sister_gaps(sure(np.linspace(0, 1, 12)), sure(np.linspace(0, 1, 11)), seed=0)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(4, 60))
@settings(deadline=None, max_examples=30)
def test_redrawn_scores_spread_as_the_block_says_and_parts_of_a_board_go_together(
    seed: int, models: int, questions: int
) -> None:
    draw = np.random.default_rng(seed)
    found = block(draw.random((models, questions)))
    whole = redrawn(found, seed=seed, draws=300)
    parts = [
        redrawn(
            type(found)(found.means[at], found.deviations[at], found.freedom), seed=seed, draws=300
        )
        for at in (slice(0, 1), slice(1, None))
    ]
    together = np.concatenate([part.replicates for part in parts])
    assert together == pytest.approx(whole.replicates, abs=1e-5)
    errors = np.sqrt((found.deviations**2).sum(axis=1))
    assert whole.replicates.std(axis=1) == pytest.approx(errors, rel=0.25)
