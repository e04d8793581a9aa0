"""The page of charts: what is drawn is what the board says, and stands beneath as a table."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from django.test import Client

from leaderboard.charts.drawing import STANDING_OUT
from leaderboard.models import Suite
from tests.leaderboard.boards import publish, synthetic_board

BOARD = synthetic_board(120, 4, uncounted=1)


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


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def expected(values: np.ndarray) -> dict[str, float]:
    """By name the value of each model that stands on the chart."""
    return {
        model.repo_id: float(value)
        for model, value in zip(BOARD.models, values, strict=True)
        if np.isfinite(value) and not model.flagged
    }


def told(html: str) -> dict[str, str]:
    dots = re.findall(r'<a href="/models/[^"]*"[^>]*aria-label="([^:]*): ([^"]*)"', html)
    return dict(dots)


def test_every_model_with_a_score_is_a_dot_that_tells_it(client: Client, suite: Suite) -> None:
    html = get(client, "/charts")
    dots, values = told(html), expected(BOARD.average.value)
    assert dots.keys() == values.keys()
    for name, value in values.items():
        assert f", {100 * value:.1f} (" in dots[name]
    measured = int(np.isfinite(BOARD.average.value).sum())
    assert f"Left out: {measured - len(values)} models" in html


def test_a_column_can_be_drawn_but_no_perplexity(client: Client, suite: Suite) -> None:
    html = get(client, "/charts?score=bench_01")
    assert told(html).keys() == expected(BOARD.scores.value[:, 1]).keys()
    assert "Bench 1, mmlu" in html
    assert 'value="bench_03"' not in html
    response = client.get("/charts?score=bench_03")
    assert (response.status_code, response["Location"]) == (302, "/charts")


def test_only_the_models_on_the_line_are_stops_of_the_tab_key(client: Client, suite: Suite) -> None:
    html = get(client, "/charts")
    dots = re.findall(r'<a href="/models/[^"]*"( tabindex="-1")? aria-label', html)
    best = html.count('class="dot best"')
    assert len([dot for dot in dots if not dot]) == best > 0


def test_the_table_is_in_pages_and_has_every_model_once(client: Client, suite: Suite) -> None:
    pages = [get(client, f"/charts?page={page}" if page > 1 else "/charts") for page in (1, 2, 3)]
    rows = [
        re.findall(
            r'<th role="rowheader" scope="row" class="chartname"><a href="[^"]*">([^<]*)<', page
        )
        for page in pages
    ]
    assert [len(of_page) for of_page in rows[:2]] == [50, 50]
    listed = [name for of_page in rows for name in of_page]
    assert sorted(listed) == sorted(expected(BOARD.average.value))


def test_the_files_have_the_same_figures_in_full(client: Client, suite: Suite) -> None:
    values = expected(BOARD.average.value)
    text = b"".join(client.get("/charts-by-size.csv")).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert {line["model"]: float(line["value"]) for line in lines} == values
    figures = json.loads(b"".join(client.get("/charts-by-size.json")))
    assert {row["model"]: row["value"] for row in figures["models"]} == values
    assert figures["about"]["left_out"] > 0
    assert sum(row["on_front"] for row in figures["models"]) == get(client, "/charts").count(
        'class="dot best"'
    )


def test_the_picture_is_a_file_with_colours_of_its_own(client: Client, suite: Suite) -> None:
    response = client.get("/charts-by-size.svg")
    assert response["Content-Type"] == "image/svg+xml"
    text = response.content.decode()
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "style" not in text
    assert told(text) == told(get(client, "/charts"))


def test_names_stand_beside_dots_and_a_hostile_one_is_but_a_text(
    client: Client, site: Suite
) -> None:
    hostile = "lab/<script>'&amp;\"x=1"
    best = max(expected(BOARD.average.value).items(), key=lambda model: model[1])[0]
    models = [
        replace(model, repo_id=hostile) if model.repo_id == best else model
        for model in BOARD.models
    ]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(models), built=later), site)
    drawing = ElementTree.fromstring(client.get("/charts-by-size.svg").content)
    names = [one.text for one in drawing.iterfind(".//{*}text[@class]")]
    assert names.count(hostile.removeprefix("lab/")) == 1
    assert len(names) > 10
    assert "<script>'" not in get(client, "/charts")


def test_of_many_models_some_lead_to_theirs_and_the_page_says_which(
    client: Client, site: Suite
) -> None:
    board = synthetic_board(600, 3)
    publish(board, site)
    html = get(client, "/charts")
    measured = np.isfinite(board.average.value)
    values = {
        model.repo_id: float(value)
        for model, value in zip(board.models, board.average.value, strict=True)
        if np.isfinite(value) and not model.flagged
    }
    dots = told(html)
    assert len(dots) == STANDING_OUT
    assert f"{STANDING_OUT} models, those on the line and the highest, are dots" in html
    line = html.count('class="dot best"')
    highest = sorted(values, key=lambda name: -values[name])[: STANDING_OUT - line]
    assert set(highest) <= dots.keys()
    assert html.count('class="crowd"') == 1
    assert f"{len(values)} models, percent upwards" in html
    assert int(measured.sum()) > len(values)
    last = get(client, f"/charts?page={-(-len(values) // 50)}")
    assert (
        len(re.findall('<th role="rowheader" scope="row" class="chartname">', last))
        == len(values) % 50
    )
    text = b"".join(client.get("/charts-by-size.csv")).decode()
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(values)


def test_through_time_the_line_is_the_best_score_until_then(client: Client, suite: Suite) -> None:
    html = get(client, "/charts?against=time")
    assert "<h1>Best score through time</h1>" in html
    values = expected(BOARD.average.value)
    assert told(html).keys() == values.keys()
    stood = sorted(
        (model.added, -values[model.repo_id], model.repo_id)
        for model in BOARD.models
        if model.repo_id in values
    )
    best, records = -1.0, set()
    for added, negative, name in stood:
        assert told(html)[name].startswith(f"{added:%-d %b %Y}, ")
        if -negative > best:
            best = -negative
            records.add(name)
    text = b"".join(client.get("/charts-by-time.csv")).decode()
    lines = {line["model"]: line for line in csv.DictReader(io.StringIO(text))}
    assert {name for name, line in lines.items() if line["on_front"] == "true"} == records
    assert {line["family"] for line in lines.values()} == {""}
    assert 'href="/charts-by-time.svg' in html
    assert told(client.get("/charts-by-time.svg").content.decode()) == told(html)
    assert client.get("/charts?against=luck")["Location"] == "/charts"


def test_a_commit_that_was_superseded_stood_until_then(client: Client, site: Suite) -> None:
    first = BOARD.models[0]
    older = [replace(first, superseded_by="f" * 40), *BOARD.models[1:]]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(older), built=later), site)
    assert first.repo_id not in told(get(client, "/charts"))
    assert first.repo_id in told(get(client, "/charts?against=time"))


def test_what_is_chosen_stays_from_one_axis_to_the_other(client: Client, suite: Suite) -> None:
    html = get(client, "/charts?score=bench_01&against=time")
    assert 'href="/charts?score=bench_01">Score against size' in html
    assert '<input type="hidden" name="against" value="time">' in html
    assert 'href="/charts-by-time.csv?score=bench_01"' in html


def test_before_the_first_board_the_page_says_so(client: Client, site: Suite) -> None:
    assert "Nothing to draw yet" in get(client, "/charts")
    for ending in ("svg", "csv"):
        assert client.get(f"/charts-by-size.{ending}").status_code == 404


def test_a_board_without_sizes_has_nothing_to_draw(client: Client, site: Suite) -> None:
    unknown = [replace(model, parameters=0) for model in BOARD.models]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(unknown), built=later), site)
    html = get(client, "/charts")
    assert "No model has this score and a known size." in html
    assert '<svg class="chart' not in html


def test_a_suite_that_is_not_there_is_not_found(client: Client, suite: Suite) -> None:
    assert client.get("/charts?suite=nowhere").status_code == 404
