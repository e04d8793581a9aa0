"""Signal and noise of a benchmark: by hand, and against made-up models whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import block
from leaderboard.stats import separation


def answers(
    draw: np.random.Generator, models: int, questions: int, spread: float, grows: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Right or wrong answers of models whose skill grows with size and varies by `spread`."""
    sizes = draw.uniform(0, 2, models)
    skill = grows * sizes + draw.normal(0, spread, models)
    hard = draw.normal(1, 1.2, questions)
    right = skill[:, None] - hard + draw.logistic(0, 1, (models, questions)) > 0
    return right.astype(np.float32), sizes


def found(scores: np.ndarray, sizes: np.ndarray):
    result = separation(block(scores), sizes)
    assert result is not None
    return result


def truth(models: int, questions: int, spread: float) -> float:
    """The ratio where the questions are so many that chance has no part in the scores."""
    many, draw = 12_000, np.random.default_rng(0)
    each = [found(*answers(draw, models, many, spread)) for _ in range(20)]
    noise = np.mean([one.noise**2 for one in each]) * many / questions
    return float(np.sqrt(np.mean([one.signal**2 for one in each]) / noise))


@pytest.mark.parametrize("spread", [0.15, 0.5])
def test_its_interval_holds_the_truth_about_as_often_as_it_says(spread: float):
    true, draw = truth(40, 300, spread), np.random.default_rng(1)
    each = [found(*answers(draw, 40, 300, spread)) for _ in range(200)]
    covered = np.mean([one.ratio.low <= true <= one.ratio.high for one in each])
    assert 0.91 <= covered <= 0.99
    assert np.median([one.ratio.value for one in each]) == pytest.approx(true, rel=0.08)


def test_equal_models_are_not_said_to_differ_more_than_chance():
    draw = np.random.default_rng(2)
    each = [found(*answers(draw, 40, 300, 0.0, grows=0.0)) for _ in range(200)]
    assert np.mean([one.ratio.low > 0 for one in each]) <= 0.06
    assert np.median([one.ratio.value for one in each]) < 0.3


def test_neighbours_are_of_like_size_so_size_itself_is_no_signal():
    draw = np.random.default_rng(3)
    scores, sizes = answers(draw, 100, 400, 0.0, grows=3.0)
    assert found(scores, sizes).signal < 0.4 * found(scores, draw.permutation(sizes)).signal


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 45), st.integers(2, 30), st.integers(0, 500))
def test_it_is_the_analysis_of_variance_within_groups_of_like_size(models, questions, seed):
    draw = np.random.default_rng(seed)
    scores, sizes = draw.random((models, questions)), draw.random(models)
    one = found(scores, sizes)
    groups = np.array_split(np.argsort(sizes), models // 10)
    between = within = 0.0
    for members in groups:
        of_group = scores[members]
        means = of_group.mean(axis=1)
        rest = of_group - means[:, None] - of_group.mean(axis=0) + of_group.mean()
        between += ((means - means.mean()) ** 2).sum()
        within += (rest**2).sum() / (questions * (questions - 1))
    freedom = models - len(groups)
    assert one.noise == pytest.approx(np.sqrt(within / freedom))
    assert one.signal == pytest.approx(np.sqrt(max(0, (between - within) / freedom)), abs=1e-6)
    assert one.ratio.low <= one.ratio.value <= one.ratio.high


def test_too_few_models_and_models_all_alike_have_none():
    draw = np.random.default_rng(4)
    assert separation(block(draw.random((9, 20))), np.arange(9)) is None
    alike = np.tile(draw.random(20), (12, 1))
    assert separation(block(alike), np.arange(12)) is None


def test_sizes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"^sizes: expected one for each of 12 models"):
        separation(block(np.random.default_rng(5).random((12, 20))), np.arange(11))
