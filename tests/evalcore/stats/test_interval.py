"""Intervals against numbers from elsewhere, and against simulations with known truth."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.score.numbers.uncertainty import measure, measure_group
from evalcore.stats import (
    Interval,
    difference_interval,
    interval,
    mean_interval,
    pooled_standard_error,
    standard_error,
    wilson,
)


def test_wilson_equals_scipys():
    # scipy 1.17: binomtest(7, 50).proportion_ci(method="wilson")
    bounds = wilson(7, 50)
    assert (bounds.low, bounds.high) == pytest.approx((0.06950833427, 0.26186193711))


def test_wilson_of_all_right_is_not_of_zero_width():
    bounds = wilson(198, 198)
    assert (round(bounds.low, 3), bounds.high) == (0.981, 1.0)


def test_the_arc_intervals_of_the_paper_follow_from_accuracy_and_n(test_data):
    table = json.loads((test_data.parent / "golden" / "table1.json").read_text())
    n = table["n"][0]
    checked = 0
    for row in table["rows"].values():
        for percent, half_width in row[:2]:
            right = round(percent / 100 * n)
            error = standard_error([1.0] * right + [0.0] * (n - right))
            assert 196 * error == pytest.approx(half_width, abs=0.011)
            checked += 1
    assert checked == 10


def test_clustered_intervals_cover_the_truth_where_plain_ones_do_not():
    generator = np.random.default_rng(0)
    plain = clustered = 0
    clusters = np.repeat(np.arange(40), 15)
    for _ in range(600):
        level = generator.normal(0, 1, 40)[clusters]
        scores = (level + generator.normal(0, 1, 600) > 0).astype(float)
        for with_clusters in (False, True):
            bounds = interval(scores, list(clusters) if with_clusters else None)
            covered = bounds.low <= 0.5 <= bounds.high
            clustered += covered and with_clusters
            plain += covered and not with_clusters
    assert clustered / 600 > 0.92
    assert plain / 600 < 0.80


def test_few_clusters_take_students_t():
    generator = np.random.default_rng(0)
    clusters = [n // 20 for n in range(100)]
    by_t = by_z = 0
    for _ in range(1500):
        scores = generator.normal(0, 1, 5)[clusters] + generator.normal(0, 1, 100)
        bounds = interval(scores, clusters)
        by_t += bounds.low <= 0 <= bounds.high
        by_z += abs(bounds.value) <= 1.96 * standard_error(scores, clusters)
    assert by_t / 1500 == pytest.approx(0.95, abs=0.02)
    assert by_z / 1500 < 0.91


def test_pooled_error_is_the_reference_formula():
    errors, sizes = [0.02, 0.03, 0.05], [100, 200, 50]
    within = sum((n - 1) * n * e**2 for e, n in zip(errors, sizes, strict=True))
    assert pooled_standard_error(errors, sizes) == pytest.approx(math.sqrt(within / 347 / 350))


def test_the_interval_of_a_mean_adds_variances():
    parts = [Interval(0.47, 0.5, 0.53), Interval(0.66, 0.7, 0.74)]
    mean = mean_interval(parts)
    assert (mean.low, mean.value, mean.high) == pytest.approx((0.575, 0.6, 0.625))


def test_the_interval_of_a_difference_is_newcombes():
    # Newcombe 1998, Table II (method 10, no continuity correction): 56/70 - 48/80
    difference = difference_interval(wilson(56, 70), wilson(48, 80))
    bounds = (difference.low, difference.value, difference.high)
    assert bounds == pytest.approx((0.0524, 0.2, 0.3339), abs=5e-5)


def test_a_part_at_its_limit_leaves_the_mean_uncertain():
    mean = mean_interval([wilson(240, 240), wilson(240, 240)])
    assert mean.value == mean.high == 1.0
    assert mean.low == pytest.approx(1 - math.sqrt(2) * (1 - wilson(240, 240).low) / 2)


@pytest.mark.parametrize(
    ("scores", "clusters", "name"),
    [
        ([], None, "scores"),
        ([1.0], None, "scores"),
        ([1.0, math.nan], None, "scores"),
        ([1.0, 0.0], ["a"], "clusters"),
        ([1.0, 0.0], ["a", "a"], "clusters"),
    ],
)
def test_bad_input_is_named(scores, clusters, name):
    with pytest.raises(ValueError, match=name):
        standard_error(scores, clusters)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=80))
def test_bounds_always_hold_the_value_and_stay_in_range(scores):
    measured = measure(scores)
    bounds = measured.interval
    assert bounds.low <= bounds.value <= bounds.high
    assert bounds.low < bounds.high
    assert bounds.low >= -1e-9
    assert bounds.high <= 1 + 1e-9
    assert measured.n == len(scores)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=30), min_size=2))
def test_a_group_is_the_mean_over_all_its_documents(parts):
    measured = measure_group(parts)
    scores = [score for part in parts for score in part]
    assert measured.interval.value == pytest.approx(sum(scores) / len(scores))
    assert measured.n == len(scores)


def test_wilson_is_used_where_few_are_right_and_normal_elsewhere():
    assert measure([1.0] * 9 + [0.0] * 91).method == "wilson"
    assert measure([1.0] * 30 + [0.0] * 70).method == "normal"


def test_clusters_that_are_all_right_leave_the_score_uncertain():
    measured = measure([1.0] * 20, ["a"] * 10 + ["b"] * 10)
    assert measured.method == "wilson"
    assert measured.interval.low == pytest.approx(wilson(2, 2).low)


def test_one_cluster_alone_is_worth_one_question():
    measured = measure([1.0, 0.0] * 50, ["a"] * 100)
    assert measured.stderr is None
    assert measured.interval.high - measured.interval.low > 0.7


def test_a_group_of_clustered_parts_counts_the_clusters():
    scores, clusters = [1.0] * 50 + [0.0] * 50, [n // 10 for n in range(100)]
    apart = measure_group([scores, scores])
    together = measure_group([scores, scores], [clusters, clusters])
    assert together.stderr > 2 * apart.stderr
