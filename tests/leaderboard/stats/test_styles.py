"""What styles do to scores and orders: against counting, by hand, and simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import Interval, interval, kendall_tau, wilson
from leaderboard.stats.styles import best_of, flipped_share, style_spreads, variance_shares


def test_spreads_are_of_each_model():
    found = style_spreads([[0.2, 0.6, 0.3], [0.5, 0.5, 0.5]])
    assert found.lowest.tolist() == [0.2, 0.5]
    assert found.median.tolist() == [0.3, 0.5]
    assert found.highest.tolist() == [0.6, 0.5]
    assert found.spread.tolist() == pytest.approx([0.4, 0.0])


def test_variance_is_split_as_by_hand():
    # Sums of squares: question 13 over 2 degrees of freedom, style 6 over 1, residual 3 over 2.
    found = variance_shares([[1, 2, 3], [2, 3, 7]])
    parts = np.array([(6.5 - 1.5) / 2, (6 - 1.5) / 3, 1.5])
    expected = parts / parts.sum()
    assert (found.question, found.style, found.residual) == pytest.approx(tuple(expected))


def test_variance_shares_are_those_that_made_the_scores():
    generator = np.random.default_rng(0)
    style = np.linspace(-1, 1, 8)[:, None]
    style *= math.sqrt(2 / style.var(ddof=1))
    scores = generator.normal(0, 1, 20_000) + style + generator.normal(0, 1, (8, 20_000))
    found = variance_shares(scores)
    assert (found.question, found.style, found.residual) == pytest.approx(
        (0.25, 0.5, 0.25), abs=0.01
    )


def test_pure_noise_is_no_matter_of_question_or_style():
    found = variance_shares(np.random.default_rng(1).normal(0, 1, (2, 20_000)))
    assert found.residual == pytest.approx(1.0, abs=0.02)


lists = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25)


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


def test_flipped_share_of_ten_thousand_models():
    generator = np.random.default_rng(2)
    one = generator.random(10_000)
    other = one + generator.normal(0, 0.1, 10_000)
    assert flipped_share(one, other) == pytest.approx((1 - kendall_tau(one, other)) / 2)
    assert flipped_share(one, -one) == 1.0
    assert flipped_share(one, one) == 0.0
    # Scores out of 1,172 questions tie often; ties are left out of both counts.
    rough = (one * 1172).round(), (other * 1172).round()
    assert flipped_share(*rough) == pytest.approx(flipped_share(one, other), abs=0.002)


def best(scores, **options):
    """The best style of one model with its interval."""
    found = best_of([scores], **options)
    return int(found.style[0]), Interval(found.low[0], found.value[0], found.high[0])


def test_the_best_style_is_named_with_the_interval_of_a_best():
    generator = np.random.default_rng(3)
    scores = (generator.random((3, 400)) < [[0.3], [0.7], [0.5]]).astype(float)
    winner, bounds = best(scores, draws=4000)
    assert winner == 1
    alone = interval(scores[1])
    # Far ahead of the others, the best is that style's own score.
    assert (bounds.low, bounds.value, bounds.high) == pytest.approx(
        (alone.low, alone.value, alone.high), abs=0.005
    )


def test_the_interval_of_a_best_holds_the_best_of_the_true_scores():
    generator = np.random.default_rng(4)
    covered = 0
    for seed in range(300):
        difficulty = generator.normal(0, 1, 500)
        skills = np.array([[0.3], [0.0]])
        scores = (skills + generator.normal(0, 1, (2, 500)) > difficulty).astype(float)
        truth = 0.5 * (1 + math.erf(0.3 / 2))
        _, bounds = best(scores, seed=seed, draws=1000)
        covered += bounds.low <= truth <= bounds.high
    assert covered / 300 == pytest.approx(0.95, abs=0.03)


def test_the_best_of_two_equal_styles_is_less_far_below_than_either_alone():
    scores = np.random.default_rng(5).integers(0, 2, (2, 300)).astype(float)
    winner, bounds = best(scores, draws=4000)
    assert bounds.low > interval(scores[winner]).low


def test_the_bounds_are_percentiles_of_the_largest_mean_on_resamples():
    scores = np.random.default_rng(9).random((2, 60))
    generator = np.random.default_rng(10)
    largest = [scores[:, generator.integers(0, 60, 60)].mean(axis=1).max() for _ in range(20_000)]
    _, bounds = best(scores, draws=20_000)
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


def test_scores_that_are_no_whole_numbers_are_resampled_alike():
    scores = np.random.default_rng(6).integers(0, 2, (3, 200)).astype(float)
    winner, bounds = best(scores, seed=8)
    half_winner, half = best(scores / 2, seed=8)
    assert winner == half_winner
    assert (half.low, half.high) == pytest.approx((bounds.low / 2, bounds.high / 2))


def test_questions_of_one_passage_make_the_best_less_sure():
    generator = np.random.default_rng(7)
    scores = np.repeat(generator.integers(0, 2, (2, 40)), 10, axis=1).astype(float)
    _, alone = best(scores)
    _, together = best(scores, clusters=[n // 10 for n in range(400)])
    assert together.high - together.low > 2 * (alone.high - alone.low)


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


@pytest.mark.parametrize(
    ("call", "name"),
    [
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
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
