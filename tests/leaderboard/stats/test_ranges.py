"""Ranks and averages over tasks, and between what a run's score will end.

Against simpler forms, by hand, and known truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from math import inf, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from evalcore.stats import Block, block, paired_difference, rank_ranges, rank_upper_bound
from evalcore.stats.ranking import shown_better
from evalcore.watch import LOOKS, Stratum
from leaderboard.stats import Standing, check_strata, held_together, ranges_of, standing
from leaderboard.stats.contrast import Share, paired_share, total_difference
from leaderboard.stats.ranges import bands, board_ranges


def board(tasks, **options):
    """Ranges of the average over these (models, documents) tasks, with the order of the models.

    A task may be a pair with the clusters of its documents.
    """
    pairs = [task if isinstance(task, tuple) else (task, None) for task in tasks]
    blocks = [block(scores, weight=1 / len(pairs), clusters=labels) for scores, labels in pairs]
    means = sum(one.means for one in blocks)
    order = np.argsort(-means, kind="stable")
    if "keys" in options:
        options["keys"] = options["keys"][order]

    def blocks_of(part):
        rows = order[part]
        return [Block(one.means[rows], one.deviations[rows], one.freedom) for one in blocks]

    return board_ranges(means[order], blocks_of, **options), order


def answers(generator, skills, documents, noise=1.0):
    """Right or wrong answers of models to questions whose difficulty they share."""
    difficulty = generator.normal(0, 1, documents)
    own = generator.normal(0, noise, (len(skills), documents))
    return (np.asarray(skills)[:, None] + own > difficulty).astype(float)


bound = st.integers(0, 12).map(float)


interval = st.one_of(st.tuples(bound, bound).map(sorted), st.just([np.nan, np.nan]))


GENERATOR = np.random.default_rng(7)
A = (GENERATOR.random(300) < 0.6).astype(float)
B = (GENERATOR.random(300) < 0.5).astype(float)


def test_one_task_gives_the_ranges_of_that_task():
    generator = np.random.default_rng(0)
    scores = answers(generator, np.linspace(0.6, 0, 12), 400)
    scores = scores[np.argsort(-scores.mean(axis=1), kind="stable")]
    for clusters in (None, np.repeat(np.arange(50), 8)):
        found, _ = board([(scores, clusters)])
        alone = rank_ranges(scores, None if clusters is None else clusters.tolist())
        assert (found.ranges == alone.ranges).all()
        assert [np.diagonal(alone.better, d).sum() for d in range(1, 12)] == (
            found.better.sum(axis=0).tolist()
        )
        assert found.better.any()
        assert not found.cut.any()


def test_ranges_of_an_average_hold_the_true_ranks():
    generator = np.random.default_rng(1)
    skills = np.linspace(0.8, 0.0, 10)
    sizes = (100, 300, 500)
    passages = np.repeat(np.arange(15), 20)  # so few that their block is drawn as a t
    widths, covered = [], 0
    for seed in range(150):
        tasks = [answers(generator, skills, n) for n in sizes]
        luck = generator.normal(0, 0.1, (10, 15))[:, passages]
        tasks.append((skills[:, None] / 3 + luck + generator.normal(0, 0.3, (10, 300)), passages))
        found, order = board(tasks, draws=1000, seed=seed)
        truth = 1 + order
        covered += ((found.ranges[:, 0] <= truth) & (truth <= found.ranges[:, 1])).all()
        widths.append(np.diff(found.ranges, axis=1).mean() + 1)
    assert covered / 150 >= 0.95
    assert np.mean(widths) < 5  # of ten


def test_what_varies_between_draws_of_examples_makes_ranges_wider():
    generator = np.random.default_rng(3)
    scores = answers(generator, np.linspace(0, 1, 10), 900)
    sure, _ = board([scores])
    unsure, _ = board([scores], own_variance=np.full(10, 0.05**2))
    assert (np.diff(unsure.ranges) >= np.diff(sure.ranges)).all()
    assert np.diff(unsure.ranges).sum() > np.diff(sure.ranges).sum()


def test_average_without_any_questions_is_judged_by_its_own_variance():
    # Two means, 1.96 standard errors of their difference apart: on the edge, as by a z test.
    for factor, apart in ((1.02, True), (0.98, False)):
        means = [factor * 1.959964 * math.sqrt(2), 0.0]
        found = board_ranges(means, lambda _: [], own_variance=[1.0, 1.0], draws=200_000)
        assert found.better[0, 0] == apart


def test_windows_agree_with_the_exact_ranges_where_models_are_clearly_apart():
    generator = np.random.default_rng(4)
    # Groups of three that nobody can tell apart, far from the next three.
    scores = generator.normal(0, 0.1, (60, 300)) - np.repeat(np.arange(20), 3)[:, None]
    exact, _ = board([scores], reach=30)
    assert exact.reach == 59
    for reach in (5, 7, 10, 29):
        windows, _ = board([scores], reach=reach)
        assert windows.reach == reach
        assert (windows.ranges == exact.ranges).all()
        assert (windows.better == exact.better[:, :reach]).all()
        assert not windows.cut.any()
        for found in (windows, exact):
            assert bands(found.better, np.arange(60)) == [*range(0, 60, 3)]


def test_windows_begin_at_the_lowest_keys_and_decide_up_to_the_next():
    generator = np.random.default_rng(5)
    scores = answers(generator, np.linspace(1.5, 0, 47), 300)
    scores = scores[np.argsort(-scores.mean(axis=1), kind="stable")]
    keys = np.full(47, 9, np.uint64)
    # Of the two at 12 and 14 the lower one alone: they are within two fifths of 10.
    keys[[8, 12, 14, 20, 45]] = 3, 2, 1, 4, 0
    found, _ = board([scores], reach=10, keys=keys)
    # Nothing begins for 27 places from 20 on, which is cut into three; with 37 all end together.
    starts = [0, 7, 14, 20, 28, 36, 47]
    for start, until in pairwise(starts):
        stop = min(until + 10, 47)
        window, _ = board([scores[start:stop]], reach=20)
        for j in range(start, until):
            of_j = window.better[j - start, :10]
            assert (found.better[j, : len(of_j)] == of_j).all(), (start, j)
            assert not found.better[j, len(of_j) :].any()


def test_ranges_that_end_where_nobody_compared_are_cut():
    scores = np.random.default_rng(6).normal(0, 1, (30, 100))
    found, _ = board([scores], reach=5)
    assert not found.better.any()
    assert found.ranges[:, 0].tolist() == [max(1, place - 5) for place in range(1, 31)]
    assert found.ranges[:, 1].tolist() == [min(30, place + 5) for place in range(1, 31)]
    assert found.cut[:, 0].tolist() == [place > 6 for place in range(1, 31)]
    assert found.cut[:, 1].tolist() == [place < 25 for place in range(1, 31)]
    assert bands(found.better, np.arange(30)) == [0, 6, 12, 18, 24]
    assert bands(found.better, np.array([0, 4, 6, 7, 11, 29])) == [0, 2, 5], "of some of them"


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 1000), st.floats(0, 2))
@settings(max_examples=60, deadline=None)
def test_ranges_follow_from_the_claims(models, reach, seed, spread):
    generator = np.random.default_rng(seed)
    scores = answers(generator, generator.normal(0, spread, models), 60)
    found, order = board([scores], reach=reach, draws=1000, seed=seed)
    means, places = scores.mean(axis=1)[order], np.arange(1, models + 1)
    assert found.reach == (models - 1 if models <= 2 * reach else reach)
    assert found.better.shape == (models, found.reach)
    claims = [(j, j + 1 + d) for j, d in zip(*np.nonzero(found.better), strict=True)]
    assert all(means[j] > means[k] for j, k in claims)
    best, worst = found.ranges.T
    assert (best >= 1).all()
    assert (best <= places).all()
    assert (places <= worst).all()
    assert (worst <= models).all()
    for place in range(models):
        beaten_by = sum(k == place for _, k in claims)
        beats = sum(j == place for j, _ in claims)
        assert best[place] == 1 + beaten_by + max(0, place - found.reach)
        assert worst[place] == models - beats - max(0, models - 1 - place - found.reach)
    starts = bands(found.better, np.arange(models))
    assert starts[0] == 0
    for start, end in zip(starts, [*starts[1:], models], strict=True):
        assert start < end
        assert not found.better[start, : end - start - 1].any()
        assert end == models or end == start + 1 + reach or found.better[start, end - start - 1]


@given(st.integers(2, 50), st.integers(0, 1000), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_claims_are_those_of_a_plain_step_down(models, seed, spread):
    generator = np.random.default_rng(seed)
    noise = generator.uniform(0.2, 2, (models, 1)) * generator.normal(0, 1, (models, 30))
    scores = generator.normal(0, spread, (models, 1)) + noise
    task = block(scores)
    covariance = task.deviations @ task.deviations.T
    variance = np.diag(covariance)
    deviation = np.sqrt(variance[:, None] + variance - 2 * covariance)
    np.fill_diagonal(deviation, 1.0)
    generator = np.random.default_rng(7)  # what a block of 29 degrees of freedom draws
    chance = generator.standard_normal((1000, 30)) @ task.deviations.T
    chance /= np.sqrt(generator.chisquare(29, (1000, 1)) / 29)
    t = (chance[:, :, None] - chance[:, None, :]) / deviation
    better = np.zeros((models, models), dtype=bool)
    while True:
        largest = np.where(better, 0.0, t).reshape(1000, -1).max(axis=1)
        quantile = np.quantile(largest, 0.95, method="higher")
        claimed = better | (np.subtract.outer(task.means, task.means) > quantile * deviation)
        if (claimed == better).all():
            break
        better = claimed
    assert (shown_better(task.means, [task], draws=1000, seed=7) == better).all()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=30))
def test_rank_upper_bound_of_any_intervals(intervals):
    low = [start for start, _ in intervals]
    high = [start + width for start, width in intervals]
    expected = [1 + sum(other > own for other in low) for own in high]
    assert rank_upper_bound(low, high).tolist() == expected


def test_bad_input_is_named():
    for call, name in (
        (lambda: board_ranges([1.0, 2.0], lambda _: []), "means"),
        (lambda: board_ranges([], lambda _: []), "means"),
        (lambda: board_ranges([1.0, math.nan], lambda _: []), "means"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [], own_variance=[1.0]), "own_variance"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [], own_variance=[1.0, -1]), "own_variance"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [], reach=0), "reach"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [], keys=np.ones(3, np.uint64)), "keys"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [], draws=10), "draws"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [], confidence=1), "confidence"),
        (lambda: board_ranges([1.0, 0.0], lambda _: [block([[1.0, 0.0]])]), "blocks"),
        (lambda: rank_upper_bound([1.0], [1.0, 2.0]), "high"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: "):
            call()


@given(st.lists(st.tuples(interval, st.booleans()), min_size=1, max_size=9))
def test_ranks_are_those_that_counting_leaves(models: list[Any]):
    intervals, counts = zip(*models, strict=True)
    field = np.array(counts)
    known = [row for row, (low, _) in enumerate(intervals) if field[row] and not np.isnan(low)]
    low, high = np.array(intervals).T[:, :, None]
    value = (low + high) / 2
    lows, highs = (np.full_like(value, np.nan) for _ in range(2))
    lows[field], highs[field] = held_together(value[field], low[field], high[field])
    rank, best, worst, of = (found[..., 0] for found in ranges_of(value, low, high, field))
    assert of == len(known)
    for row in range(len(models)):
        expected = 0, 0, 0
        if row in known:
            better = sum(value[other] > value[row] for other in known)
            above = sum(lows[other] > highs[row] for other in known)
            below = sum(highs[other] < lows[row] for other in known)
            expected = 1 + better, 1 + above, len(known) - below
        assert (rank[row], best[row], worst[row]) == expected


def test_intervals_are_wider_the_more_models_a_column_has():
    value = np.array([[0.5, 0.5], [0.5, np.nan], [0.5, np.nan], [0.5, np.nan]])
    low, high = held_together(value, value - 0.1, value + 0.2)
    # R: qnorm(1 - 0.05 / 4 / 2) / qnorm(0.975) = 2.497705 / 1.959964
    assert high[0] - 0.5 == pytest.approx([0.2 * 1.274363, 0.2], rel=1e-5)
    assert 0.5 - low[0] == pytest.approx([0.1 * 1.274363, 0.1], rel=1e-5)
    assert np.isnan(low[1, 1])


def test_one_task_is_the_paired_difference():
    plain = total_difference([paired_share(B - A)])
    assert vars(plain) == pytest.approx(vars(paired_difference(B, A)))
    clusters = GENERATOR.integers(0, 25, 300)
    found = total_difference([paired_share(B - A, clusters=clusters)])
    expected = paired_difference(B, A, clusters.tolist())
    assert vars(found) == pytest.approx(vars(expected))


def test_independent_shares_add_up_as_satterthwaite_says_known_variances_to_a_normal_interval():
    # Welch's test is two shares of opposite sign; R's page of t.test: t.test(1:10, c(7:20, 200))
    first, second = np.arange(1.0, 11), np.array([*range(7, 21), 200.0])
    found = total_difference([paired_share(first), paired_share(-second)])
    assert found.p_value == pytest.approx(0.1245, abs=5e-5)
    found = total_difference([Share(0.1, 0.0004, inf), Share(0.05, 0.0005, inf)])
    half = 1.959963985 * sqrt(0.0009)
    assert (found.low, found.high) == pytest.approx((0.15 - half, 0.15 + half))
    nothing = total_difference([paired_share(np.zeros(10))])
    assert (nothing.low, nothing.high, nothing.p_value, nothing.q) == (0, 0, 1, 0)
    alike = total_difference([paired_share(np.full(10, 0.1))])
    assert (alike.low, alike.high, alike.p_value) == (alike.difference, alike.difference, 0)


# Between what a run's score will end: it holds at all looks together, and narrows

SHARES = (8, 4, 2)


def sample(
    right: float,
    answered: int,
    documents: int,
    *,
    weight: float = 1.0,
    zero_or_one: bool = True,
) -> Stratum:
    return Stratum(
        weight=weight,
        documents=documents,
        answered=answered,
        right=float(right),
        zero_or_one=zero_or_one,
    )


def looks_at(parts: Sequence[np.ndarray], *, zero_or_one: bool = True) -> list[Standing]:
    """At scores of several parts, each in the order in which it is answered, weighted by size."""
    total = sum(map(len, parts))
    seen: list[Standing] = []
    for share in SHARES:
        strata = []
        for part in parts:
            answered, weight = -(-len(part) // share), len(part) / total
            right = part[:answered].sum()
            strata.append(
                sample(right, answered, len(part), weight=weight, zero_or_one=zero_or_one)
            )
        seen.append(standing(strata, looks=LOOKS, earlier=seen[-1] if seen else None))
    return seen


def held(seen: Sequence[Standing], value: float) -> bool:
    return all(look.low - 1e-9 <= value <= look.high + 1e-9 for look in seen)


@pytest.mark.parametrize("right", [4, 100])
def test_the_exact_interval_holds_at_every_look_together_in_95_percent(right: int) -> None:
    """Of all samples, weighted by how likely they are: no simulation is needed at one look, and the
    looks' shares of the error add up."""
    documents, misses = 200, 0.0
    for share in SHARES:
        answered = documents // share
        for found in range(max(0, answered + right - documents), min(answered, right) + 1):
            stood = standing([sample(found, answered, documents)], looks=LOOKS)
            if not held([stood], right / documents):
                misses += hypergeom.pmf(found, documents, right, answered)
    assert misses <= 0.05


