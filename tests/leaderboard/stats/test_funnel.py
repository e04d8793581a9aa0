"""Between what a run's score will end: it holds at all looks together, and narrows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from evalcore.watch import LOOKS, Stratum
from leaderboard.stats import Standing, check_strata, standing

SHARES = (8, 4, 2)


def sample(right: float, answered: int, documents: int, *, weight: float = 1.0) -> Stratum:
    return Stratum(
        weight=weight,
        documents=documents,
        answered=answered,
        right=right,
        zero_or_one=float(right).is_integer(),
    )


def looks_at(parts: Sequence[np.ndarray], *, zero_or_one: bool = True) -> list[Standing]:
    """At scores of several parts, each in the order in which it is answered, weighted by size."""
    total = sum(map(len, parts))
    seen: list[Standing] = []
    for share in SHARES:
        strata = []
        for part in parts:
            answered = -(-len(part) // share)
            strata.append(
                Stratum(
                    weight=len(part) / total,
                    documents=len(part),
                    answered=answered,
                    right=float(part[:answered].sum()),
                    zero_or_one=zero_or_one,
                )
            )
        seen.append(standing(strata, looks=LOOKS, earlier=seen[-1] if seen else None))
    return seen


def held(seen: Sequence[Standing], value: float) -> bool:
    return all(look.low - 1e-9 <= value <= look.high + 1e-9 for look in seen)


@pytest.mark.parametrize("right", [4, 60, 100])
def test_the_exact_interval_holds_at_every_look_together_in_95_percent(right: int) -> None:
    """Of all samples, weighted by how likely they are: no simulation is needed at one look, and the
    looks' shares of the error add up."""
    documents, misses = 200, 0.0
    for share in SHARES:
        answered = documents // share
        for found in range(max(0, answered + right - documents), min(answered, right) + 1):
            stood = standing([sample(found, answered, documents)], looks=LOOKS)
            if not held([stood], right / documents):
                misses += hypergeom.pmf(found, documents, right, answered)
    assert misses <= 0.05


@pytest.mark.parametrize(
    "sizes", [(1000,), (900, 60, 40), (100,) * 10], ids=["one", "unequal", "many"]
)
@pytest.mark.parametrize("skill", [0.1, 0.5, 0.97])
def test_the_bound_holds_at_every_look_together_in_95_percent(
    sizes: tuple[int, ...], skill: float
) -> None:
    """A simulation with known truth: each part is shuffled anew, its scores are what they are."""
    rng = np.random.default_rng(7)
    parts = [np.sort(rng.random(size) < skill).astype(float) for size in sizes]
    truth = float(np.concatenate(parts).mean())
    seen = [
        looks_at([rng.permutation(part) for part in parts], zero_or_one=False) for _ in range(1000)
    ]
    assert np.mean([held(looks, truth) for looks in seen]) >= 0.95


def test_it_is_not_wider_than_need_be() -> None:
    """As much as 147 of 1,172 questions tell: Hoeffding's bound alone would say ±12 points."""
    stood = standing([sample(90, 147, 1172)], looks=LOOKS)
    assert (round(stood.low, 3), round(stood.high, 3)) == pytest.approx((0.516, 0.703), abs=0.01)
    bounded = standing(
        [Stratum(weight=1, documents=1172, answered=147, right=90, zero_or_one=False)], looks=LOOKS
    )
    assert bounded.low < stood.low < stood.high < bounded.high


samples = st.integers(8, 400).flatmap(
    lambda size: st.lists(st.booleans(), min_size=size, max_size=size)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(samples, min_size=1, max_size=3), st.booleans())
def test_each_interval_lies_in_the_one_before_and_what_is_certain_is_never_denied(
    scores: list[list[bool]], zero_or_one: bool
) -> None:
    parts = [np.array(part, float) for part in scores]
    seen = looks_at(parts, zero_or_one=zero_or_one)
    for look in seen:
        assert 0 <= look.low <= look.high <= 1 + 1e-9
        assert 0 <= look.value <= 1 + 1e-9
    for earlier, later in itertools.pairwise(seen):
        within = earlier.low <= later.low and later.high <= earlier.high
        apart = later.low > earlier.high or later.high < earlier.low
        assert within or apart  # where one of the two has missed
    whole = [
        Stratum(
            weight=len(part) / sum(map(len, parts)),
            documents=len(part),
            answered=len(part),
            right=float(part.sum()),
            zero_or_one=True,
        )
        for part in parts
    ]
    end = standing(whole, looks=LOOKS)
    truth = float(np.concatenate(parts).mean())
    assert (end.low, end.value, end.high) == pytest.approx((truth, truth, truth))


def test_an_interval_narrows_from_look_to_look() -> None:
    rng = np.random.default_rng(3)
    seen = looks_at([rng.permutation(np.repeat([0.0, 1.0], 600))])
    widths = [look.high - look.low for look in seen]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] < 0.25
    assert widths[2] < 0.09
    for earlier, later in itertools.pairwise(seen):
        assert earlier.low <= later.low <= later.high <= earlier.high


def test_a_part_that_is_answered_whole_makes_nothing_uncertain() -> None:
    one = sample(300, 600, 1200, weight=1.0)
    with_small = [
        Stratum(weight=0.5, documents=1200, answered=600, right=300, zero_or_one=True),
        Stratum(weight=0.5, documents=50, answered=50, right=25, zero_or_one=True),
    ]
    alone = standing([Stratum(**{**vars(one), "zero_or_one": False})], looks=LOOKS)
    both = standing(with_small, looks=LOOKS)
    assert both.high - both.low == pytest.approx((alone.high - alone.low) / 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": 0.9},
        {"weight": float("nan")},
        {"answered": 0},
        {"answered": 11},
        {"right": 6},
        {"right": float("nan")},
        {"right": -1},
        {"right": 2.5},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    fields = {"weight": 1, "documents": 10, "answered": 5, "right": 2, "zero_or_one": True}
    with pytest.raises(ValueError, match=r"stratum|strata"):
        check_strata([Stratum(**{**fields, **wrong})])  # type: ignore[arg-type]
