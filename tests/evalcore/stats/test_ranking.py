"""Ranges of ranks, against simulations with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import interval, rank_ranges


def ranges_by_intervals(scores) -> np.ndarray:
    """What a reader makes of separate intervals: ranks by those that do not overlap."""
    bounds = [interval(row) for row in scores]
    low = np.array([b.low for b in bounds])
    high = np.array([b.high for b in bounds])
    above = (low[None, :] > high[:, None]).sum(axis=1)
    below = (high[None, :] < low[:, None]).sum(axis=1)
    return np.stack([1 + above, len(low) - below], axis=1)


def test_ranges_hold_the_true_ranks_and_are_narrower_than_those_of_separate_intervals():
    generator = np.random.default_rng(0)
    skills = np.linspace(0.0, 0.4, 10)
    truth = 10 - np.arange(10)
    ours, theirs, covered = [], [], 0
    for seed in range(120):
        difficulty = generator.normal(0, 1, 900)
        noise = generator.normal(0, 0.4, (10, 900))
        scores = (skills[:, None] + noise > difficulty).astype(float)
        ranges = rank_ranges(scores, draws=1000, seed=seed).ranges
        covered += ((ranges[:, 0] <= truth) & (truth <= ranges[:, 1])).all()
        ours.append((ranges[:, 1] - ranges[:, 0] + 1).mean())
        theirs.append(np.diff(ranges_by_intervals(scores), axis=1).mean() + 1)
    assert covered / 120 >= 0.95
    assert np.mean(ours) < 0.75 * np.mean(theirs)


def false_claims(clusters: int, clustered: bool, runs: int) -> float:
    """Share of runs of ten equal models, each with its own luck per subject, with a claim."""
    generator = np.random.default_rng(1)
    subject = np.repeat(np.arange(clusters), 900 // clusters)
    claims = 0
    for seed in range(runs):
        luck = generator.normal(0, 0.3, (10, clusters))[:, subject]
        scores = luck + generator.normal(0, 1, (10, len(subject)))
        labels = list(subject) if clustered else None
        claims += rank_ranges(scores, labels, draws=1000, seed=seed).better.any()
    return claims / runs


def test_equal_models_with_subject_effects_are_told_apart_only_without_clusters():
    assert false_claims(clusters=45, clustered=True, runs=200) < 0.09
    assert false_claims(clusters=45, clustered=False, runs=100) > 0.4


def test_few_clusters_leave_more_to_chance():
    assert false_claims(clusters=20, clustered=True, runs=200) < 0.1


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


def test_a_model_and_its_copy_share_their_ranks():
    generator = np.random.default_rng(3)
    one, other = generator.random(200), generator.random(200) + 1
    found = rank_ranges([one, one, other])
    assert found.ranges.tolist() == [[2, 3], [2, 3], [1, 1]]
    assert found.better.tolist() == [[False] * 3, [False] * 3, [True, True, False]]


def test_what_differs_only_by_rounding_is_not_left_to_chance():
    for seed in range(40):
        generator = np.random.default_rng(seed)
        one, other = generator.random((2, 200))
        found = rank_ranges([one, one + 0.1, other - 0.2], draws=1000)
        assert found.ranges.tolist() == [[2, 2], [1, 1], [3, 3]]


def test_two_hundred_models_of_which_half_are_better():
    generator = np.random.default_rng(5)
    scores = generator.normal(0, 1, (200, 400))
    scores[:100] += 3
    ranges = rank_ranges(scores, draws=1000).ranges
    assert ranges[:100].max() == 100
    assert ranges[100:].min() == 101


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


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"scores": [1.0, 0.0]}, "scores"),
        ({"scores": [[1.0], [0.0]]}, "scores"),
        ({"scores": [[1.0, math.nan], [0.0, 0.0]]}, "scores"),
        ({"scores": [[1.0, 0.0]], "clusters": ["a", "a"]}, "clusters"),
        ({"scores": [[1.0, 0.0]], "clusters": ["a"]}, "clusters"),
        ({"scores": [[1.0, 0.0]], "confidence": 0}, "confidence"),
        ({"scores": [[1.0, 0.0]], "draws": 10}, "draws"),
    ],
)
def test_bad_input_is_named(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        rank_ranges(**arguments)