@pytest.mark.parametrize(
    ("sizes", "skill"),
    [((1000,), 0.5), ((900, 60, 40), 0.97), ((100,) * 10, 0.1)],
    ids=["one", "unequal", "many"],
)
def test_the_bound_holds_at_every_look_together_in_95_percent(
    sizes: tuple[int, ...], skill: float
) -> None:
    """A simulation with known truth: each part is shuffled anew, its scores are what they are."""
    rng = np.random.default_rng(7)
    parts = [np.sort(rng.random(size) < skill).astype(float) for size in sizes]
    truth = float(np.concatenate(parts).mean())
    seen = [
        looks_at([rng.permutation(part) for part in parts], zero_or_one=False) for _ in range(400)
    ]
    assert np.mean([held(looks, truth) for looks in seen]) >= 0.95


def test_it_is_not_wider_than_need_be() -> None:
    """As much as 147 of 1,172 questions tell: Hoeffding's bound alone would say ±12 points."""
    stood = standing([sample(90, 147, 1172)], looks=LOOKS)
    assert (round(stood.low, 3), round(stood.high, 3)) == pytest.approx((0.516, 0.703), abs=0.01)
    bounded = standing([sample(90, 147, 1172, zero_or_one=False)], looks=LOOKS)
    assert bounded.low < stood.low < stood.high < bounded.high


