from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.score.metrics import Answered, metric


def answered(loglikelihoods, choices=("a", "bb", "cccc"), gold=(0,)):
    return Answered(choices=choices, loglikelihoods=loglikelihoods, gold=gold)


def test_acc_takes_the_likeliest_choice():
    assert metric("acc", "t").pick(answered([-3.0, -1.0, -2.0])) == 1


def test_acc_norm_divides_by_characters_not_bytes():
    # Per character -2.0 against -1.5; per byte (é is two) -1.0 against -1.5.
    assert metric("acc_norm", "t").pick(answered([-2.0, -3.0], choices=("é", "ab"))) == 1


def test_of_equal_choices_the_first_is_picked():
    assert metric("acc", "t").pick(answered([-1.0, -1.0, -1.0])) == 0


def test_any_of_several_right_choices_counts():
    assert metric("acc", "t").score(answered([-3.0, -2.0, -1.0], gold=(0, 2))) == 1.0


def test_an_empty_choice_is_never_the_pick_by_length():
    assert metric("acc_norm", "t").pick(answered([-0.1, -9.0], choices=("", "ab"))) == 1


def test_an_unknown_metric_is_named_with_the_known_ones():
    with pytest.raises(TaskError, match=r"arc.*'acurracy'.*acc, acc_norm"):
        metric("acurracy", "arc")


@given(st.lists(st.floats(-1e4, 0), min_size=1, max_size=10))
def test_acc_picks_as_argmax_does(loglikelihoods):
    choices = ["x"] * len(loglikelihoods)
    pick = metric("acc", "t").pick(answered(loglikelihoods, choices))
    assert pick == int(np.argmax(loglikelihoods))
