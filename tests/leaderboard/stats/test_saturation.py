"""Whether a benchmark is solved: ceilings that are known, and best models that are equal or not."""

from __future__ import annotations

import numpy as np
import pytest

from evalcore.stats import block, paired_difference, wilson
from leaderboard.stats import BEST, saturation

N = 400
NONE = np.zeros(N, np.bool_)


def answers(skills: list[float], seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return (draw.random((len(skills), N)) < np.array(skills)[:, None]).astype(np.float32)


def test_models_that_have_all_right_are_at_the_ceiling_and_others_are_not():
    scores = answers([1.0] * 6 + [0.9] * 14)
    found = saturation(block(scores), scores, NONE)
    assert found.ceiling == 1.0
    assert found.reaching == 6
    assert found.best_reach
    assert found.share == wilson(6, 20)
    assert found.gap.low == found.gap.value == found.gap.high == 0


def test_questions_of_likely_wrong_keys_lower_the_ceiling():
    wrong = NONE.copy()
    wrong[:40] = True
    scores = answers([1.0] * 8)
    scores[:, wrong] = 0
    scores[:, 50] = np.arange(8) % 2
    assert saturation(block(scores), scores, wrong).reaching == 8
    assert saturation(block(scores), scores, NONE).reaching == 0


def test_the_best_five_do_not_all_reach_it_where_one_does_not():
    scores = answers([1.0] * 4 + [0.8] * 10)
    found = saturation(block(scores), scores, NONE)
    assert found.reaching == 4
    assert not found.best_reach


def test_the_gap_is_the_paired_difference_of_best_and_fifth():
    scores = answers([0.9, 0.85, 0.8, 0.75, 0.7, 0.4])
    found = saturation(block(scores), scores, NONE)
    ordered = scores[np.argsort(-scores.mean(axis=1), kind="stable")]
    expected = paired_difference(ordered[0], ordered[BEST - 1])
    assert found.gap.value == pytest.approx(expected.difference)
    assert found.gap.low == pytest.approx(expected.low, abs=1e-3)
    assert found.gap.low > 0


def test_equal_models_are_mostly_not_told_apart_though_the_best_was_picked():
    apart = [
        saturation(block(scores), scores, NONE).gap.low > 0
        for scores in (answers([0.7] * 5, seed) for seed in range(200))
    ]
    assert np.mean(apart) < 0.3
    told = [
        saturation(block(scores), scores, NONE).gap.low > 0
        for scores in (answers([0.9, 0.7, 0.7, 0.7, 0.7], seed) for seed in range(50))
    ]
    assert all(told)


def test_questions_that_all_or_none_have_right_are_counted():
    scores = answers([0.5] * 12)
    scores[:, :7], scores[:, 7:10] = 1, 0
    found = saturation(block(scores), scores, NONE)
    assert (found.all_right, found.none_right) == (7, 3)


def test_what_it_was_stored_as_reads_back():
    from dataclasses import asdict

    scores = answers([0.9] * 6)
    found = saturation(block(scores), scores, NONE)
    assert type(found).of_json(asdict(found)) == found


@pytest.mark.parametrize("scores", [np.ones((4, N)), np.full((6, N), 1.5), np.full((6, N), -0.5)])
def test_bad_scores_are_named(scores: np.ndarray):
    with pytest.raises(ValueError, match=r"^scores: "):
        saturation(block(scores), scores, NONE)
