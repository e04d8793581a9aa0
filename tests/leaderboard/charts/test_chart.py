"""Which models are best for their size, and which are of one family."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard.charts.chart import families, front

MODELS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=20)


def on_front(models: list[tuple[int, int]]) -> list[bool]:
    size, value = (np.array(side, float) for side in zip(*models, strict=True))
    return front(size, value).tolist()


def test_the_front_rises_with_size_and_leaves_out_what_a_smaller_one_beats():
    assert on_front([(1, 30), (2, 20), (3, 50), (4, 50), (5, 60)]) == [
        True,
        False,
        True,
        False,
        True,
    ]


def test_two_that_are_equal_in_both_are_both_on_it():
    assert on_front([(1, 30), (1, 30), (1, 20)]) == [True, True, False]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(MODELS)
def test_a_model_is_on_the_front_exactly_where_none_dominates_it(models: list[tuple[int, int]]):
    ordered = sorted(models, key=lambda model: (model[0], -model[1]))
    dominated = [
        any(other != model and other[0] <= model[0] and other[1] >= model[1] for other in ordered)
        for model in ordered
    ]
    assert on_front(ordered) == [not one for one in dominated]


def test_a_family_is_of_one_maker_and_names_that_differ_by_size_alone():
    names = ["a/Nut-0.5B", "a/Nut-410m-chat", "b/Nut-7B", "a/Nut-7b", "a/Nut-2-7B", "a/Nut-13B-v2"]
    assert families(names, np.array([0.5, 0.41, 7, 7, 7, 13.0])) == ((0, 3),)


def test_one_size_or_two_sizes_in_a_name_make_no_family():
    assert families(["a/Nut-7B", "a/nut-7b"], np.array([7, 7.0])) == ()
    assert families(["a/Mix-8x7B-7B", "a/Mix-8x7B-9B"], np.array([7, 9.0])) == ((0, 1),)
    assert families(["a/Mix-2B-7B", "a/Mix-2B-9B"], np.array([7, 9.0])) == ()
