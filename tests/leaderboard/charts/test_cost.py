"""Score against tokens, seconds and energy: of all questions together, on one kind of machine."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.board import column_keys
from leaderboard.charts.axes import AXES
from leaderboard.charts.chart import AVERAGE, chart
from leaderboard.models import Suite
from leaderboard.snapshot import Board, Cost, Costs
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.charts.test_page import get, told

FEW = synthetic_board(60, 3)


def with_costs(board: Board) -> Board:
    """Two models in three on A, the others on B; one in ten has no seconds in its first column,
    and one was moved from one machine to the other. Columns differ in their number of questions."""
    costs = Costs.none(*board.n.shape)
    draw = np.random.default_rng(1)
    for row, column in np.argwhere(board.n > 0).tolist():
        machine = "1 x A" if row % 3 else "1 x B"
        if row == 4 and column == 0:
            machine = "1 x B"
        seconds = np.nan if row % 10 == 9 and column == 0 else float(draw.uniform(0.01, 3))
        costs.put(
            row,
            column,
            Cost(float(draw.uniform(50, 5000)), seconds, 100 * seconds, machine, f"{machine}: GPU"),
        )
    return replace(board, costs=costs, n=board.n * np.array([1, 2, 5], np.int32))


BOARD = with_costs(FEW)


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = BOARD.suite
    made = Suite.objects.create(
        name=BOARD.suite, version=BOARD.version, title=BOARD.title, digest="0" * 64
    )
    publish(BOARD, made)
    return made


def test_the_cost_of_an_average_is_of_all_questions_together() -> None:
    """Counted again, one model and one column at a time."""
    drawn = chart(BOARD, AVERAGE, column_keys(BOARD), AXES["tokens"])
    assert BOARD.costs is not None
    assert len(drawn.rows) > 30
    for row, across in zip(drawn.rows.tolist(), drawn.across.tolist(), strict=True):
        spent = asked = 0.0
        for column in range(3):
            n = int(BOARD.n[row, column])
            spent += float(BOARD.costs.of[row, column, 0]) * n
            asked += n
        assert across == pytest.approx(spent / asked)


def test_models_on_another_kind_of_machine_are_never_on_the_same_chart() -> None:
    keys = column_keys(BOARD)
    usual = chart(BOARD, AVERAGE, keys, AXES["seconds"])
    assert usual.machine == "1 x A"
    assert {row % 3 for row in usual.rows.tolist()} == {1, 2}
    assert 4 not in usual.rows.tolist(), "its columns were measured on both"
    assert all(row % 10 != 9 for row in usual.rows.tolist()), "one of its columns was not timed"
    other = chart(BOARD, AVERAGE, keys, AXES["seconds"], "1 x B")
    assert {row % 3 for row in other.rows.tolist()} == {0}
    assert dict(usual.machines) == {"1 x A": len(usual.rows), "1 x B": len(other.rows)}
    one = chart(BOARD, keys[1], keys, AXES["seconds"])
    assert 4 in one.rows.tolist(), "this column is from one machine"


def test_nobody_thriftier_is_better_than_a_model_on_the_line() -> None:
    drawn = chart(BOARD, AVERAGE, column_keys(BOARD), AXES["joules"])
    points = list(zip(drawn.across.tolist(), drawn.scores.value.tolist(), strict=True))
    for (cost, score), best in zip(points, drawn.on_front.tolist(), strict=True):
        beaten = any((c <= cost and s >= score) and (c, s) != (cost, score) for c, s in points)
        assert best is not beaten


def test_the_page_names_the_machine_and_offers_the_others(client: Client, suite: Suite) -> None:
    html = get(client, "/charts?against=seconds")
    assert "All of them were measured on one kind of machine: 1 x A." in html
    assert 'name="on"' in html
    other = get(client, "/charts?against=seconds&on=1+x+B")
    assert not told(html).keys() & told(other).keys()
    assert 'href="/charts-by-seconds.csv?on=1+x+B"' in other
    response = client.get("/charts?against=seconds&on=1+x+A")
    assert response["Location"] == "/charts?against=seconds", "the usual one need not be named"
    assert client.get("/charts?against=seconds&on=9+x+Z")["Location"] == "/charts?against=seconds"
    assert 'href="/charts?against=tokens"' in other, "tokens are of no machine"


@pytest.mark.parametrize("measure", ["tokens", "seconds", "joules"])
def test_the_files_have_what_is_drawn_in_full(client: Client, suite: Suite, measure: str) -> None:
    drawn = chart(BOARD, AVERAGE, column_keys(BOARD), AXES[measure])
    text = b"".join(client.get(f"/charts-by-{measure}.csv")).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [float(line[measure]) for line in lines] == drawn.across.tolist()
    figures = json.loads(b"".join(client.get(f"/charts-by-{measure}.json")))
    assert figures["about"].get("machine", "") == drawn.machine
    assert told(client.get(f"/charts-by-{measure}.svg").content.decode()).keys() == {
        line["model"] for line in lines
    }


def test_a_board_of_before_says_that_nothing_is_known(client: Client, suite: Suite) -> None:
    publish(replace(FEW, built=BOARD.built.replace(year=2026)), suite)
    html = get(client, "/charts?against=joules")
    assert "No model has this score and an energy that counters counted." in html


@given(st.floats(-5, 6), st.floats(0.11, 6))
def test_an_axis_has_a_few_lines_however_long_it_is(least: float, span: float) -> None:
    for axis in (AXES["tokens"], AXES["seconds"], AXES["size"]):
        ticks = list(axis.ticks(least, least + span))
        places = [place for place, _ in ticks]
        assert 3 <= len(places) <= 12
        assert places == sorted(places)
        assert all(least - 1e-6 <= np.log10(place) <= least + span + 1e-6 for place in places)


@given(st.floats(1e-4, 1e7))
def test_a_label_says_the_number_to_two_figures(number: float) -> None:
    said = float(AXES["seconds"].label(number).removesuffix(" s").replace(",", ""))
    assert said == pytest.approx(number, rel=0.051)
