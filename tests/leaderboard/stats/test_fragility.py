"""The questions that a lead hangs on: against trying every set, and by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.stats import deciding


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
    assert found is not None
    assert len(found) == expected
    kept = np.delete(np.arange(len(scores)), found)
    assert mean_over_parts(scores[kept], parts[kept]) * np.sign(lead) < 0


def test_a_lead_of_three_answers_hangs_on_four():
    # Right alone on 10 questions against 7: without four of the 10 it is 6 against 7.
    scores = [1.0] * 10 + [-1.0] * 7 + [0.0] * 83
    assert deciding(scores).tolist() == [0, 1, 2, 3]
    assert deciding([-score for score in scores]).tolist() == [0, 1, 2, 3]


def test_a_question_of_a_small_part_weighs_more():
    # The part of two questions gives 0.5; without its one lead it is 0, and the other part decides.
    scores = [1.0, 0.0, *[1.0] * 2, *[-1.0] * 4, *[0.0] * 14]
    parts = [0, 0, *[1] * 20]
    assert deciding(scores, parts).tolist() == [0]


@pytest.mark.parametrize("scores", [[0.0, 0.0], [1.0, -1.0], [1.0, 1.0, 0.0], [0.5]])
def test_no_lead_and_a_lead_that_nothing_opposes_hang_on_no_question(scores: list[float]):
    assert deciding(scores) is None


def test_a_lead_that_hangs_on_hundreds_is_not_looked_into():
    assert deciding([1.0] * 2_000 + [-1.0] * 1_000) is None
    assert len(deciding([1.0] * 1_499 + [-1.0] * 1_000)) == 500


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="differences: expected finite"):
        deciding([np.nan])
    with pytest.raises(ValueError, match="parts: expected one for each of 2"):
        deciding([1.0, 0.0], [1])
