"""What styles do to scores, and how columns agree: by counting, by hand, by simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis import strategies as st
from scipy.stats import spearmanr

from evalcore.stats import Interval, mean_interval, wilson
from leaderboard.stats import order_of_likeness, rank_correlations
from leaderboard.stats.styles import (
    best_by_part,
    best_of,
    flipped_share,
    style_spreads,
    variance_shares,
)

lists = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25)


def best(scores, **options):
    """The best style of one model with its interval."""
    found = best_of([scores], **options)
    return int(found.style[0]), Interval(found.low[0], found.value[0], found.high[0])


SIZES = (40, 10, 25, 5)
PARTS = np.repeat(np.arange(len(SIZES)), SIZES)
N = len(PARTS)


def right(draw: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """Who is right, from the chance of each style in each part, shape (styles, parts)."""
    return (draw.random((len(chances), N)) < chances[:, PARTS]).astype(np.float32)


def test_spreads_and_shares_of_variance_are_as_by_hand():
    found = style_spreads([[0.2, 0.6, 0.3], [0.5, 0.5, 0.5]])
    assert found.lowest.tolist() == [0.2, 0.5]
    assert found.median.tolist() == [0.3, 0.5]
    assert found.highest.tolist() == [0.6, 0.5]
    assert found.spread.tolist() == pytest.approx([0.4, 0.0])
    # Sums of squares: question 13 over 2 degrees of freedom, style 6 over 1, residual 3 over 2.
    found = variance_shares([[1, 2, 3], [2, 3, 7]])
    parts = np.array([(6.5 - 1.5) / 2, (6 - 1.5) / 3, 1.5])
    expected = parts / parts.sum()
    assert (found.question, found.style, found.residual) == pytest.approx(tuple(expected))


@settings(deadline=None)  # scipy is imported on the first call
@given(lists)
def test_flipped_share_counts_pairs(points):
    pairs = [(x[0] - y[0], x[1] - y[1]) for x, y in combinations(points, 2)]
    ordered = [first * second for first, second in pairs if first * second]
    a, b = zip(*points, strict=True)
    if len(set(a)) == 1 or len(set(b)) == 1:
        with pytest.raises(ValueError, match="no order"):
            flipped_share(a, b)
        return
    expected = sum(product < 0 for product in ordered) / len(ordered)
    assert flipped_share(a, b) == pytest.approx(expected, abs=1e-12)


def test_the_best_style_is_named_and_its_bounds_are_percentiles_of_the_largest_mean_on_resamples():
    scores = np.random.default_rng(9).random((2, 60))
    generator = np.random.default_rng(10)
    largest = [scores[:, generator.integers(0, 60, 60)].mean(axis=1).max() for _ in range(20_000)]
    winner, bounds = best(scores, draws=20_000)
    assert (winner, bounds.value) == (scores.mean(axis=1).argmax(), scores.mean(axis=1).max())
    expected = np.quantile(largest, (0.025, 0.975))
    assert (bounds.low, bounds.high) == pytest.approx(expected.tolist(), abs=0.003)


def test_a_models_best_does_not_depend_on_which_others_are_there():
    scores = np.random.default_rng(11).integers(0, 2, (5, 3, 80)).astype(np.float32)
    together = best_of(scores, seed=3)
    for row, of_one in enumerate(scores):
        winner, bounds = best(of_one, seed=3)
        assert together.style[row] == winner
        assert (together.low[row], together.value[row], together.high[row]) == pytest.approx(
            (bounds.low, bounds.value, bounds.high)
        )


def test_passages_of_different_length_count_by_their_questions():
    generator = np.random.default_rng(12)
    labels = generator.permutation(np.repeat(np.arange(30), np.arange(1, 31)))
    scores = generator.integers(0, 2, (2, len(labels))).astype(float)
    members = [np.flatnonzero(labels == label) for label in range(30)]
    largest = []
    for _ in range(5000):
        drawn = np.concatenate([members[number] for number in generator.integers(0, 30, 30)])
        largest.append(scores[:, drawn].mean(axis=1).max())
    _, bounds = best(scores, draws=5000, clusters=labels.tolist())
    expected = np.quantile(largest, (0.025, 0.975))
    assert (bounds.low, bounds.high) == pytest.approx(expected.tolist(), abs=0.004)


def test_a_best_that_is_all_right_or_all_wrong_has_wilsons_interval():
    right = np.stack([np.zeros(50), np.ones(50)])
    assert best(right) == (1, wilson(50, 50))
    assert best(np.zeros((2, 50))) == (0, wilson(0, 50))
    clustered = best(right, clusters=[n // 10 for n in range(50)])
    assert clustered == (1, wilson(5, 5))


def test_bad_input_is_named():
    for call, name in (
        (lambda: style_spreads([[0.1], [0.2]]), "scores"),
        (lambda: style_spreads([[0.1, math.nan]]), "scores"),
        (lambda: variance_shares([[1.0, 0.0]]), "scores"),
        (lambda: variance_shares([[1.0, 1.0], [1.0, 1.0]]), "scores"),
        (lambda: flipped_share([1.0, 2.0], [1.0]), "b"),
        (lambda: flipped_share([1.0, 1.0], [1.0, 2.0]), "a"),
        (lambda: best_of([[[1.0]]]), "scores"),
        (lambda: best_of([[[1.0, math.nan]]]), "scores"),
        (lambda: best_of([[[1.0, 0.0]]], clusters=["x", "x"]), "clusters"),
        (lambda: best_of([[[1.0, 1.0]]], clusters=["x"]), "clusters"),
        (lambda: best_of([[[1.0, 0.0]]], draws=1), "draws"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: "):
            call()
    for parts in (PARTS[:-1], np.arange(N)):
        with pytest.raises(ValueError, match=r"^strata:"):
            best_by_part(np.ones((1, 2, N)), parts)
    for scores in (np.ones((2, N)), np.full((1, 2, N), np.nan)):
        with pytest.raises(ValueError, match=r"^scores:"):
            best_by_part(scores, PARTS)
    with pytest.raises(ValueError, match="shape"):
        rank_correlations(np.ones(4))
    with pytest.raises(ValueError, match="four models"):
        rank_correlations(np.ones((4, 2)), fewest=3)


def test_every_part_counts_alike_and_the_first_of_equal_styles_is_named() -> None:
    draw = np.random.default_rng(1)
    scores = right(draw, np.array([[0.4] * 4, [0.8] * 4]))
    scores = np.stack([scores, scores[[0, 0]]])
    best = best_by_part(scores, PARTS)
    of_parts = [scores[..., part == PARTS].mean(axis=-1) for part in range(len(SIZES))]
    means = np.mean(of_parts, axis=0)
    assert best.style.tolist() == [1, 0]
    assert best.value == pytest.approx(means.max(axis=1))
    assert (best.low < best.value).all()
    assert (best.value < best.high).all()


def test_it_agrees_with_drawing_questions_again_within_their_parts() -> None:
    draw = np.random.default_rng(3)
    sizes = (400, 100, 250, 150)
    parts = np.repeat(np.arange(4), sizes)
    chances = np.array([[0.7, 0.5, 0.6, 0.4], [0.6, 0.6, 0.5, 0.5]])
    scores = (draw.random((2, len(parts))) < chances[:, parts]).astype(np.float32)
    largest = []
    for _ in range(4000):
        means = []
        for part in range(4):
            places = np.flatnonzero(parts == part)
            means.append(scores[:, draw.choice(places, len(places))].mean(axis=1))
        largest.append(np.mean(means, axis=0).max())
    best = best_by_part(scores[None], parts, draws=4000)
    low, high = np.quantile(largest, (0.025, 0.975))
    assert best.low[0] == pytest.approx(low, abs=0.004)
    assert best.high[0] == pytest.approx(high, abs=0.004)


def test_questions_of_one_cluster_are_not_independent() -> None:
    draw = np.random.default_rng(5)
    clusters = np.arange(N) // 5
    alike = (draw.random((2, N // 5)) < 0.6).astype(np.float32)[:, clusters]
    clustered = best_by_part(alike[None], PARTS, clusters=clusters)
    alone = best_by_part(alike[None], PARTS)
    assert clustered.value == alone.value
    assert clustered.high - clustered.low > 1.5 * (alone.high - alone.low)


def test_all_right_is_not_taken_for_certain() -> None:
    scores = np.stack([np.ones((2, N)), np.zeros((2, N))])
    best = best_by_part(scores, PARTS)
    expected = mean_interval([wilson(n, n) for n in SIZES])
    assert (best.low[0], best.high[0]) == pytest.approx((expected.low, 1))
    assert (best.low[1], best.high[1]) == pytest.approx((0, 1 - expected.low))


def test_many_models_have_the_intervals_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(6)
    scores = np.stack([right(draw, draw.random((2, 4))) for _ in range(7)])
    whole = best_by_part(scores, PARTS)
    monkeypatch.setattr("leaderboard.stats.styles.HELD", 2 * 2 * N)
    parts = best_by_part(scores, PARTS)
    for side in ("style", "value"):
        np.testing.assert_allclose(getattr(whole, side), getattr(parts, side))
    # Draws are summed in single precision; products of another shape are rounded otherwise.
    for side in ("low", "high"):
        np.testing.assert_allclose(getattr(whole, side), getattr(parts, side), rtol=1e-6)


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


def test_one_order_is_one_with_a_wide_interval_and_equal_scores_or_few_models_have_none() -> None:
    column = np.arange(12.0)
    found = rank_correlations(np.stack([column, column**3, -column], axis=1))
    assert (found.rho[0, 1], found.high[0, 1]) == (1, 1)
    assert 0.5 < found.low[0, 1] < 1
    assert (found.rho[0, 2], found.low[0, 2]) == (-1, -1)
    assert -1 < found.high[0, 2] < -0.5
    found = rank_correlations(np.stack([np.arange(12.0), np.ones(12)], axis=1))
    assert np.isnan(found.rho[0, 1])
    assert np.isnan(rank_correlations(np.ones((9, 2)) * np.arange(9)[:, None]).rho).all()
    assert rank_correlations(np.empty((0, 3))).n.tolist() == [[0] * 3] * 3


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
