"""One task's part of an average: its variance is that of the formulas for each design."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.stats import block, pooled_standard_error, standard_error


def error(task) -> float:
    """Standard error of the first model's mean."""
    return float(np.sqrt((task.deviations[0].astype(float) ** 2).sum()))


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=2, max_size=60))
def test_of_independent_questions_it_is_the_standard_error(scores):
    task = block([scores], weight=0.5)
    assert task.means[0] == pytest.approx(np.mean(scores) / 2)
    assert error(task) == pytest.approx(standard_error(scores) / 2, abs=1e-12)
    assert task.freedom == len(scores) - 1


@given(st.integers(2, 40), st.integers(0, 1000))
def test_of_clusters_it_is_the_clustered_standard_error(documents, seed):
    generator = np.random.default_rng(seed)
    scores = generator.random(documents)
    clusters = generator.integers(0, 5, documents) * 7
    clusters[:2] = 0, 7
    task = block([scores], clusters=clusters)
    assert error(task) == pytest.approx(standard_error(scores, clusters.tolist()))
    assert task.freedom == len(set(clusters)) - 1


def test_rows_give_the_covariance_of_two_means():
    scores = np.random.default_rng(0).random((2, 300)) + np.linspace(0, 1, 300)
    one, other = block(scores).deviations
    assert one @ other == pytest.approx(np.cov(scores)[0, 1] / 300)


def test_parts_of_one_size_have_the_pooled_error_of_the_reference():
    parts = np.random.default_rng(1).random((6, 50)) + np.arange(6)[:, None]
    errors = [standard_error(part) for part in parts]
    task = block([parts.ravel()], strata=np.repeat(np.arange(6), 50))
    assert error(task) == pytest.approx(pooled_standard_error(errors, [50] * 6))
    assert error(task) < standard_error(parts.ravel())
    assert task.freedom == 294


@pytest.mark.parametrize("clustered", [False, True])
def test_parts_that_count_alike_or_by_size_add_their_variances(clustered):
    generator = np.random.default_rng(2)
    parts = [generator.random(n) + n for n in (20, 60, 120)]
    labels = [generator.integers(0, 8, len(part)) + 10 * len(part) for part in parts]
    clusters = np.concatenate(labels) if clustered else None
    scores, strata = [np.concatenate(parts)], np.repeat([5, 3, 4], [20, 60, 120])
    errors = [
        standard_error(part, of_part.tolist() if clustered else None)
        for part, of_part in zip(parts, labels, strict=True)
    ]
    alike = block(scores, strata=strata, clusters=clusters, by_part=True)
    assert alike.means[0] == pytest.approx(np.mean([part.mean() for part in parts]))
    assert error(alike) == pytest.approx(math.hypot(*errors) / 3)
    by_size = block(scores, strata=strata, clusters=clusters)
    assert by_size.means[0] == pytest.approx(np.mean(scores))
    expected = math.hypot(*(len(part) * e for part, e in zip(parts, errors, strict=True))) / 200
    assert error(by_size) == pytest.approx(expected)


def test_a_part_of_one_question_has_the_mean_variance_of_the_others():
    scores = [[0.0, 1.0, 1.0, 2.0, 4.0, 9.0]]
    task = block(scores, strata=[0, 0, 1, 1, 1, 2])
    # Squares within the parts: 0.5 and 14/3, with 1 and 2 degrees of freedom.
    pooled = (0.5 + 14 / 3) / 3
    assert error(task) ** 2 == pytest.approx((2 * 0.5 + 3 * (14 / 3) / 2 + pooled) / 36)
    assert task.freedom == 3


def test_one_question_in_several_languages_is_one_unit():
    generator = np.random.default_rng(3)
    question = generator.normal(0, 1, 40)
    scores = np.concatenate([question + generator.normal(0, 0.1, 40) + shift for shift in (0, 1)])
    strata, questions = np.repeat([0, 1], 40), np.tile(np.arange(40), 2)
    task = block([scores], strata=strata, clusters=questions)
    assert error(task) == pytest.approx(standard_error((scores[:40] + scores[40:]) / 2))
    assert error(task) > 1.3 * error(block([scores], strata=strata))
    assert task.freedom == 39


def test_models_with_as_many_right_answers_have_equal_means():
    for order in product([0.0, 1.0], repeat=5):
        task = block([order, sorted(order)], weight=1 / 3, strata=[0, 0, 1, 1, 1])
        assert task.means[0] == task.means[1]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"scores": [1.0, 0.0]}, "scores"),
        ({"scores": [[1.0], [0.0]]}, "scores"),
        ({"scores": [[1.0, math.nan]]}, "scores"),
        ({"scores": [[1.0, 0.0]], "weight": 0.0}, "weight"),
        ({"scores": [[1.0, 0.0]], "clusters": [3, 3]}, "clusters"),
        ({"scores": [[1.0, 0.0]], "clusters": [3]}, "clusters"),
        ({"scores": [[1.0, 0.0]], "strata": [1, 2]}, "strata"),
        ({"scores": [[1.0, 0.0]], "strata": [1, 2, 3]}, "strata"),
        ({"scores": [[1.0, 0.0]], "by_part": True}, "by_part"),
    ],
)
def test_bad_input_is_named(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        block(**arguments)
