"""Ranks by separate intervals that hold together: against counting, by hand, and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.stats import held_together, ranges_of

bound = st.integers(0, 12).map(float)
interval = st.one_of(st.tuples(bound, bound).map(sorted), st.just([np.nan, np.nan]))


@given(st.lists(st.tuples(interval, st.booleans()), min_size=1, max_size=9))
def test_ranks_are_those_that_counting_leaves(models: list[Any]):
    intervals, counts = zip(*models, strict=True)
    field = np.array(counts)
    known = [row for row, (low, _) in enumerate(intervals) if field[row] and not np.isnan(low)]
    low, high = np.array(intervals).T[:, :, None]
    value = (low + high) / 2
    lows, highs = (np.full_like(value, np.nan) for _ in range(2))
    lows[field], highs[field] = held_together(value[field], low[field], high[field])
    rank, best, worst, of = (found[..., 0] for found in ranges_of(value, low, high, field))
    assert of == len(known)
    for row in range(len(models)):
        expected = 0, 0, 0
        if row in known:
            better = sum(value[other] > value[row] for other in known)
            above = sum(lows[other] > highs[row] for other in known)
            below = sum(highs[other] < lows[row] for other in known)
            expected = 1 + better, 1 + above, len(known) - below
        assert (rank[row], best[row], worst[row]) == expected


def test_intervals_are_wider_the_more_models_a_column_has():
    value = np.array([[0.5, 0.5], [0.5, np.nan], [0.5, np.nan], [0.5, np.nan]])
    low, high = held_together(value, value - 0.1, value + 0.2)
    # R: qnorm(1 - 0.05 / 4 / 2) / qnorm(0.975) = 2.497705 / 1.959964
    assert high[0] - 0.5 == pytest.approx([0.2 * 1.274363, 0.2], rel=1e-5)
    assert 0.5 - low[0] == pytest.approx([0.1 * 1.274363, 0.1], rel=1e-5)
    assert np.isnan(low[1, 1])


def test_true_ranks_lie_within_all_ranges_at_once():
    generator = np.random.default_rng(0)
    truth = np.linspace(0.4, 0.6, 12)
    true_rank = 12 - np.arange(12)
    missed = 0
    for _ in range(400):
        value = generator.normal(truth, 0.03)
        sides = (value + side * 1.959964 * 0.03 for side in (0, -1, 1))
        scores = [side[:, None] for side in sides]
        _, best, worst, _ = ranges_of(*scores, np.ones(12, np.bool_))
        missed += bool(((true_rank < best[:, 0]) | (true_rank > worst[:, 0])).any())
    assert missed / 400 < 0.05
