"""The portrait of a model: its place in the field, its neighbours, its size; or none."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.model_pages import neighbours
from leaderboard.model_pages.field import positions_of
from leaderboard.model_pages.neighbours import Verdict
from leaderboard.model_pages.places import Place
from leaderboard.model_pages.size_chart import TALL, WIDE, size_chart
from leaderboard.models import HubModel, Suite
from leaderboard.snapshot import Board, positions, published
from tests.leaderboard import factories as make
from tests.leaderboard.boards import shown_better, synthetic_board
from tests.leaderboard.model_pages.test_page import get, lede, publish, section, text

SKILL = {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6}


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"))


def first_row(board: Board, *, flagged: bool = False) -> int:
    return next(row for row, model in enumerate(board.models) if model.flagged == flagged)


def test_a_position_counts_only_models_that_the_board_may_rank():
    board = synthetic_board(200, 4)
    row = first_row(board)
    for found in positions_of(board, row):
        at = board.columns.index(found.column)
        values = [
            board.scores.value[other, at]
            for other, model in enumerate(board.models)
            if not model.flagged and not np.isnan(board.scores.value[other, at])
        ]
        assert found.of == len(values)
        assert found.rank == 1 + sum(value > board.scores.value[row, at] for value in values)
        assert found.low <= found.rank <= found.high
        assert 0 <= found.bounds[0] <= found.at <= found.bounds[1] <= 1


def test_a_flagged_model_has_no_position():
    board = synthetic_board(200, 4)
    row = first_row(board, flagged=True)
    assert not positions.members(board)[row]
    assert positions_of(board, row) == []


def test_numbers_that_are_no_shares_have_no_position():
    board = synthetic_board(50, 4, uncounted=1)
    assert [p.column.metric for p in positions_of(board, first_row(board))] == ["acc"] * 3


def test_a_model_alone_has_no_position_and_no_chart():
    board = synthetic_board(1, 2, seed=1)
    assert positions.members(board).all()
    assert positions_of(board, 0) == []
    assert size_chart(board, 0, board.average_of(0)) is None


def claimed_board(models: int, reach: int, seed: int) -> Board:
    """One whose claims are drawn by a coin."""
    board = synthetic_board(models, 2, seed=seed)
    better = np.random.default_rng(seed).random((board.ranked, reach)) < 0.5
    ranks = replace(board.ranks, better=np.packbits(better, axis=1), reach=reach)
    return replace(board, ranks=ranks)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(1, 45), st.integers(0, 99))
def test_verdicts_on_others_are_the_claims_of_the_board(models: int, reach: int, seed: int):
    board = claimed_board(models, reach, seed)
    rows = np.flatnonzero(board.ranks.rank > 0).tolist()
    for own, row in enumerate(rows):
        found = neighbours.verdicts(board, row)
        for place, other in enumerate(rows):
            if place == own or abs(place - own) > reach:
                assert other not in found
            elif shown_better(board.ranks, min(own, place), max(own, place)):
                assert found[other] is (Verdict.BETTER if place < own else Verdict.WORSE)
            else:
                assert found[other] is Verdict.OPEN


def test_the_nearest_of_those_not_told_apart_are_named_in_order_of_rank():
    board = claimed_board(120, 60, 3)
    row = int(np.flatnonzero(board.ranks.rank > 0)[50])
    claims = neighbours.verdicts(board, row)
    named = neighbours.not_told_apart(Place(board, row, True), claims)
    open_rows = [other for other, verdict in claims.items() if verdict is Verdict.OPEN]
    nearest = sorted(open_rows, key=lambda other: (abs(other - row), other))[: neighbours.NAMED]
    assert [one.repo_id for one in named] == [board.models[o].repo_id for o in sorted(nearest)]
    assert len(named) == neighbours.NAMED


def test_similar_models_share_family_or_size_and_say_how_many_there_are():
    board = synthetic_board(300, 2)
    row = next(r for r in range(board.averaged) if board.models[r].base_model)
    own = board.models[row]
    found = neighbours.similar(Place(board, row, True), own.base_model, {})
    for one in found.family:
        other = board.models[board.row_of[one.variant]]
        assert own.base_model in (other.base_model, other.repo_id)
        assert not other.flagged
    for one in found.size:
        assert 1 / 1.25 <= one.parameters / own.parameters <= 1.25
    assert own.variant not in [one.variant for one in (*found.family, *found.size)]
    sizes = [
        other
        for r, other in enumerate(board.models)
        if r != row
        and not other.flagged
        and board.average_of(r)
        and 1 / 1.25 <= other.parameters / own.parameters <= 1.25
    ]
    assert found.n_size == len(sizes)


def test_ten_thousand_models_are_a_small_picture_and_one_of_them_is_marked():
    board = synthetic_board(10_000, 2)
    row = first_row(board)
    average = board.average_of(row)
    assert average is not None
    chart = size_chart(board, row, average)
    assert chart is not None
    assert len(chart.field.path) < 120_000
    places = [tuple(map(int, dot)) for dot in re.findall(r"M(\d+) (\d+)h0", chart.field.path)]
    assert len(places) == len(set(places)) > 1000
    x, y = float(chart.x[:-1]) / 100 * WIDE, float(chart.y[:-1]) / 100 * TALL
    assert any(abs(left - x) <= 0.51 and abs(top - y) <= 0.51 for left, top in places)
    assert 0 < chart.below <= chart.near


def test_the_first_screen_names_whom_it_cannot_be_told_apart_from(
    client: Client, suite: Suite
) -> None:
    one = make.evaluated("lab/one", suite, SKILL, n=60)
    like = make.evaluated("lab/like", suite, SKILL, n=60)
    make.evaluated("lab/worse", suite, dict.fromkeys(SKILL, 0.05), n=60)
    publish(suite)
    html = get(client)
    assert "1 cannot be told apart from it" in lede(html)
    named = html.split("Not told apart from it")[1].split("</p>")[0]
    assert 'href="/models/lab/like"' in named
    assert "/models/lab/worse" not in named
    assert f'href="/compare?m={one.pk},{like.pk}"' in named
    stands = text(html.split('<dl class="facts ruled stands">')[1].split("</dl>")[0])
    assert re.search(r"Cloze \d \(\d–\d\) of 3 MMLU-style \d \(\d–\d\) of 3 Hybrid", stands)
    profile = section(html, "profile")
    assert profile.count("<tr") == 3
    assert "<title id=" in html
    assert "3 models against their parameters" in text(html)
    assert "shown to be worse" in text(html.split('id="similar"')[1])


def test_a_board_of_one_model_and_one_benchmark_has_no_field(client: Client, db: None) -> None:
    suite = make.make_suite(benchmarks=("facts",))
    make.evaluated("lab/one", suite, SKILL)
    publish(suite)
    html = get(client)
    assert "so there is no field to place it in" in text(section(html, "profile"))
    assert 'id="size"' not in html
    assert 'id="similar"' not in html
    assert "Strongest" not in html
    assert "Not told apart" not in html


def test_a_model_with_no_finished_run_has_no_portrait(client: Client, suite: Suite) -> None:
    make.evaluated("lab/other", suite, SKILL)
    make.make_submission(make.make_variant("lab/one"), suite)
    publish(suite)
    html = get(client)
    assert 'id="size"' not in html
    assert "Strongest" not in html
    assert "is queued" in lede(html)


def test_a_flagged_model_is_not_placed_in_the_field(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL)
    make.evaluated("lab/two", suite, SKILL)
    HubModel.objects.filter(repo_id="lab/one").update(flag_reason="trained on the questions")
    published.build(suite, "own")
    assert "so it has no place in the field" in text(section(get(client), "profile"))
