"""Spearman's ρ of every two columns: as scipy has it, with an interval that covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import spearmanr

from leaderboard.stats import order_of_likeness, rank_correlations


@settings(deadline=None, max_examples=50)
@given(some.integers(0, 10_000), some.sampled_from([0.0, 0.1, 0.5]), some.booleans())
def test_every_pair_is_scipys_over_the_models_that_have_both(
    seed: int, missing: float, whole: bool
) -> None:
    draw = np.random.default_rng(seed)
    scores = np.round(draw.normal(size=(25, 4)) + draw.normal(size=(25, 1)), 1)  # with ties
    scores[draw.random(scores.shape) < missing] = np.nan
    if whole:
        scores[:, 1] = draw.normal(size=25)
    found = rank_correlations(scores)
    for one in range(4):
        for other in range(4):
            both = np.isfinite(scores[:, [one, other]]).all(axis=1)
            assert found.n[one, other] == both.sum()
            if both.sum() < 10:
                assert np.isnan(found.rho[one, other])
                continue
            expected = spearmanr(scores[both, one], scores[both, other]).statistic
            assert found.rho[one, other] == pytest.approx(expected)
            assert found.low[one, other] <= found.rho[one, other] <= found.high[one, other]


def test_the_interval_is_bonetts_and_wrights() -> None:
    """Worked by hand: ρ = 0.6, n = 20, tanh(atanh(0.6) ± 1.959964 · √(1.18 / 17))."""
    draw = np.random.default_rng(1)
    scores = draw.normal(size=(20, 2)) @ np.array([[1, 0.8], [0, 0.6]])
    found = rank_correlations(scores)
    rho = found.rho[0, 1]
    half = 1.959964 * ((1 + rho**2 / 2) / 17) ** 0.5
    assert found.low[0, 1] == pytest.approx(np.tanh(np.arctanh(rho) - half), abs=1e-6)
    assert found.high[0, 1] == pytest.approx(np.tanh(np.arctanh(rho) + half), abs=1e-6)


@pytest.mark.parametrize(("rho", "n"), [(0.0, 12), (0.5, 30), (0.8, 30), (0.95, 100)])
def test_it_covers_the_truth_as_often_as_it_says(rho: float, n: int) -> None:
    draw = np.random.default_rng(0)
    root = np.linalg.cholesky(np.array([[1, rho], [rho, 1]]))
    truth = 6 / np.pi * np.arcsin(rho / 2)  # of two normal variables
    covered = [
        found.low[0, 1] <= truth <= found.high[0, 1]
        for found in (rank_correlations(draw.normal(size=(n, 2)) @ root.T) for _ in range(1000))
    ]
    assert 0.92 < np.mean(covered) < 0.985


def test_one_order_is_one_and_its_interval_has_a_width() -> None:
    column = np.arange(12.0)
    found = rank_correlations(np.stack([column, column**3, -column], axis=1))
    assert (found.rho[0, 1], found.high[0, 1]) == (1, 1)
    assert 0.5 < found.low[0, 1] < 1
    assert (found.rho[0, 2], found.low[0, 2]) == (-1, -1)
    assert -1 < found.high[0, 2] < -0.5


def test_scores_that_are_all_equal_and_few_models_have_none() -> None:
    found = rank_correlations(np.stack([np.arange(12.0), np.ones(12)], axis=1))
    assert np.isnan(found.rho[0, 1])
    assert np.isnan(rank_correlations(np.ones((9, 2)) * np.arange(9)[:, None]).rho).all()
    assert rank_correlations(np.empty((0, 3))).n.tolist() == [[0] * 3] * 3


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        rank_correlations(np.ones(4))
    with pytest.raises(ValueError, match="four models"):
        rank_correlations(np.ones((4, 2)), fewest=3)


@given(some.permutations(range(6)))
@settings(deadline=None)
def test_columns_that_agree_stand_together(mixed: list[int]) -> None:
    rho = np.full((6, 6), 0.1)
    rho[:3, :3] = rho[3:, 3:] = 0.9
    np.fill_diagonal(rho, 1)
    rho[0, 5] = rho[5, 0] = np.nan
    order = [mixed[place] for place in order_of_likeness(rho[np.ix_(mixed, mixed)])]
    assert {frozenset(order[:3]), frozenset(order[3:])} == {
        frozenset((0, 1, 2)),
        frozenset((3, 4, 5)),
    }
    assert order_of_likeness(np.ones((2, 2))) == [0, 1]
