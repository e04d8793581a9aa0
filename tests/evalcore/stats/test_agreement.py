"""How far two orders agree, with its interval: against counting, scipy and simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import kendall_interval, kendall_tau
from evalcore.stats.pairs import count_below
from leaderboard.stats import clear_flips

points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40)
scores = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=25)


@given(points, points)
def test_points_are_counted_as_one_by_one(here, places):
    x, y = np.array(here, dtype=float).T
    at_x, at_y = np.array(places, dtype=float).T
    expected = [int(((x < a) & (y < b)).sum()) for a, b in places]
    assert count_below(x, y, at_x, at_y).tolist() == expected


@settings(deadline=None)  # scipy is imported on the first call
@given(scores)
def test_the_interval_is_the_jackknifes_around_tau(pairs):
    a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    most = [np.unique(side, return_counts=True)[1].max() for side in (a, b)]
    try:
        found = kendall_interval(a, b)
    except ValueError:
        assert max(most) >= len(a) - 1  # no order, or none once the one that differs is left out
        return
    assert found.value == pytest.approx(kendall_tau(a, b))
    if found.value in (-1.0, 1.0):
        assert found.low == found.high
        return
    without = np.array(
        [kendall_tau(np.delete(a, place), np.delete(b, place)) for place in range(len(a))]
    )
    tau = found.value
    from scipy.stats import t

    n = len(a)
    error = math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    half = float(t.ppf(0.975, n - 1)) * error / (1 - tau**2)
    assert found.low == pytest.approx(math.tanh(math.atanh(tau) - half), abs=1e-9)
    assert found.high == pytest.approx(math.tanh(math.atanh(tau) + half), abs=1e-9)


@pytest.mark.parametrize(("rho", "n"), [(0.3, 12), (0.8, 12), (0.8, 40), (0.95, 40)])
def test_the_interval_holds_the_true_tau_as_often_as_it_says(rho, n):
    """Of two normal scores with correlation rho it is 2 / π · arcsin(rho)."""
    generator = np.random.default_rng(int(100 * rho) + n)
    truth, covered = 2 / math.pi * math.asin(rho), 0
    for _ in range(600):
        a, noise = generator.normal(size=(2, n))
        found = kendall_interval(a, rho * a + math.sqrt(1 - rho**2) * noise)
        covered += found.low <= truth <= found.high
    # With few things to compare it is wider than it need be.
    assert covered / 600 > 0.93


def test_orders_that_agree_throughout_have_an_interval_of_no_width():
    same = kendall_interval([1, 2, 3, 4], [2, 4, 6, 9])
    turned = kendall_interval([1, 2, 3, 4], [9, 6, 4, 2])
    assert (same.low, same.high) == (1.0, 1.0)
    assert (turned.low, turned.high) == (-1.0, -1.0)


@pytest.mark.parametrize(
    ("a", "b", "name"),
    [
        ([1.0, 2.0], [1.0, 2.0], "a"),
        ([1.0, 2.0, 3.0], [1.0, 2.0], "b"),
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], "a"),
        ([1.0, 2.0, 3.0, 2.5], [1.0, 1.0, 1.0, 2.0], "b"),
        ([1.0, math.nan, 3.0], [1.0, 2.0, 3.0], "a"),
    ],
)
def test_what_has_no_interval_is_refused_by_name(a, b, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        kendall_interval(a, b)


@given(
    st.lists(
        st.tuples(*[st.tuples(st.integers(1, 9), st.integers(0, 4)) for _ in range(2)]),
        min_size=1,
        max_size=20,
    )
)
def test_a_pair_flips_clearly_where_its_intervals_lie_apart_in_both_orders(models):
    first, second = (
        np.array([[low, low + width] for low, width in side]) for side in zip(*models, strict=True)
    )
    expected = sum(
        _apart(first[j], first[k]) * _apart(second[j], second[k]) < 0
        for j, k in combinations(range(len(models)), 2)
    )
    assert clear_flips(first, second) == expected


def test_intervals_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"^second: "):
        clear_flips([[1, 2]], [[1, 2], [2, 2]])
    with pytest.raises(ValueError, match=r"^first: "):
        clear_flips([1, 2], [1, 2])


def _apart(one, other):
    """-1 where `one` lies below `other` as a whole, 1 where above, else 0."""
    return -1 if one[1] < other[0] else 1 if one[0] > other[1] else 0
