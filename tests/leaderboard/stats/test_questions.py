"""What questions tell: wrong keys, ceilings, signal, what a lead hangs on.

By hand, and against made-up models whose truth is known.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pointbiserialr

from evalcore.stats import block, paired_difference, wilson
from leaderboard.stats import (
    BEST,
    deciding,
    items,
    saturation,
    separation,
)
from leaderboard.stats.items import item_analysis


def responses(generator, models: int, documents: int, slope: float = 1.0):
    """Right or wrong responses of models of different skill to questions that tell them apart."""
    skill = generator.normal(0, slope, (models, 1))
    return (skill + generator.logistic(0, 1, (models, documents)) > 0).astype(np.uint8)


def mean_over_parts(scores: np.ndarray, parts: np.ndarray) -> float:
    return float(sum(scores[parts == part].mean() for part in np.unique(parts)))


def fewest_by_trying(scores: np.ndarray, parts: np.ndarray) -> int | None:
    """The size of the smallest set whose removal turns the lead, found by trying all of them."""
    lead, n = mean_over_parts(scores, parts), len(scores)
    for size in range(1, n):
        for gone in combinations(range(n), size):
            kept = np.delete(np.arange(n), gone)
            if set(parts[kept]) != set(parts):
                continue
            if mean_over_parts(scores[kept], parts[kept]) * np.sign(lead) < -1e-9:
                return size
    return None


questions = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 1.0, 0.5, -0.25]), st.integers(0, 2)),
    min_size=1,
    max_size=9,
)


N = 400
NONE = np.zeros(N, np.bool_)


def answers_of(skills: list[float], seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return (draw.random((len(skills), N)) < np.array(skills)[:, None]).astype(np.float32)


def answers_of_sizes(
    draw: np.random.Generator, models: int, questions: int, spread: float, grows: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Right or wrong answers of models whose skill grows with size and varies by `spread`."""
    sizes = draw.uniform(0, 2, models)
    skill = grows * sizes + draw.normal(0, spread, models)
    hard = draw.normal(1, 1.2, questions)
    right = skill[:, None] - hard + draw.logistic(0, 1, (models, questions)) > 0
    return right.astype(np.float32), sizes


def separated(scores: np.ndarray, sizes: np.ndarray):
    return separation(block(scores), sizes)


def truth(models: int, questions: int, spread: float) -> float:
    """The ratio where the questions are so many that chance has no part in the scores."""
    many, draw = 12_000, np.random.default_rng(0)
    each = [separated(*answers_of_sizes(draw, models, many, spread)) for _ in range(20)]
    noise = np.mean([one.noise**2 for one in each]) * many / questions
    return float(np.sqrt(np.mean([one.signal**2 for one in each]) / noise))


