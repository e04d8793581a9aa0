"""Two models, many models and two orders, compared: against R, counting and known truth."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import (
    benjamini_hochberg,
    holm,
    kendall_interval,
    kendall_tau,
    mcnemar,
    minimum_detectable_difference,
    paired_difference,
    paired_rows,
    pass_at_k,
    rank_ranges,
)
from leaderboard.stats import clear_flips

# R: with(sleep, t.test(extra[group == 1], extra[group == 2], paired = TRUE))
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_paired_difference_is_rs_paired_t_test():
    found = paired_difference(SLEEP_1, SLEEP_2)
    assert found.difference == pytest.approx(-1.58)
    assert (found.low, found.high) == pytest.approx((-2.4598858, -0.7001142))
    assert found.p_value == pytest.approx(0.002833, abs=5e-7)
    assert found.difference / found.stderr == pytest.approx(-4.0621, abs=5e-5)
    # (4.0621 / (1.959964 + 0.841621))²
    assert found.q == pytest.approx(2.1023, abs=1e-4)

    found = paired_difference([1.0, 0.0, 1.0, 1.0], [0.0] * 4, ["a", "a", "b", "b"])
    assert found.stderr == pytest.approx(0.25)
    # R: qt(.975, 1) = 12.706205; 2 * pt(-3, 1) = 0.2048328
    assert found.high == pytest.approx(0.75 + 12.706205 * 0.25)
    assert found.p_value == pytest.approx(0.2048328)

    found = paired_difference([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (found.difference, found.stderr, found.p_value, found.q) == (0.0, 0.0, 1.0, 0.0)


@given(st.integers(1, 5), st.integers(3, 40), st.integers(0, 1000), st.booleans())
def test_many_pairs_at_once_are_the_pairs_one_by_one(models, documents, seed, clustered):
    generator = np.random.default_rng(seed)
    a, b = (generator.random((2, models, documents)) < 0.6).astype(np.uint8)
    clusters = generator.permutation(np.arange(documents) % 3) if clustered else None
    labels = None if clusters is None else clusters.tolist()
    found = paired_rows(a, b, clusters)
    for model in range(models):
        one = paired_difference(a[model], b[model], labels)
        expected = (one.difference, one.low, one.high)
        assert tuple(part[model] for part in found) == pytest.approx(expected, abs=1e-12)


def test_many_pairs_at_once_over_parts_have_the_error_within_them():
    generator = np.random.default_rng(5)
    parts = generator.normal(0, 1, (4, 50)) + 3 * np.arange(4)[:, None]
    a, strata = parts.ravel()[None], np.repeat(np.arange(4), 50)
    found = paired_rows(a, np.zeros_like(a), strata=strata)
    within = math.sqrt(sum(part.var(ddof=1) / 50 for part in parts)) / 4
    # R: qt(.975, 196) = 1.972141
    assert (found.high - found.low)[0] / 2 == pytest.approx(1.972141 * within)

    generator = np.random.default_rng(6)
    sizes = [10, 40, 150]
    parts = [generator.integers(0, 2, size).astype(float) for size in sizes]
    a, strata = np.concatenate(parts)[None], np.repeat(np.arange(3), sizes)
    found = paired_rows(a, np.zeros_like(a), strata=strata, by_part=True)
    assert found.difference[0] == pytest.approx(sum(part.mean() for part in parts) / 3)
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)) / 3
    # R: qt(.975, 197) = 1.972079
    assert (found.high - found.low)[0] / 2 == pytest.approx(1.972079 * error)

    found = paired_rows(np.ones((2, 7)), np.array([np.ones(7), np.zeros(7)]))
    assert found.difference.tolist() == found.low.tolist() == found.high.tolist() == [0.0, 1.0]


def test_mcnemar_is_rs_binomial_test():
    # R: binom.test(5, 20)$p.value; binom.test(1, 8)$p.value
    assert mcnemar(5, 15) == pytest.approx(0.04138947)
    assert mcnemar(7, 1) == pytest.approx(0.0703125)
    assert mcnemar(4, 4) == 1.0
    assert mcnemar(0, 0) == 1.0


@pytest.mark.parametrize(("n", "variance", "points"), [(198, 0.2, 8.9), (14042, 0.145, 0.9)])
def test_the_resolution_of_known_benchmarks(n, variance, points):
    # As many questions one way as the other, so that the differences have that variance.
    apart = round(variance * n / 2)
    a = np.array([1.0] * apart + [0.0] * (n - apart))
    b = np.array([0.0] * apart + [1.0] * apart + [0.0] * (n - 2 * apart))
    assert 100 * minimum_detectable_difference(a, b) == pytest.approx(points, abs=0.08)


def test_more_answers_to_each_question_count_by_their_means():
    a, b = [1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]
    found = minimum_detectable_difference(a, b, power=0.9)
    # Differences 1, 0, 0, 1 have the variance 1/3; quantiles of 0.975 and 0.9
    assert found == pytest.approx((1.959964 + 1.281552) * math.sqrt(1 / 12))
    twice = np.array([[2.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.5, 0.5]])
    assert minimum_detectable_difference(twice, b, power=0.9) == pytest.approx(found)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_right_answer(n, data):
    correct, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    answers = [1] * correct + [0] * (n - correct)
    expected = mean(max(drawn) for drawn in combinations(answers, k))
    assert pass_at_k(n, correct, k) == pytest.approx(expected)


def test_pass_at_k_of_many_answers_does_not_overflow():
    assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01)


def test_adjusted_p_values_are_rs():
    # R: p.adjust(c(.04, .01, .03, .005, .5), "holm") and "BH"
    p = [0.04, 0.01, 0.03, 0.005, 0.5]
    assert holm(p).tolist() == pytest.approx([0.09, 0.04, 0.09, 0.025, 0.5])
    assert benjamini_hochberg(p).tolist() == pytest.approx([0.05, 0.025, 0.05, 0.025, 0.5])


# Ranges of ranks


def false_claims(clustered: bool) -> float:
    """Share of runs of ten equal models, each with its own luck per subject, with a claim."""
    generator = np.random.default_rng(1)
    subject = np.repeat(np.arange(45), 20)
    claims = 0
    for seed in range(200):
        luck = generator.normal(0, 0.3, (10, 45))[:, subject]
        scores = luck + generator.normal(0, 1, (10, len(subject)))
        labels = list(subject) if clustered else None
        claims += rank_ranges(scores, labels, draws=1000, seed=seed).better.any()
    return claims / 200


def test_equal_models_with_subject_effects_are_told_apart_only_without_clusters():
    assert false_claims(clustered=True) < 0.09
    assert false_claims(clustered=False) > 0.4


def test_two_models_are_told_apart_as_by_a_t_test():
    generator = np.random.default_rng(2)
    d = generator.normal(0, 1, 10)
    d -= d.mean()
    # R: qt(.975, 9) = 2.262157; one-sided tests of both orders at 5 % together
    edge = 2.262157 * d.std(ddof=1) / math.sqrt(10)
    above, below = (
        rank_ranges([d + shift * edge, np.zeros(10)], draws=200_000).better[0, 1]
        for shift in (1.02, 0.98)
    )
    assert above
    assert not below


def test_pairs_that_are_settled_leave_more_room_for_the_others():
    noise = np.random.default_rng(4).normal(0, 1, (10, 900))
    noise -= noise.mean(axis=1, keepdims=True)
    # R: qtukey(.95, 10, Inf) / sqrt(2) = 3.164: the edge for one pair among ten models of which
    # nothing else is known. Below it, but far above that of a pair alone:
    edge = (noise[0] - noise[1]).std(ddof=1) / math.sqrt(900)
    close = noise.copy()
    close[0] += 3.08 * edge
    assert not rank_ranges(close, draws=20_000).better.any()
    close[2:] += 100 * np.arange(1, 9)[:, None]
    assert rank_ranges(close, draws=20_000).better[0, 1]


def test_copies_share_their_ranks_and_rounding_decides_none():
    generator = np.random.default_rng(3)
    one, other = generator.random(200), generator.random(200) + 1
    found = rank_ranges([one, one, other])
    assert found.ranges.tolist() == [[2, 3], [2, 3], [1, 1]]
    assert found.better.tolist() == [[False] * 3, [False] * 3, [True, True, False]]

    for seed in range(40):
        generator = np.random.default_rng(seed)
        one, other = generator.random((2, 200))
        found = rank_ranges([one, one + 0.1, other - 0.2], draws=1000)
        assert found.ranges.tolist() == [[2, 2], [1, 1], [3, 3]]


@given(st.integers(1, 6), st.integers(2, 30), st.integers(0, 1000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_ranges_follow_from_the_claims(models, documents, seed, clustered):
    generator = np.random.default_rng(seed)
    levels = generator.uniform(0.1, 0.9, (models, 1))
    scores = (generator.random((models, documents)) < levels).astype(float)
    clusters = [n % 2 for n in range(documents)] if clustered else None
    found = rank_ranges(scores, clusters, draws=1000, seed=seed)
    again = rank_ranges(scores, clusters, draws=1000, seed=seed)
    assert (found.better == again.better).all()
    assert not (found.better & found.better.T).any()
    means = scores.mean(axis=1)
    assert all(means[j] > means[k] for j, k in zip(*np.nonzero(found.better), strict=True))
    assert (found.ranges[:, 0] == 1 + found.better.sum(axis=0)).all()
    assert (found.ranges[:, 1] == models - found.better.sum(axis=1)).all()


# How far two orders agree
scores = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=25)


def test_kendall_tau_is_rs_and_of_orders_that_agree_throughout_without_width():
    # R: cor.test of its help page, "Hunter L measure", and of the same with a tie
    x = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1]
    y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]
    assert kendall_tau(x, y) == pytest.approx(0.4444444)
    same = kendall_interval([1, 2, 3, 4], [2, 4, 6, 9])
    turned = kendall_interval([1, 2, 3, 4], [9, 6, 4, 2])
    assert (same.low, same.high) == (1.0, 1.0)
    assert (turned.low, turned.high) == (-1.0, -1.0)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_kendall_tau_counts_pairs(points):
    pairs = [(x[0] - y[0], x[1] - y[1]) for x, y in combinations(points, 2)]
    untied = [sum(1 for pair in pairs if pair[side]) for side in (0, 1)]
    if not all(untied):
        with pytest.raises(ValueError, match="no order"):
            kendall_tau(*zip(*points, strict=True))
        return
    agreeing = sum(np.sign(x) * np.sign(y) for x, y in pairs)
    expected = agreeing / math.sqrt(untied[0] * untied[1])
    assert kendall_tau(*zip(*points, strict=True)) == pytest.approx(expected)


@settings(deadline=None)  # scipy is imported on the first call
@given(scores)
def test_the_interval_is_the_jackknifes_around_tau(pairs):
    a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    most = [np.unique(side, return_counts=True)[1].max() for side in (a, b)]
    try:
        found = kendall_interval(a, b)
    except ValueError:
        assert max(most) >= len(a) - 1  # no order, or none once the one that differs is left out
        return
    assert found.value == pytest.approx(kendall_tau(a, b))
    if found.value in (-1.0, 1.0):
        assert found.low == found.high
        return
    without = np.array(
        [kendall_tau(np.delete(a, place), np.delete(b, place)) for place in range(len(a))]
    )
    tau = found.value
    from scipy.stats import t

    n = len(a)
    error = math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    half = float(t.ppf(0.975, n - 1)) * error / (1 - tau**2)
    assert found.low == pytest.approx(math.tanh(math.atanh(tau) - half), abs=1e-9)
    assert found.high == pytest.approx(math.tanh(math.atanh(tau) + half), abs=1e-9)


@given(
    st.lists(
        st.tuples(*[st.tuples(st.integers(1, 9), st.integers(0, 4)) for _ in range(2)]),
        min_size=1,
        max_size=20,
    )
)
def test_a_pair_flips_clearly_where_its_intervals_lie_apart_in_both_orders(models):
    first, second = (
        np.array([[low, low + width] for low, width in side]) for side in zip(*models, strict=True)
    )
    expected = sum(
        _apart(first[j], first[k]) * _apart(second[j], second[k]) < 0
        for j, k in combinations(range(len(models)), 2)
    )
    assert clear_flips(first, second) == expected


def _apart(one, other):
    """-1 where `one` lies below `other` as a whole, 1 where above, else 0."""
    return -1 if one[1] < other[0] else 1 if one[0] > other[1] else 0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: paired_difference([1.0], [1.0]), "a"),
        (lambda: paired_difference([1.0, 0.0], [1.0]), "b"),
        (lambda: paired_difference([1.0, 0.0], [1.0, 1.0], confidence=1.0), "confidence"),
        (lambda: paired_rows(np.ones((2, 3)), np.ones((1, 3))), "b"),
        (lambda: paired_rows(np.ones((2, 3)), np.ones((2, 3)), confidence=0.0), "confidence"),
        (lambda: mcnemar(-1, 3), "only_a"),
        (lambda: mcnemar(1, 2.5), "only_b"),
        (lambda: minimum_detectable_difference([1.0], [1.0]), "scores_a"),
        (lambda: minimum_detectable_difference([1.0, 0.0], [1.0]), "scores_b"),
        (lambda: minimum_detectable_difference([1.0, 0.0], [1.0, 1.0], power=0.0), "power"),
        (lambda: holm([0.1, 1.2]), "p_values"),
        (lambda: pass_at_k(3, 1, 4), "k"),
        (lambda: pass_at_k(3, 4, 1), "correct"),
        (lambda: rank_ranges(scores=[1.0, 0.0]), "scores"),
        (lambda: rank_ranges(scores=[[1.0, math.nan], [0.0, 0.0]]), "scores"),
        (lambda: rank_ranges(scores=[[1.0, 0.0]], clusters=["a", "a"]), "clusters"),
        (lambda: rank_ranges(scores=[[1.0, 0.0]], confidence=0), "confidence"),
        (lambda: rank_ranges(scores=[[1.0, 0.0]], draws=10), "draws"),
        (lambda: kendall_interval([1.0, 2.0], [1.0, 2.0]), "a"),
        (lambda: kendall_interval([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), "a"),
        (lambda: kendall_interval([1.0, 2.0, 3.0, 2.5], [1.0, 1.0, 1.0, 2.0]), "b"),
        (lambda: clear_flips([[1, 2]], [[1, 2], [2, 2]]), "second"),
        (lambda: clear_flips([1, 2], [1, 2]), "first"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
