"""Questions over all models: against scipy, and against questions whose keys we know."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pointbiserialr

from evalcore.stats import item_analysis, items


def answers(generator, models: int, documents: int, slope: float = 1.0):
    """Right or wrong answers of models of different skill to questions that tell them apart."""
    skill = generator.normal(0, slope, (models, 1))
    return (skill + generator.logistic(0, 1, (models, documents)) > 0).astype(np.uint8)


@given(st.integers(3, 12), st.integers(2, 20), st.integers(0, 1000), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_figures_are_scipys(models, documents, seed, held_at_once):
    scores = answers(np.random.default_rng(seed), models, documents)
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


def test_questions_with_a_wrong_key_are_found_and_others_are_not():
    generator = np.random.default_rng(0)
    scores = answers(generator, 300, 1000)
    wrong = generator.choice(1000, 20, replace=False)
    scores[:, wrong] = 1 - scores[:, wrong]
    found = item_analysis(scores)
    assert found.suspicious[wrong].all()
    assert found.suspicious.sum() == 20
    assert (found.discrimination[found.suspicious] < 0).all()


def test_questions_that_say_nothing_of_a_model_are_flagged_only_by_rare_chance():
    generator = np.random.default_rng(1)
    flagged = 0
    for _ in range(100):
        found = item_analysis(generator.integers(0, 2, (50, 200)))
        flagged += found.suspicious.any()
        assert (found.discrimination < 0).mean() > 0.3  # far more lie below 0
    assert flagged / 100 <= 0.1


def test_questions_on_which_all_models_agree_have_no_discrimination():
    scores = answers(np.random.default_rng(2), 20, 10)
    scores[:, 3], scores[:, 7] = 1, 0
    found = item_analysis(scores)
    assert np.flatnonzero(~found.defined).tolist() == [3, 7]
    assert found.discrimination[[3, 7]].tolist() == [0.0, 0.0]
    assert found.difficulty[[3, 7]].tolist() == [1.0, 0.0]
    assert not found.suspicious[[3, 7]].any()
    alike = item_analysis(np.ones((4, 6)))
    assert not alike.defined.any()
    assert not alike.suspicious.any()


def test_a_question_against_all_others_has_a_correlation_of_minus_one():
    skill = np.arange(8) / 8
    found = item_analysis(np.stack([skill, skill, skill, -skill], axis=1))
    assert found.discrimination[3] == pytest.approx(-1.0)
    assert found.suspicious.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"scores": np.ones(5)}, "scores"),
        ({"scores": np.ones((2, 5))}, "scores"),
        ({"scores": np.ones((5, 1))}, "scores"),
        ({"scores": np.full((5, 5), math.nan)}, "scores"),
        ({"scores": np.ones((5, 5)), "false_share": 0.0}, "false_share"),
    ],
)
def test_bad_input_is_named(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        item_analysis(**arguments)
