"""How sure a number is that is no mean of right and wrong."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.score.metrics.aggregations import (
    Aggregation,
    aggregation_from,
    bypass,
    f1,
    perplexity,
)
from evalcore.score.numbers.uncertainty import (
    measure,
    measure_group,
    measure_parts,
    measure_statistic,
)
from evalcore.stats import wilson

PERPLEXITY = Aggregation("perplexity", perplexity)


def loglikelihoods(n: int) -> list[float]:
    return list(np.random.default_rng(0).normal(-2, 1, n))


def test_the_bootstrap_of_a_perplexity_is_that_of_the_delta_method():
    items = loglikelihoods(2000)
    value = perplexity(items)
    measured = measure_statistic(value, PERPLEXITY, items)
    expected = value * np.std(items, ddof=1) / math.sqrt(2000)
    assert measured.method == "bootstrap"
    assert measured.stderr == pytest.approx(expected, rel=0.05)
    assert measured.interval.low == pytest.approx(value - 1.96 * expected, rel=0.01)
    assert measured.interval.high == pytest.approx(value + 1.96 * expected, rel=0.01)


def test_documents_of_one_cluster_are_drawn_together():
    items = [item for item in loglikelihoods(50) for _ in range(10)]
    clusters = [n // 10 for n in range(500)]
    value = perplexity(items)
    alone = measure_statistic(value, PERPLEXITY, items)
    together = measure_statistic(value, PERPLEXITY, items, clusters)
    assert together.stderr > 2.5 * alone.stderr


def test_the_seed_decides():
    items = loglikelihoods(50)
    one, same, other = (
        measure_statistic(1.0, PERPLEXITY, items, seed=seed).stderr for seed in (1, 1, 2)
    )
    assert one == same != other


def test_an_averaged_f1_is_bootstrapped_as_it_is_averaged():
    pairs = [(n % 3, (n * n) % 3) for n in range(300)]
    aggregation = Aggregation("f1", lambda items: f1(items, "macro"), "macro")
    by_counts = measure_statistic(aggregation.of(pairs), aggregation, pairs)
    by_calls = measure_statistic(
        aggregation.of(pairs), aggregation_from(lambda items: f1(items, "macro")), pairs
    )
    assert by_counts.method == by_calls.method == "bootstrap"
    assert by_counts.stderr == pytest.approx(by_calls.stderr, rel=0.15)


def test_an_aggregation_of_the_task_is_resampled_in_silence(capsys):
    def largest(items):
        print("looking")
        return max(items)

    measured = measure_statistic(9.0, aggregation_from(largest), list(range(10)))
    assert measured.method == "bootstrap"
    assert measured.interval.high == pytest.approx(9.0 + 1.96 * measured.stderr, rel=1e-3)
    assert "looking" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("function", "items"),
    [
        (bypass, [None, None]),
        (lambda items: 1 / (len(set(items)) - 1), [1.0, 2.0]),  # has no value on a resample
        (max, [1.0]),
    ],
)
def test_what_cannot_be_resampled_has_a_value_and_no_interval(function, items):
    measured = measure_statistic(2.0, aggregation_from(function), items)
    assert (measured.method, measured.stderr) == ("none", None)
    assert measured.interval.low == measured.interval.value == measured.interval.high == 2.0


def test_numbers_beyond_0_and_1_are_never_taken_for_shares():
    """Of lengths, loglikelihoods and the like; even where nothing spreads, or one part has one."""
    assert measure([7.0, 7.0], ["a", "b"]).method == "none"
    assert measure([-3.0, 7.0], ["a", "a"]).method == "none"
    assert measure_group([[5.0, 7.0], [-3.0]]).method == "none"
    assert measure([5.0, 7.0, 9.0]).interval.high > 7


RIGHT_OR_WRONG = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60)
SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=30)
ANY = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)
CLUSTERS = st.one_of(st.none(), st.lists(st.integers(0, 5), min_size=60, max_size=60))


def labels_of(scores, clusters):
    return None if clusters is None else clusters[: len(scores)]


def holds(measured, scores, shares):
    low, value, high = dataclasses.astuple(measured.interval)
    assert low <= value <= high
    assert value == pytest.approx(np.mean(scores), rel=1e-9, abs=1e-9)
    assert measured.n == len(scores)
    assert (measured.method == "none") == (low == high)
    if measured.method == "wilson":
        assert shares
        assert low >= 0
        assert high <= 1


@given(st.one_of(RIGHT_OR_WRONG, SHARES, ANY), CLUSTERS)
@settings(max_examples=300, deadline=None)
def test_an_interval_holds_its_value_and_is_never_without_width(scores, clusters):
    """Whatever the scores: one that is not sure of itself says "none"."""
    shares = all(0 <= score <= 1 for score in scores)
    holds(measure(scores, labels_of(scores, clusters)), scores, shares)


@given(st.lists(st.tuples(st.one_of(RIGHT_OR_WRONG, SHARES, ANY), CLUSTERS), min_size=1))
@settings(max_examples=100, deadline=None)
def test_so_it_is_of_a_group(parts):
    scores = [score for part, _ in parts for score in part]
    if len(scores) == len(parts):
        return  # one document each: nothing to pool
    shares = all(0 <= score <= 1 for score in scores)
    clusters = [labels_of(part, labels) for part, labels in parts]
    holds(measure_group([part for part, _ in parts], clusters), scores, shares)


@pytest.mark.parametrize("per_cluster", [3, 7])
def test_clusters_that_score_alike_are_as_many_answers_as_clusters(per_cluster):
    """Their error is 0, but for rounding: that is no certainty."""
    scores = [1.0, *[0.0] * (per_cluster - 1)] * 30
    clusters = [place // per_cluster for place in range(len(scores))]
    measured = measure(scores, clusters)
    assert (measured.method, measured.stderr) == ("wilson", 0.0)
    assert measured.interval == wilson(30 / per_cluster, 30)


def test_dependent_answers_are_never_worth_more_than_independent_ones():
    scores = [1.0, 0.0, 0.0, 0.0] * 8 + [1.0, 0.0, 0.0]
    clusters = [place // 4 for place in range(35)]
    assert measure(scores, clusters).interval.high == pytest.approx(wilson(9, 35).high)


def test_a_group_whose_answers_are_all_right_knows_of_its_clusters():
    right, pairs = [1.0] * 20, [place // 10 for place in range(20)]
    assert measure_group([right, right]).interval == wilson(40, 40)
    assert measure_group([right, right], [pairs, pairs]).interval == wilson(4, 4)
    assert measure_group([right, right], [pairs, None]).interval == wilson(22, 22)


def test_what_is_the_same_on_all_resamples_has_no_interval():
    assert measure_statistic(1.0, Aggregation("f1", f1), [(1, 1), (1, 1)]).method == "none"


def test_the_plain_mean_of_parts_has_no_interval_where_one_of_them_has_none():
    sure, single = measure([0.2, 0.4, 0.9]), measure([0.5])
    both = measure_parts([sure, single], [3, 1], by_size=False)
    assert (both.method, both.stderr, both.n) == ("none", None, 4)
    alike = measure_parts([sure, sure], [3, 3], by_size=False)
    assert (alike.method, alike.n) == ("pooled", 6)
    assert alike.stderr == pytest.approx(sure.stderr / math.sqrt(2))
    half = (alike.interval.high - alike.interval.low) / 2
    assert half == pytest.approx(1.959964 * sure.stderr / math.sqrt(2), rel=1e-6)
