"""A long text in windows: each token is scored once, after what really comes before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.model.tokens.windows import rolling_windows

PREFIX = -1


@st.composite
def cases(draw):
    """A text of numbered tokens, a length, and a stride within it or none."""
    length = draw(st.integers(1, 12))
    stride = draw(st.none() | st.integers(1, length))
    return list(range(draw(st.integers(0, 60)))), length, stride


@given(cases())
def test_each_token_is_scored_once_and_after_those_before_it(case):
    tokens, length, stride = case
    windows = rolling_windows(tokens, prefix=PREFIX, length=length, stride=stride)
    assert [token for _, scored in windows for token in scored] == tokens
    for fed, scored in windows:
        assert 1 <= len(scored) <= len(fed) <= length
        # Tokens are numbered and the prefix is -1: each is predicted at the place before its own.
        assert fed == list(range(scored[-1] - len(fed), scored[-1]))


def test_windows_do_not_overlap_by_default():
    """Gao et al. 2024, A.3; the last, shorter window sees as much as there is room for."""
    assert rolling_windows([10, 11, 12, 13, 14, 15, 16], prefix=PREFIX, length=3) == [
        ([PREFIX, 10, 11], [10, 11, 12]),
        ([12, 13, 14], [13, 14, 15]),
        ([13, 14, 15], [16]),
    ]


def test_a_stride_leaves_each_window_something_to_go_by():
    windows = rolling_windows([10, 11, 12, 13, 14, 15], prefix=PREFIX, length=4, stride=1)
    assert windows[1:] == [([10, 11, 12, 13], [14]), ([11, 12, 13, 14], [15])]


@pytest.mark.parametrize("stride", [0, 5])
def test_a_stride_outside_the_window_is_refused(stride):
    with pytest.raises(ValueError, match=f"stride of {stride}"):
        rolling_windows([1], prefix=PREFIX, length=4, stride=stride)