@given(st.integers(3, 12), st.integers(2, 20), st.integers(0, 1000), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_figures_are_scipys(models, documents, seed, held_at_once):
    scores = responses(np.random.default_rng(seed), models, documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(items, "BLOCK", held_at_once)
        found = item_analysis(scores)
    assert found.difficulty == pytest.approx(scores.mean(axis=0))
    for document, one in enumerate(scores.T):
        rest = np.delete(scores, document, axis=1).sum(axis=1)
        constant = one.min() == one.max() or rest.min() == rest.max()
        assert found.defined[document] == (not constant)
        expected = 0.0 if constant else pointbiserialr(one, rest).statistic
        assert found.discrimination[document] == pytest.approx(expected)
    assert not found.suspicious[~found.defined].any(), "where all agree nothing is told"


def test_wrong_keys_are_found_and_others_flagged_only_by_rare_chance():
    generator = np.random.default_rng(0)
    scores = responses(generator, 300, 1000)
    wrong = generator.choice(1000, 20, replace=False)
    scores[:, wrong] = 1 - scores[:, wrong]
    found = item_analysis(scores)
    assert found.suspicious[wrong].all()
    assert found.suspicious.sum() == 20
    assert (found.discrimination[found.suspicious] < 0).all()
    generator = np.random.default_rng(1)
    flagged = 0
    for _ in range(100):
        found = item_analysis(generator.integers(0, 2, (50, 200)))
        flagged += found.suspicious.any()
        assert (found.discrimination < 0).mean() > 0.3  # far more lie below 0
    assert flagged / 100 <= 0.1


def test_bad_input_is_named():
    few, flat, nowhere = np.ones((2, 5)), np.ones(5), np.full((5, 5), math.nan)
    for scores in (flat, few, np.ones((5, 1)), nowhere):
        with pytest.raises(ValueError, match=r"^scores: "):
            item_analysis(scores)
    with pytest.raises(ValueError, match=r"^false_share: "):
        item_analysis(np.ones((5, 5)), false_share=0.0)
    with pytest.raises(ValueError, match="differences: expected finite"):
        deciding([np.nan])
    with pytest.raises(ValueError, match="parts: expected one for each of 2"):
        deciding([1.0, 0.0], [1])
    for scores in (np.ones((4, N)), np.full((6, N), 1.5), np.full((6, N), -0.5)):
        with pytest.raises(ValueError, match=r"^scores: "):
            saturation(block(scores), scores, NONE)
    with pytest.raises(ValueError, match=r"^sizes: expected one for each of 12 models"):
        separation(block(np.random.default_rng(5).random((12, 20))), np.arange(11))


@settings(max_examples=150, deadline=None)
@given(questions, st.booleans())
def test_no_smaller_set_turns_the_lead(asked: list[tuple[float, int]], by_part: bool):
    scores = np.array([score for score, _ in asked])
    parts = np.array([part if by_part else 0 for _, part in asked])
    found = deciding(scores, parts if by_part else None)
    lead = mean_over_parts(scores, parts)
    expected = fewest_by_trying(scores, parts) if abs(lead) > 1e-9 else None
    if expected is None:
        assert found is None
        return
    assert len(found) == expected
    kept = np.delete(np.arange(len(scores)), found)
    assert mean_over_parts(scores[kept], parts[kept]) * np.sign(lead) < 0


def test_a_lead_of_three_answers_hangs_on_four_and_one_of_hundreds_is_not_looked_into():
    # Right alone on 10 questions against 7: without four of the 10 it is 6 against 7.
    scores = [1.0] * 10 + [-1.0] * 7 + [0.0] * 83
    assert deciding(scores).tolist() == [0, 1, 2, 3]
    assert deciding([-score for score in scores]).tolist() == [0, 1, 2, 3]
    assert deciding([1.0] * 2_000 + [-1.0] * 1_000) is None
    assert len(deciding([1.0] * 1_499 + [-1.0] * 1_000)) == 500


def test_the_ceiling_is_reached_by_models_that_have_all_right_but_for_wrong_keys():
    scores = answers_of([1.0] * 6 + [0.9] * 14)
    found = saturation(block(scores), scores, NONE)
    assert found.ceiling == 1.0
    assert found.reaching == 6
    assert found.best_reach
    assert found.share == wilson(6, 20)
    assert found.gap.low == found.gap.value == found.gap.high == 0
    wrong = NONE.copy()
    wrong[:40] = True
    scores = answers_of([1.0] * 8)
    scores[:, wrong] = 0
    scores[:, 50] = np.arange(8) % 2
    assert saturation(block(scores), scores, wrong).reaching == 8
    assert saturation(block(scores), scores, NONE).reaching == 0
    scores = answers_of([1.0] * 4 + [0.8] * 10)
    found = saturation(block(scores), scores, NONE)
    assert found.reaching == 4
    assert not found.best_reach
    scores = answers_of([0.5] * 12)
    scores[:, :7], scores[:, 7:10] = 1, 0
    found = saturation(block(scores), scores, NONE)
    assert (found.all_right, found.none_right) == (7, 3)


def test_the_gap_is_the_paired_difference_of_best_and_fifth():
    scores = answers_of([0.9, 0.85, 0.8, 0.75, 0.7, 0.4])
    found = saturation(block(scores), scores, NONE)
    ordered = scores[np.argsort(-scores.mean(axis=1), kind="stable")]
    expected = paired_difference(ordered[0], ordered[BEST - 1])
    assert found.gap.value == pytest.approx(expected.difference)
    assert found.gap.low == pytest.approx(expected.low, abs=1e-3)
    assert found.gap.low > 0


def test_equal_models_are_mostly_not_told_apart_though_the_best_was_picked():
    apart = [
        saturation(block(scores), scores, NONE).gap.low > 0
        for scores in (answers_of([0.7] * 5, seed) for seed in range(200))
    ]
    assert np.mean(apart) < 0.3
    told = [
        saturation(block(scores), scores, NONE).gap.low > 0
        for scores in (answers_of([0.9, 0.7, 0.7, 0.7, 0.7], seed) for seed in range(50))
    ]
    assert all(told)


def test_its_interval_holds_the_truth_as_often_as_it_says_and_equal_models_do_not_differ():
    true, draw = truth(40, 300, 0.5), np.random.default_rng(1)
    each = [separated(*answers_of_sizes(draw, 40, 300, 0.5)) for _ in range(200)]
    covered = np.mean([one.ratio.low <= true <= one.ratio.high for one in each])
    assert 0.91 <= covered <= 0.99
    assert np.median([one.ratio.value for one in each]) == pytest.approx(true, rel=0.08)
    draw = np.random.default_rng(2)
    each = [separated(*answers_of_sizes(draw, 40, 300, 0.0, grows=0.0)) for _ in range(200)]
    assert np.mean([one.ratio.low > 0 for one in each]) <= 0.06
    assert np.median([one.ratio.value for one in each]) < 0.3


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 45), st.integers(2, 30), st.integers(0, 500))
def test_it_is_the_analysis_of_variance_within_groups_of_like_size(models, questions, seed):
    draw = np.random.default_rng(seed)
    scores, sizes = draw.random((models, questions)), draw.random(models)
    one = separated(scores, sizes)
    groups = np.array_split(np.argsort(sizes), models // 10)
    between = within = 0.0
    for members in groups:
        of_group = scores[members]
        means = of_group.mean(axis=1)
        rest = of_group - means[:, None] - of_group.mean(axis=0) + of_group.mean()
        between += ((means - means.mean()) ** 2).sum()
        within += (rest**2).sum() / (questions * (questions - 1))
    freedom = models - len(groups)
    assert one.noise == pytest.approx(np.sqrt(within / freedom))
    assert one.signal == pytest.approx(np.sqrt(max(0, (between - within) / freedom)), abs=1e-6)
    assert one.ratio.low <= one.ratio.value <= one.ratio.high


def test_too_few_models_and_models_all_alike_have_none():
    draw = np.random.default_rng(4)
    assert separation(block(draw.random((9, 20))), np.arange(9)) is None
    alike = np.tile(draw.random(20), (12, 1))
    assert separation(block(alike), np.arange(12)) is None