samples = st.integers(8, 400).flatmap(
    lambda size: st.lists(st.booleans(), min_size=size, max_size=size)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(samples, min_size=1, max_size=3), st.booleans())
def test_each_interval_lies_in_the_one_before_and_what_is_certain_is_never_denied(
    scores: list[list[bool]], zero_or_one: bool
) -> None:
    parts = [np.array(part, float) for part in scores]
    seen = looks_at(parts, zero_or_one=zero_or_one)
    for look in seen:
        assert 0 <= look.low <= look.high <= 1 + 1e-9
        assert 0 <= look.value <= 1 + 1e-9
    for earlier, later in pairwise(seen):
        within = earlier.low <= later.low and later.high <= earlier.high
        apart = later.low > earlier.high or later.high < earlier.low
        assert within or apart  # where one of the two has missed
    total = sum(map(len, parts))
    whole = [sample(part.sum(), len(part), len(part), weight=len(part) / total) for part in parts]
    end = standing(whole, looks=LOOKS)
    truth = float(np.concatenate(parts).mean())
    assert (end.low, end.value, end.high) == pytest.approx((truth, truth, truth))


def test_a_part_that_is_answered_whole_makes_nothing_uncertain() -> None:
    alone = standing([sample(300, 600, 1200, zero_or_one=False)], looks=LOOKS)
    with_small = [sample(300, 600, 1200, weight=0.5), sample(25, 50, 50, weight=0.5)]
    both = standing(with_small, looks=LOOKS)
    assert both.high - both.low == pytest.approx((alone.high - alone.low) / 2)


def test_what_cannot_be_is_refused() -> None:
    for wrong in (
        sample(2, 5, 10, weight=0.9),
        sample(2, 5, 10, weight=math.nan),
        sample(2, 0, 10),
        sample(2, 11, 10),
        sample(6, 5, 10),
        sample(math.nan, 5, 10),
        sample(-1, 5, 10),
        sample(2.5, 5, 10),
    ):
        with pytest.raises(ValueError, match=r"stratum|strata"):
            check_strata([wrong])
