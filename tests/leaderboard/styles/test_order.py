"""What a change of style does to the order of models: ranks among them, ranges, flips."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.digest import digest_of
from leaderboard.snapshot import Board, Models, Ranks, Scores
from leaderboard.styles import order as style_order
from leaderboard.styles.order import Claims, Order, claimed_flips
from tests.leaderboard.boards import shown_better, synthetic_board


def ranked(models: int, reach: int, draw: np.random.Generator) -> Ranks:
    """Ranks of so many models with claims drawn at random, and the ranges that follow."""
    better = draw.random((models, reach)) < 0.5
    for distance in range(1, reach + 1):
        better[models - distance :, distance - 1] = False  # nobody is that far below
    place = np.arange(models)
    low = 1 + np.maximum(place - reach, 0)
    high = np.minimum(place + reach + 1, models) - better.sum(axis=1)
    for distance in range(1, reach + 1):
        low[distance:] += better[: models - distance, distance - 1]
    return ranks_with(low, high, better)


def ranks_with(low: np.ndarray, high: np.ndarray, better: np.ndarray) -> Ranks:
    """Ranks with these ranges and claims, shape (models, reach), in one band."""
    models, reach = better.shape
    no = np.zeros(models, np.bool_)
    return Ranks(
        rank=np.arange(1, models + 1, dtype=np.int32),
        low=low.astype(np.int32),
        high=high.astype(np.int32),
        cut_low=no,
        cut_high=no,
        better=np.packbits(better, axis=1),
        reach=reach,
    )


def counts_as_better(ranks: Ranks, first: int, second: int) -> bool:
    return second - first > ranks.reach or shown_better(ranks, first, second)


some_models = st.tuples(
    st.integers(2, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 99)
)


@settings(deadline=None)
@given(some_models)
def test_flips_are_the_pairs_that_were_shown_in_opposite_orders(drawn):
    models, reach, other_reach, seed = drawn
    draw = np.random.default_rng(seed)
    # Some models of each board are in both.
    common = int(draw.integers(2, models + 1))
    claims = [
        Claims(
            ranked(models, min(most, models - 1), draw),
            draw.permutation(models)[:common].astype(np.intp),
        )
        for most in (reach, other_reach)
    ]
    expected = 0
    for j, k in combinations(range(common), 2):
        for first, second in ((j, k), (k, j)):
            expected += counts_as_better(
                claims[0].ranks, claims[0].places[first], claims[0].places[second]
            ) and counts_as_better(
                claims[1].ranks, claims[1].places[second], claims[1].places[first]
            )
    assert claimed_flips(*claims) == expected


@settings(deadline=None)
@given(some_models)
def test_ranges_among_some_models_follow_from_the_claims_of_all(drawn):
    models, reach, _, seed = drawn
    draw = np.random.default_rng(seed)
    ranks = ranked(models, min(reach, models - 1), draw)
    members = draw.permutation(models)[: int(draw.integers(1, models + 1))].astype(np.intp)
    low, high = Claims(ranks, members).ranges()
    for place, model in enumerate(members):
        better = sum(counts_as_better(ranks, other, model) for other in members)
        worse = sum(counts_as_better(ranks, model, other) for other in members)
        assert (low[place], high[place]) == (1 + better, len(members) - worse)


def in_style(board: Board, style: str, averages: list[float]) -> Board:
    """The board's first models with these averages, each range one place to both sides."""
    n = len(averages)
    order = np.argsort(-np.array(averages), kind="stable")
    value = np.array(averages)[order]
    rank = np.arange(1, n + 1)
    better = np.zeros((n, n - 1), np.bool_)
    for distance in range(2, n):
        better[: n - distance, distance - 1] = True
    return replace(
        board,
        style=style,
        models=Models.of(replace(board.models[row], flag_reason="") for row in order),
        average=Scores(value, value - 0.01, value + 0.01),
        ranks=ranks_with(np.maximum(rank - 1, 1), np.minimum(rank + 1, n), better),
        data_version=digest_of([style, averages]),
    )


