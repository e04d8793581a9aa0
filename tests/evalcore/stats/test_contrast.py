"""Differences over parts and averages: against simpler forms, and against known truth."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from evalcore.stats import Share, paired_difference, paired_share, total_difference

RNG = np.random.default_rng(7)
A = (RNG.random(300) < 0.6).astype(float)
B = (RNG.random(300) < 0.5).astype(float)


def test_one_task_is_the_paired_difference():
    found, expected = total_difference([paired_share(B - A)]), paired_difference(B, A)
    assert vars(found) == pytest.approx(vars(expected))


def test_one_task_of_clusters_is_the_clustered_paired_difference():
    clusters = RNG.integers(0, 25, 300)
    found = total_difference([paired_share(B - A, clusters=clusters)])
    expected = paired_difference(B, A, clusters.tolist())
    assert vars(found) == pytest.approx(vars(expected))


def test_fixed_parts_do_not_add_to_the_error():
    parts = np.repeat([0, 1], 150)
    shifted = (B - A) + np.where(parts, 0.5, -0.5)
    plain, stratified = paired_share(shifted), paired_share(shifted, strata=parts)
    assert stratified.difference == pytest.approx(plain.difference)
    assert stratified.variance < plain.variance


def test_independent_shares_add_up_as_satterthwaite_says():
    # Welch's test is two shares of opposite sign; R's page of t.test: t.test(1:10, c(7:20, 200))
    first, second = np.arange(1.0, 11), np.array([*range(7, 21), 200.0])
    found = total_difference([paired_share(first), paired_share(-second)])
    assert found.p_value == pytest.approx(0.1245, abs=5e-5)


def test_known_variances_give_the_normal_interval():
    found = total_difference([Share(0.1, 0.0004, inf), Share(0.05, 0.0005, inf)])
    half = 1.959963985 * sqrt(0.0009)
    assert (found.low, found.high) == pytest.approx((0.15 - half, 0.15 + half))


def test_without_spread_the_interval_is_the_value():
    nothing = total_difference([paired_share(np.zeros(10))])
    assert (nothing.low, nothing.high, nothing.p_value, nothing.q) == (0, 0, 1, 0)
    alike = total_difference([paired_share(np.full(10, 0.1))])
    assert (alike.low, alike.high, alike.p_value) == (alike.difference, alike.difference, 0)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([], "at least one"),
        ([Share(0.0, -1.0, 3)], "no share"),
        ([Share(np.nan, 1, 3)], "no share"),
    ],
)
def test_what_is_no_share_is_refused(shares, message):
    with pytest.raises(ValueError, match=f"shares.*{message}"):
        total_difference(shares)


def test_the_interval_of_an_average_of_small_tasks_covers_its_truth():
    rng, hits, draws = np.random.default_rng(3), 0, 1500
    truth = 0.08
    for _ in range(draws):
        shares = []
        for clusters, size in ((12, 5), (60, 1)):
            shift = np.repeat(rng.normal(0, 0.3, clusters), size)
            differences = truth + shift + rng.normal(0, 0.4, clusters * size)
            labels = np.repeat(np.arange(clusters), size)
            shares.append(paired_share(differences, weight=0.5, clusters=labels))
        found = total_difference(shares)
        hits += found.low <= truth <= found.high
    assert hits / draws == pytest.approx(0.95, abs=0.017)
