"""Two models, many comparisons, repeated answers: against numbers from elsewhere."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.stats import (
    benjamini_hochberg,
    holm,
    kendall_tau,
    mcnemar,
    minimum_detectable_difference,
    paired_difference,
    paired_rows,
    pass_at_k,
)

# R: with(sleep, t.test(extra[group == 1], extra[group == 2], paired = TRUE))
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

scores = st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=60)


def test_paired_difference_is_rs_paired_t_test():
    found = paired_difference(SLEEP_1, SLEEP_2)
    assert found.difference == pytest.approx(-1.58)
    assert (found.low, found.high) == pytest.approx((-2.4598858, -0.7001142))
    assert found.p_value == pytest.approx(0.002833, abs=5e-7)
    assert found.difference / found.stderr == pytest.approx(-4.0621, abs=5e-5)


def test_pairing_more_than_halves_the_error_of_like_models():
    generator = np.random.default_rng(3)
    difficulty = generator.normal(0, 1, 400)
    a, b = ((difficulty + generator.normal(0, 0.25, 400) > 0).astype(float) for _ in range(2))
    unpaired = math.hypot(stdev(a), stdev(b)) / math.sqrt(400)
    assert paired_difference(a, b).stderr < unpaired / 2


def test_questions_of_one_passage_make_a_difference_less_sure():
    generator = np.random.default_rng(0)
    passages = np.repeat(np.arange(40), 10)
    covered = {True: 0, False: 0}
    for _ in range(400):
        d = generator.normal(0, 1, 40)[passages] + generator.normal(0, 1, 400)
        for clustered in covered:
            found = paired_difference(d, np.zeros(400), list(passages) if clustered else None)
            covered[clustered] += found.low <= 0 <= found.high
    assert covered[True] / 400 > 0.92
    assert covered[False] / 400 < 0.75


def test_a_pair_at_the_edge_of_resolution_has_q_of_one():
    found = paired_difference(SLEEP_2, SLEEP_1)
    # (4.0621 / (1.959964 + 0.841621))²
    assert found.q == pytest.approx(2.1023, abs=1e-4)


def test_like_answers_are_no_difference():
    found = paired_difference([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (found.difference, found.stderr, found.p_value, found.q) == (0.0, 0.0, 1.0, 0.0)


@given(scores, st.data())
def test_swapping_the_models_turns_the_difference_round(a, data):
    b = data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=len(a), max_size=len(a)))
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert there.difference == pytest.approx(-back.difference)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.p_value == pytest.approx(back.p_value)
    assert 0 <= there.p_value <= 1
    assert there.low <= there.difference <= there.high


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


def test_a_difference_over_fixed_parts_is_as_sure_as_within_them():
    generator = np.random.default_rng(5)
    parts = generator.normal(0, 1, (4, 50)) + 3 * np.arange(4)[:, None]
    a, strata = parts.ravel()[None], np.repeat(np.arange(4), 50)
    found = paired_rows(a, np.zeros_like(a), strata=strata)
    within = math.sqrt(sum(part.var(ddof=1) / 50 for part in parts)) / 4
    # R: qt(.975, 196) = 1.972141
    assert (found.high - found.low)[0] / 2 == pytest.approx(1.972141 * within)


def test_a_difference_of_means_over_parts_counts_every_part_alike():
    generator = np.random.default_rng(6)
    sizes = [10, 40, 150]
    parts = [generator.integers(0, 2, size).astype(float) for size in sizes]
    a, strata = np.concatenate(parts)[None], np.repeat(np.arange(3), sizes)
    found = paired_rows(a, np.zeros_like(a), strata=strata, by_part=True)
    assert found.difference[0] == pytest.approx(sum(part.mean() for part in parts) / 3)
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)) / 3
    # R: qt(.975, 197) = 1.972079
    assert (found.high - found.low)[0] / 2 == pytest.approx(1.972079 * error)


def test_pairs_that_never_differ_have_intervals_of_no_width():
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


def test_a_difference_of_that_size_is_found_four_times_in_five():
    generator = np.random.default_rng(1)
    pilot = generator.normal(0, 1, (2, 5000))
    size = minimum_detectable_difference(*pilot) * math.sqrt(5000 / 200)
    found = 0
    for _ in range(600):
        a, b = generator.normal(0, 1, (2, 200))
        found += paired_difference(a + size, b).low > 0
    assert found / 600 == pytest.approx(0.8, abs=0.05)


def test_more_answers_to_each_question_resolve_more():
    generator = np.random.default_rng(2)
    p = generator.uniform(0, 1, (500, 1))
    one, ten = ((generator.random((500, k)) < p).astype(float) for k in (1, 10))
    assert minimum_detectable_difference(ten, 1 - ten) < minimum_detectable_difference(one, 1 - one)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_right_answer(n, data):
    correct, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    answers = [1] * correct + [0] * (n - correct)
    expected = mean(max(drawn) for drawn in combinations(answers, k))
    assert pass_at_k(n, correct, k) == pytest.approx(expected)


def test_pass_at_k_of_many_answers_does_not_overflow():
    assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01)


def test_kendall_tau_is_rs():
    # R: cor.test of its help page, "Hunter L measure", and of the same with a tie
    x = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1]
    y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]
    assert kendall_tau(x, y) == pytest.approx(0.4444444)


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


def test_adjusted_p_values_are_rs():
    # R: p.adjust(c(.04, .01, .03, .005, .5), "holm") and "BH"
    p = [0.04, 0.01, 0.03, 0.005, 0.5]
    assert holm(p).tolist() == pytest.approx([0.09, 0.04, 0.09, 0.025, 0.5])
    assert benjamini_hochberg(p).tolist() == pytest.approx([0.05, 0.025, 0.05, 0.025, 0.5])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_adjusting_keeps_the_order_and_never_lowers(p):
    for adjusted in (holm(p), benjamini_hochberg(p)):
        order = np.argsort(p, kind="stable")
        assert (np.diff(adjusted[order]) >= 0).all()
        assert (adjusted >= np.array(p)).all()
        assert adjusted.max() <= 1


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: paired_difference([], []), "a"),
        (lambda: paired_difference([1.0, 0.0], [1.0]), "b"),
        (lambda: paired_difference([1.0, 0.0], [1.0, math.nan]), "b"),
        (lambda: paired_difference([1.0, 0.0], [1.0, 1.0], ["x", "x"]), "clusters"),
        (lambda: paired_difference([1.0, 0.0], [1.0, 1.0], confidence=1.0), "confidence"),
        (lambda: paired_rows(np.ones((2, 3)), np.ones((1, 3))), "b"),
        (lambda: paired_rows(np.ones((2, 3)), np.ones((2, 3)), [1, 1, 1]), "clusters"),
        (lambda: paired_rows(np.ones((2, 3)), np.ones((2, 3)), confidence=0.0), "confidence"),
        (lambda: mcnemar(-1, 3), "only_a"),
        (lambda: mcnemar(1, 2.5), "only_b"),
        (lambda: minimum_detectable_difference([1.0], [1.0]), "scores_a"),
        (lambda: minimum_detectable_difference([1.0, 0.0], [math.nan, 1.0]), "scores_b"),
        (lambda: minimum_detectable_difference([1.0, 0.0], [1.0, 1.0], power=0.0), "power"),
        (lambda: kendall_tau([1.0, 2.0], [1.0]), "b"),
        (lambda: kendall_tau([1.0, 1.0], [1.0, 2.0]), "a"),
        (lambda: holm([]), "p_values"),
        (lambda: holm([0.1, 1.2]), "p_values"),
        (lambda: pass_at_k(3, 1, 4), "k"),
        (lambda: pass_at_k(3, 4, 1), "correct"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
