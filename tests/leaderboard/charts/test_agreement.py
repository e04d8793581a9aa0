"""The page of agreement: every two benchmarks once, as a field, as a row and in the files."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from django.test import Client
from scipy.stats import spearmanr

from leaderboard.charts.agreement import agreement
from leaderboard.charts.heat_map import heat_map
from leaderboard.models import Suite
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.charts.test_page import get

BOARD = synthetic_board(120, 6, uncounted=1)


@pytest.fixture
def site(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = BOARD.suite
    return Suite.objects.create(
        name=BOARD.suite, version=BOARD.version, title=BOARD.title, digest="0" * 64
    )


@pytest.fixture
def suite(site: Suite) -> Suite:
    publish(BOARD, site)
    return site


def expected(board: Board) -> dict[frozenset[str], tuple[float, int]]:
    """Counted again from what the board shows of each model."""
    free = [row for row, m in enumerate(board.models) if not (m.flagged or m.superseded_by)]
    found = {}
    for one, other in combinations(range(len(board.columns)), 2):
        columns = board.columns[one], board.columns[other]
        values = board.scores.value[free][:, [one, other]]
        values = values[np.isfinite(values).all(axis=1)]
        rho = spearmanr(values).statistic
        turned = is_share(columns[0].metric) != is_share(columns[1].metric)
        found[frozenset(c.task for c in columns)] = (-rho if turned else rho, len(values))
    return found


def test_the_files_have_every_two_columns_in_full(client: Client, suite: Suite) -> None:
    text = b"".join(client.get("/charts-agreement.csv")).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    wanted = expected(BOARD)
    assert len(lines) == len(wanted) == 15
    for line in lines:
        rho, models = wanted[frozenset((line["first"], line["second"]))]
        assert float(line["rho"]) == pytest.approx(rho)
        assert int(line["models"]) == models
        assert float(line["low"]) < rho < float(line["high"])


def test_every_pair_is_a_field_that_says_what_its_row_says(client: Client, suite: Suite) -> None:
    html = get(client, "/charts-agreement")
    fields = re.findall(r'<rect class="heat[^>]*><title>([^<]*)</title>', html)
    assert len(fields) == 15
    rows = re.findall(r'<td role="cell" class="num" data-l="Correlation">(−?[01]\.\d\d)</td>', html)
    assert sorted(rows) == sorted(re.findall(r": (−?\d\.\d\d) \(", " ".join(fields)))
    values = [float(rho.replace("−", "-")) for rho in rows]
    assert values == sorted(values, reverse=True)
    assert "Most alike: Bench" in html


def test_the_picture_is_a_file_with_colours_of_its_own(client: Client, suite: Suite) -> None:
    response = client.get("/charts-agreement.svg")
    text = response.content.decode()
    assert response["Content-Type"] == "image/svg+xml"
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "style" not in text
    assert text.count("<rect class") == 15


def test_sixty_benchmarks_fit_on_the_picture_and_their_pairs_on_pages(
    client: Client, site: Suite
) -> None:
    publish(synthetic_board(60, 60), site)
    html = get(client, "/charts-agreement")
    assert html.count('<rect class="heat') == 1770
    assert html.count('<th role="rowheader" scope="row"') == 50
    assert len(html) < 700_000
    drawn = heat_map(agreement(synthetic_board(60, 60)))
    assert max(field.x for field in drawn.fields) + drawn.side <= drawn.width
    assert max(field.y for field in drawn.fields) + drawn.side <= drawn.height
    assert not drawn.numbered
    assert drawn.side >= 16, "names of 12 would lie on each other"
    assert 'class="heatmap large"' in html


def test_a_model_that_is_flagged_is_in_no_correlation() -> None:
    flagged = [
        replace(m, flag_reason="copied" if n < 60 else "") for n, m in enumerate(BOARD.models)
    ]
    board = replace(BOARD, models=type(BOARD.models).of(flagged))
    assert agreement(board).of == 60
    assert max(pair.n for pair in agreement(board).pairs) <= 60


def test_of_very_many_models_a_thousand_are_drawn_and_the_page_says_so(
    client: Client, site: Suite
) -> None:
    board = synthetic_board(1300, 3)
    publish(board, site)
    found = agreement(board)
    assert (found.drawn, found.of) == (1000, len(board.comparable_rows))
    assert f"Of {found.of:,} models 1,000 were drawn" in get(client, "/charts-agreement")
    # A thousand say nearly the same as all of them.
    for pair in found.pairs:
        whole = expected(board)[frozenset(found.columns[p].task for p in (pair.first, pair.second))]
        assert pair.low < whole[0] < pair.high


@pytest.mark.parametrize(("models", "columns"), [(9, 4), (30, 1)])
def test_too_few_models_or_one_benchmark_say_so(
    client: Client, site: Suite, models: int, columns: int
) -> None:
    publish(synthetic_board(models, columns), site)
    html = get(client, "/charts-agreement")
    assert "Nothing to draw yet" in html
    assert ("Too few models" in html) == (columns > 1)
    for form in ("svg", "csv"):
        assert client.get(f"/charts-agreement.{form}").status_code == 404


def test_before_the_first_board_the_page_says_so(client: Client, site: Suite) -> None:
    assert "The first board is built" in get(client, "/charts-agreement")
    assert client.get("/charts-agreement?suite=nowhere").status_code == 404
