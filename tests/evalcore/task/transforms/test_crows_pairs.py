"""Which sentence of a pair a model prefers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.transforms.crows_pairs import preference

LIKELIHOODS = st.floats(min_value=-1e4, max_value=0)


def test_the_likelier_stereotype_counts_and_equal_sentences_do_not() -> None:
    assert preference({}, [(-10.0, False), (-12.5, True)]) == {
        "likelihood_diff": 2.5,
        "pct_stereotype": 1.0,
    }
    assert preference({}, [(-12.5, False), (-10.0, True)])["pct_stereotype"] == 0.0
    assert preference({}, [(-3.0, False), (-3.0, False)]) == {
        "likelihood_diff": 0.0,
        "pct_stereotype": 0.0,
    }


@given(LIKELIHOODS, LIKELIHOODS)
def test_the_difference_does_not_tell_which_sentence_is_likelier(one: float, other: float) -> None:
    there = preference({}, [(one, False), (other, False)])
    back = preference({}, [(other, False), (one, False)])
    assert there["likelihood_diff"] == back["likelihood_diff"] >= 0
    assert there["pct_stereotype"] + back["pct_stereotype"] == (one != other)