@pytest.fixture(scope="module")
def plain() -> Board:
    return synthetic_board(models=20, columns=2)


def test_models_are_compared_in_both_boards_orders_and_those_of_one_alone_have_no_place(
    plain: Board,
) -> None:
    first = in_style(plain, "cloze", [0.9, 0.8, 0.7, 0.6])
    second = in_style(plain, "mmlu", [0.5, 0.8, 0.7, 0.6])
    change = style_order.of_averages(first, second)
    assert change.first.rank.tolist() == [1, 2, 3, 4]
    assert change.second.rank.tolist() == [4, 1, 2, 3]
    assert change.moved.tolist() == [-3, 1, 1, 1]
    # 1 (1–2) against 4 (3–4): apart. The others' ranges share ranks.
    assert change.beyond_chance.tolist() == [True, False, False, False]
    assert change.pairs == 6
    assert change.flipped == 3 / 6
    assert change.tau == pytest.approx(0.0)
    # The first model was shown to be better than the last two, and worse than the first two.
    assert change.shown_flips == 1

    same = style_order.of_averages(first, replace(first, data_version="same order"))
    assert (same.tau, same.interval, same.shown_flips) == (1.0, None, 0)

    with_more = in_style(plain, "mmlu", [0.5, 0.8, 0.7, 0.6, 0.99])
    change = style_order.of_averages(first, with_more)
    assert len(change.models) == 4
    assert change.second.rank.tolist() == [4, 1, 2, 3]
    assert change.second.high.max() == 4

    two = in_style(plain, "cloze", [0.9, 0.8])
    alone = replace(plain.models[10], variant=77, flag_reason="")
    other = replace(two, models=Models.of([two.models[0], alone]), data_version="other")
    assert style_order.of_averages(two, other) is None, "fewer than two models are in both"


def of_scores(plain: Board, values: list[list[float]], half: float) -> Board:
    """A board of every style with these scores, models by styles."""
    value = np.array(values)
    n = len(value)
    return replace(
        plain,
        models=Models.of(replace(model, flag_reason="") for model in plain.models[:n]),
        scores=Scores(value, value - half, value + half),
        data_version=digest_of([str(values), half]),
    )


def ranges(order: Order) -> list[list[int]]:
    return np.stack([order.low, order.high], axis=1).tolist()


def test_of_one_benchmark_ranges_hold_for_all_models_at_once(plain: Board) -> None:
    values = [[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]]
    change = style_order.of_benchmark(of_scores(plain, values, 0.1), (0, 1))
    assert ranges(change.first) == [[1, 1], [2, 2], [3, 3]]
    assert change.beyond_chance.tolist() == [True, False, True]
    assert change.shown_flips == 3
    # ±0.13 of one score is ±0.159 of three at once: 0.5 and 0.8 then cannot be told apart.
    wider = style_order.of_benchmark(of_scores(plain, values, 0.13), (0, 1))
    assert ranges(wider.first) == [[1, 2], [1, 3], [2, 3]]
    assert wider.shown_flips == 1


def test_flagged_older_and_unmeasured_models_have_no_place_in_a_benchmarks_order(
    plain: Board,
) -> None:
    board = of_scores(plain, [[0.8, 0.2], [0.5, 0.5], [0.2, 0.8], [0.1, 0.1]], 0.1)
    one, two, _, four = board.models
    newer = replace(two, variant=99, commit="f" * 40, added=two.added.replace(year=2030))
    board = replace(
        board, models=Models.of([replace(one, flag_reason="Trained on it"), two, newer, four])
    )
    change = style_order.of_benchmark(board, (0, 1))
    assert [model.variant for model in change.models] == [99, four.variant]
    board = of_scores(plain, [[0.8, 0.2], [0.5, float("nan")], [0.2, 0.8]], 0.1)
    change = style_order.of_benchmark(board, (0, 1))
    assert len(change.models) == 2
    assert style_order.of_benchmark(of_scores(plain, [[0.8, 0.2]], 0.1), (0, 1)) is None
