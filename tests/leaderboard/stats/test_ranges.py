"""Ranges of ranks by an average over tasks, against simulations with known truth."""

from __future__ import annotations

import math
from itertools import pairwise
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import Block, block, rank_ranges, rank_upper_bound
from evalcore.stats.ranking import shown_better
from leaderboard.stats.ranges import Earlier, _windows, bands, board_ranges


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


def false_claims(luck_of_passages: float, clustered: bool, runs: int) -> float:
    """Share of runs of ten equal models over three tasks in which a pair is told apart."""
    generator = np.random.default_rng(2)
    passages = np.repeat(np.arange(20), 15)
    claims = 0
    for seed in range(runs):
        tasks = []
        for _ in range(3):
            luck = generator.normal(0, luck_of_passages, (10, 20))[:, passages]
            scores = luck + generator.normal(0, 1, (10, 300))
            tasks.append((scores, passages if clustered else None))
        claims += board(tasks, draws=1000, seed=seed)[0].better.any()
    return claims / runs


def test_equal_models_are_told_apart_in_few_runs():
    assert false_claims(0.3, clustered=True, runs=200) <= 0.1
    assert false_claims(0.3, clustered=False, runs=100) > 0.25


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
        assert bands(windows.better, reach) == bands(exact.better, 59) == [*range(0, 60, 3)]


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


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_every_pair_within_reach_is_decided_once_in_a_window_of_twice_the_reach(n, reach, seed):
    keys = np.random.default_rng(seed).integers(0, 50, n).astype(np.uint64)
    windows = _windows(keys, reach)
    assert [w.start for w in windows] == [0, *(w.until for w in windows[:-1])]
    assert windows[-1].until == windows[-1].stop == n
    for window in windows:
        assert window.start < window.until <= window.stop <= n
        assert window.stop - window.start <= max(2 * reach, 1)
        assert window.stop >= min(n, window.until - 1 + reach + 1)


def test_a_model_that_comes_moves_few_windows():
    generator = np.random.default_rng(9)
    keys = generator.integers(0, 2**63, 10_000).astype(np.uint64)
    before = {tuple(keys[w.start : w.stop]) for w in _windows(keys, 500)}
    anew = []
    for place in generator.integers(0, 10_000, 200):
        after = np.insert(keys, place, generator.integers(0, 2**63))
        now = {tuple(after[w.start : w.stop]) for w in _windows(after, 500)}
        anew.append(len(now - before))
    assert 20 <= len(before) <= 35
    assert np.mean(anew) < 4
    assert max(anew) < 10


def test_ranges_that_end_where_nobody_compared_are_cut():
    scores = np.random.default_rng(6).normal(0, 1, (30, 100))
    found, _ = board([scores], reach=5)
    assert not found.better.any()
    assert found.ranges[:, 0].tolist() == [max(1, place - 5) for place in range(1, 31)]
    assert found.ranges[:, 1].tolist() == [min(30, place + 5) for place in range(1, 31)]
    assert found.cut[:, 0].tolist() == [place > 6 for place in range(1, 31)]
    assert found.cut[:, 1].tolist() == [place < 25 for place in range(1, 31)]
    assert bands(found.better, 5) == [0, 6, 12, 18, 24]


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
    starts = bands(found.better, found.reach)
    assert starts[0] == 0
    for start, end in zip(starts, [*starts[1:], models], strict=True):
        assert start < end
        assert not found.better[start, : end - start - 1].any()
        assert end == models or end == start + 1 + reach or found.better[start, end - start - 1]


@given(st.integers(2, 14), st.integers(1, 3), st.integers(0, 1000), st.data())
@settings(max_examples=40, deadline=None)
def test_claims_of_an_earlier_order_are_those_made_anew(models, reach, seed, data):
    generator = np.random.default_rng(seed)
    scores = answers(generator, generator.normal(0, 0.5, models + 2), 60)
    scores = scores[np.argsort(-scores.mean(axis=1), kind="stable")]
    gone, new = (data.draw(st.integers(0, models)) for _ in range(2))
    change = data.draw(st.sampled_from(["comes", "goes", "another"]))
    before = np.delete(scores, new, axis=0) if change != "goes" else scores
    after = np.delete(scores, gone, axis=0) if change != "comes" else scores
    assert_known_are_anew(before, after, reach)


def keys_of(scores):
    return np.array([crc32(row.tobytes()) % 7 for row in scores], np.uint64)


def assert_known_are_anew(before, after, reach):
    options = {"reach": reach, "draws": 1000}
    earlier, _ = board([before], **options, keys=keys_of(before))
    place_of = {row.tobytes(): place for place, row in enumerate(before)}
    place = np.array([place_of.get(row.tobytes(), -1) for row in after])
    options["keys"] = keys_of(after)
    known, _ = board([after], **options, earlier=Earlier(earlier.better, keys_of(before), place))
    anew, _ = board([after], **options)
    assert (known.better == anew.better).all()
    assert (known.ranges == anew.ranges).all()
    assert (known.cut == anew.cut).all()


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


def test_rank_upper_bound_counts_lower_bounds_above():
    low, high = [70, 60, 58, 40], [80, 72, 66, 50]
    assert rank_upper_bound(low, high).tolist() == [1, 1, 2, 4]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1, max_size=30))
def test_rank_upper_bound_of_any_intervals(intervals):
    low = [start for start, _ in intervals]
    high = [start + width for start, width in intervals]
    expected = [1 + sum(other > own for other in low) for own in high]
    assert rank_upper_bound(low, high).tolist() == expected


@pytest.mark.parametrize(
    ("call", "name"),
    [
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
        (lambda: bands(np.zeros((3, 2), dtype=bool), 3), "reach"),
        (lambda: rank_upper_bound([1.0], [1.0, 2.0]), "high"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()
