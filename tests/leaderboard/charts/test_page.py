"""The pages of charts: what plotly draws is what the board says, and stands beneath as a table."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from leaderboard.board import column_keys
from leaderboard.charts.against import AVERAGE, Front, against, scores_of
from leaderboard.charts.questions import MOST_DOTS, questions
from leaderboard.models import Result, Suite, SuiteEntry
from leaderboard.models.task import is_share
from leaderboard.models.variant import family_of
from leaderboard.samples import vectors
from leaderboard.snapshot import Board
from leaderboard.snapshot.data import Cost, Costs
from leaderboard.stats import bend, front
from leaderboard.tasks import items
from leaderboard.templatetags.figures import about_points, span_of_days, two_figures
from leaderboard.web.plotly_script import MAP_STYLE_ID, SCRIPT
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.pages import csv_rows, download, get, json_file
from tests.leaderboard.rows import once_per_module

BOARD = synthetic_board(120, 4, uncounted=1)


def expected(values: np.ndarray) -> dict[str, float]:
    """By name the value of each model that stands on the chart."""
    return {
        model.repo_id: float(value)
        for model, value in zip(BOARD.models, values, strict=True)
        if np.isfinite(value) and not model.flagged
    }


@once_per_module
def charted() -> dict[str, Suite]:
    """The suites of three boards, by name."""
    suites = {
        board.suite: make.make_suite(board.suite, benchmarks=())
        for board in (BOARD, WITH_COSTS, SIX)
    }
    for board in (BOARD, WITH_COSTS, SIX):
        publish(board, suites[board.suite])
    return suites


@pytest.fixture(autouse=True)
def suite(charted: dict[str, Suite], db: None, settings: Any) -> Suite:
    """The board of four columns is the site's unless a test has another."""
    settings.PLUMBLINE_SUITE = BOARD.suite
    return charted[BOARD.suite]


@pytest.fixture
def costly(charted: dict[str, Suite], db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = WITH_COSTS.suite


@pytest.fixture
def six(charted: dict[str, Suite], db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = SIX.suite


@pytest.fixture
def site(db: None, settings: Any) -> Suite:
    """A suite of which no board was built."""
    settings.PLUMBLINE_SUITE = "unbuilt"
    return make.make_suite("unbuilt", benchmarks=())


def numbers(values: Any) -> list[float]:
    """An array of a figure, which plotly writes as its bytes."""
    if isinstance(values, dict):
        values = np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).tolist()
    return list(values)


def dots(figure: dict[str, Any]) -> Iterator[tuple[list[list[str]], float, float, dict[str, Any]]]:
    """The card of every dot, where it stands, and its trace."""
    for trace in figure["data"]:
        if trace["mode"] == "markers":
            places = zip(numbers(trace["x"]), numbers(trace["y"]), strict=True)
            for card, (x, y) in zip(trace["customdata"], places, strict=bool(trace["customdata"])):
                yield card, x, y, trace


def heights(figure: dict[str, Any]) -> dict[str, float]:
    """By name the height of each model."""
    return {card[0][0]: y for card, _, y, _ in dots(figure)}


def line_of(figure: dict[str, Any]) -> list[tuple[float, float]]:
    (line,) = (trace for trace in figure["data"] if trace["mode"] == "lines")
    return list(zip(numbers(line["x"]), numbers(line["y"]), strict=True))


def rows_of(html: str) -> list[list[str]]:
    """The text of each cell of the table, without what stands beneath it."""
    table = html[html.index("<tbody>") : html.index("</tbody>")]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in rows)
    return [[re.sub(r"<span class=.iv.>.*|<[^>]+>", "", cell) for cell in row] for row in cells]


def title_of(html: str) -> str:
    (title,) = re.findall(r"<h1>(.*?)</h1>", html)
    return title


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


WITH_COSTS = replace(with_costs(FEW), suite="costs")
SIX = replace(synthetic_board(120, 6, uncounted=1), suite="six")


def correlations(board: Board) -> dict[frozenset[str], tuple[float, int]]:
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


def test_every_model_with_a_score_is_a_dot_a_row_and_a_line_of_the_files(client: Client) -> None:
    html, figure = get(client, "/charts"), json_file(client, "/charts-by-size.plotly.json")
    values = expected(BOARD.average.value)
    drawn = {card[0][0]: (card, x, y) for card, x, y, _ in dots(figure)}
    assert drawn.keys() == values.keys()
    for name, value in values.items():
        card, x, y = drawn[name]
        assert y == pytest.approx(100 * value, abs=0.006)
        assert card[1][0] == f"{100 * value:.1f}"
        assert card[0][2] == f"/models/{name}"
        (model,) = (one for one in BOARD.models if one.repo_id == name)
        assert x == pytest.approx(model.parameters / 1e9)
    measured = int(np.isfinite(BOARD.average.value).sum())
    assert f"Left out: {measured - len(values)} models" in html
    pages = [get(client, f"/charts?page={page}" if page > 1 else "/charts") for page in (1, 2, 3)]
    rows = [rows_of(page) for page in pages]
    assert [len(of_page) for of_page in rows[:2]] == [50, 50]
    assert sorted(row[0] for of_page in rows for row in of_page) == sorted(values)
    lines = csv_rows(client, "/charts-by-size.csv")
    assert {line["model"]: float(line["value"]) for line in lines} == values
    assert lines[0]["address"] == f"http://testserver/charts?suite=synthetic%40{BOARD.version}"
    models = json_file(client, "/charts-by-size.json")
    assert {row["model"]: row["value"] for row in models["models"]} == values
    assert models["about"]["left_out"] > 0
    best = [(x, y) for _, x, y, trace in dots(figure) if trace["marker"]["size"] > 10]
    assert len(best) == sum(row["on_front"] for row in models["models"]) > 0
    assert sorted(line_of(figure)[:-1]) == sorted(best)


def test_a_column_can_be_drawn_but_no_perplexity_and_stays_chosen_on_another_tab(
    client: Client,
) -> None:
    figure = json_file(client, "/charts-by-size.plotly.json?score=bench_01")
    assert heights(figure).keys() == expected(BOARD.scores.value[:, 1]).keys()
    html = get(client, "/charts?score=bench_01")
    assert "Bench 1, MMLU-style against size" in html
    assert 'value="bench_03"' not in html
    response = client.get("/charts?score=bench_03")
    assert (response.status_code, response["Location"]) == (302, "/charts")
    html = get(client, "/charts?score=bench_01&against=time")
    assert '<a href="/charts?score=bench_01">Size' in html
    assert '<input type="hidden" name="against" value="time">' in html
    assert 'href="/charts-by-time.csv?score=bench_01"' in html
    assert client.get("/charts?against=joules")["Location"] == "/charts"


def test_the_boards_filters_leave_out_models_and_go_along_to_other_tabs(client: Client) -> None:
    kept = {m.repo_id for m in BOARD.models if m.kind == "chat"} & expected(
        BOARD.average.value
    ).keys()
    figure = json_file(client, "/charts-by-size.plotly.json?type=chat")
    assert heights(figure).keys() == kept
    html = get(client, "/charts?type=chat")
    assert f"{len(kept)} of 120" in html
    assert '<a class="chip" href="/charts">Type: Chat' in html
    assert 'href="/charts-agreement?type=chat"' in html
    assert {line["model"] for line in csv_rows(client, "/charts-by-size.csv?type=chat")} == kept
    assert "These filters leave too few models" in get(client, "/charts?q=nobody")
    assert client.get("/charts-by-size.csv?size=9-1").status_code == 400
    assert client.get("/charts-by-size.plotly.json?q=nobody").status_code == 404


def test_shapes_are_by_type_or_by_family_and_all_models_have_one(client: Client) -> None:
    values = expected(BOARD.average.value)
    of_kind = {m.repo_id: m.kind for m in BOARD.models}
    shapes = {"pretrained": "square", "chat": "circle", "fine-tuned": "triangle-up",
              "merge": "diamond", "": "circle-open"}  # fmt: skip
    for card, _, _, trace in dots(json_file(client, "/charts-by-size.plotly.json")):
        assert trace["marker"]["symbol"] == shapes[of_kind[card[0][0]]]
    html = get(client, "/charts?legend=family")
    counts = re.findall(r'<span class="nm">([^<]*)</span><span>(\d+)</span>', html)
    assert sum(int(count) for _, count in counts) == len(values)
    figure = json_file(client, "/charts-by-size.plotly.json?legend=family")
    by_group: dict[str, set[str]] = {}
    lines = {line["model"]: line["family"] for line in csv_rows(client, "/charts-by-size.csv")}
    for card, _, _, trace in dots(figure):
        by_group.setdefault(trace["legendgroup"], set()).add(lines[card[0][0]])
    named = [families for families in by_group.values() if len(families) == 1]
    assert len(named) >= len(by_group) - 1


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1"),
        ("Qwen/Qwen2.5-0.5B", "Qwen2.5"),
        ("EleutherAI/pythia-410m-deduped", "pythia"),
        ("lab/Areadan-2-MoE-400B", "Areadan-2"),
        ("openai-community/gpt2", "gpt2"),
        ("lab/7B", "7B"),
    ],
)
def test_a_family_is_what_stands_before_the_size(name: str, family: str) -> None:
    assert family_of(name) == family


def test_names_are_texts_and_a_hostile_one_is_no_markup(client: Client, suite: Suite) -> None:
    """plotly reads tags in texts: an element in bold would break the content policy."""
    hostile = "lab/<b>'&amp;\"x=1"
    best = max(expected(BOARD.average.value).items(), key=lambda model: model[1])[0]
    models = [
        replace(model, repo_id=hostile) if model.repo_id == best else model
        for model in BOARD.models
    ]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(models), built=later), suite)
    figure = json_file(client, "/charts-by-size.plotly.json")
    texts = [name["text"] for name in figure["layout"]["annotations"]]
    assert "&lt;b&gt;'&amp;amp;\"x=1" in texts
    assert not any("<" in text for text in texts)
    assert hostile in heights(figure)
    assert "<b>'" not in get(client, "/charts")


def test_through_time_the_line_is_the_best_score_until_then(client: Client) -> None:
    values = expected(BOARD.average.value)
    figure = json_file(client, "/charts-by-time.plotly.json")
    stood = {card[0][0]: (x, card[2][0]) for card, x, _, _ in dots(figure)}
    known = {model.repo_id for model in BOARD.models if model.released}
    assert values.keys() - known
    assert stood.keys() == values.keys() & known
    best, records = -1.0, set()
    ordered = sorted((m.released, -values[m.repo_id], m.repo_id) for m in BOARD.models
                     if m.repo_id in stood)  # fmt: skip
    for released, negative, name in ordered:
        assert stood[name] == (released.timestamp() * 1000, f"{released:%-d %b %Y}")
        if -negative > best:
            best = -negative
            records.add(name)
    lines = {line["model"]: line for line in csv_rows(client, "/charts-by-time.csv")}
    assert {name for name, line in lines.items() if line["on_front"] == "true"} == records
    html = get(client, "/charts?against=time")
    assert "on which its repository was made on the Hub" in html, "what a day is"
    assert client.get("/charts?against=luck")["Location"] == "/charts"


def test_without_release_dates_a_model_stands_at_its_first_submission_superseded_ones_too(
    client: Client, suite: Suite
) -> None:
    first = BOARD.models[0]
    older = [replace(first, superseded_by="f" * 40), *BOARD.models[1:]]
    older = [replace(model, released=None) for model in older]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(older), built=later), suite)
    assert first.repo_id not in heights(json_file(client, "/charts-by-size.plotly.json"))
    by_time = dots(json_file(client, "/charts-by-time.plotly.json"))
    stood = {card[0][0]: x for card, x, _, _ in by_time}
    assert stood[first.repo_id] == first.added.timestamp() * 1000
    assert "the day of its first submission here" in get(client, "/charts?against=time")


def test_before_the_first_board_and_where_too_little_is_measured_the_pages_say_so(
    client: Client, site: Suite
) -> None:
    for page in ("/charts", "/charts-agreement"):
        assert "The first board is built" in get(client, page)
        assert client.get(f"{page}?suite=nowhere").status_code == 404
    for page in ("/charts-by-size", "/charts-agreement"):
        for ending in ("plotly.json", "csv"):
            assert client.get(f"{page}.{ending}").status_code == 404
    for day, (models, columns) in enumerate(((9, 4), (30, 1))):
        small = synthetic_board(models, columns)
        publish(replace(small, built=small.built + timedelta(days=day)), site)
        html = get(client, "/charts-agreement")
        assert "Too few models" in html
        assert title_of(html) == "Which benchmarks put models in a like order?"
        assert client.get("/charts-agreement.csv").status_code == 404


def test_pictures_of_axes_are_drawn_on_their_pages_where_their_old_addresses_lead(
    client: Client,
) -> None:
    assert client.get("/charts-by-size.svg")["Location"] == "/charts"
    address = client.get("/charts-by-tokens.svg?score=bench_01")["Location"]
    assert address == "/charts?score=bench_01&against=tokens"
    assert client.get("/charts-spread.svg")["Location"] == "/charts-spread"


def test_the_agreement_is_a_file_with_colours_of_its_own(client: Client) -> None:
    response = client.get("/charts-agreement.svg")
    assert response["Content-Type"] == "image/svg+xml"
    picture = ElementTree.fromstring(response.content)
    fields = picture.findall(".//{*}g/{*}rect")
    assert len(fields) == 6
    assert all(re.fullmatch("#[0-9a-f]{6}", field.attrib["fill"]) for field in fields)
    assert "style" not in response.content.decode()


# What is said of a line


def test_the_finding_is_what_four_times_as_much_buys_beyond_the_bend(
    client: Client, site: Suite
) -> None:
    """Twenty points a fourfold up to 4B, then two; of a few models no such rule is stated."""
    best = {0.25: 0.3, 1: 0.5, 4: 0.7, 16: 0.72, 64: 0.74}
    few = of_scores(best)
    publish(few, site)
    assert title_of(get(client, "/charts")) == "The best goes from 70.0 at 4B to 74.0 at 64B"
    board = of_scores(best | {65 + more: 0.1 for more in range(5)})
    publish(replace(board, built=few.built + timedelta(days=1)), site)
    html = get(client, "/charts")
    assert title_of(html) == "Above 4B, four times the parameters buy about two points"
    assert "The best goes from 70.0 at 4B to 74.0 at 64B." in html


def test_nothing_is_said_of_what_may_be_chance_or_of_sizes_too_near(
    client: Client, site: Suite
) -> None:
    for day, scores in enumerate(
        ({1: 0.7, 64: 0.701}, {1: 0.3, 2: 0.9}, {1: 0.5}, {8: 0.9, 64: 0.2})
    ):
        board = of_scores(scores)
        publish(replace(board, built=board.built + timedelta(days=day)), site)
        assert title_of(get(client, "/charts")) == "What do more parameters buy?", scores


def of_scores(scores: dict[float, float]) -> Board:
    """A board of models with these averages by billions of parameters, each ± 1 point."""
    board = synthetic_board(len(scores), 1)
    order = sorted(scores.items(), key=lambda one: -one[1])
    value = np.array([score for _, score in order])
    average = type(board.average)(value, value - 0.01, value + 0.01)
    models = [
        replace(board.models[row], parameters=int(size * 1e9), flag_reason="", superseded_by="")
        for row, (size, _) in enumerate(order)
    ]
    return replace(board, models=type(board.models).of(models), average=average)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_a_model_is_on_the_front_exactly_where_none_dominates_it(
    models: list[tuple[int, int]],
) -> None:
    models.sort(key=lambda one: (one[0], -one[1]))
    size, value = np.array(models, np.float64).T
    for (s, v), on_front in zip(models, front(size, value), strict=True):
        dominated = any((s2 <= s and v2 >= v) and (s2, v2) != (s, v) for s2, v2 in models)
        assert on_front == (not dominated)


def test_a_line_bends_where_it_is_farthest_above_the_chord_of_its_ends() -> None:
    assert bend(np.array([0.0, 1, 2, 3, 4]), np.array([0.0, 5, 10, 11, 12])) == 2
    assert bend(np.array([0.0, 3, 3.5]), np.array([0.0, 9, 9.5])) == 0, "a step must be left"


@pytest.mark.parametrize(
    ("points", "words"),
    [(0.001, "less than a point"), (0.009, "about one point"), (0.026, "about three points"),
     (0.31, "about 31 points")],
)  # fmt: skip
def test_points_and_days_are_said_in_words(points: float, words: str) -> None:
    assert about_points(points) == words
    assert [span_of_days(days) for days in (1, 41, 270, 1100)] == [
        *("a day", "41 days", "9 months", "3 years")
    ]


@given(st.floats(1e-4, 1e7))
def test_a_cost_is_said_to_two_figures(number: float) -> None:
    assert float(two_figures(number).replace(",", "")) == pytest.approx(number, rel=0.051)


def test_the_script_that_is_served_is_the_packages_and_its_maps_find_their_element(
    client: Client,
) -> None:
    """A release of plotly with another ID, or with a look-up of its own, has to be tried under the
    content policy first: see docs/decisions/0088."""
    found = finders.find(SCRIPT)
    assert found
    with open(found, encoding="utf-8") as file:  # noqa: PTH123
        script = file.read()
    looked_for = re.findall(r'document\.getElementById\("([0-9a-f]{64})"\)', script)
    assert looked_for == [MAP_STYLE_ID]
    assert '.matches(".no-inline-styles")' in script
    assert '"plotly.js-style-"' in script
    html = get(client, "/charts")
    assert f'<meta id="{MAP_STYLE_ID}">' in html
    sheet = html.index('id="plotly.js-style-global" class="no-inline-styles"')
    assert sheet < html.index("plotly.min") < html.index("charts.js")
    assert "plotly" not in get(client, "/method").partition("</head>")[0]


# Cost


def by_cost(axis: str, score: str = AVERAGE, machine: str = "") -> dict[str, dict[str, Any]]:
    """By name each model that stands on a chart of WITH_COSTS, as its file says."""
    everyone = np.ones(len(WITH_COSTS.models), np.bool_)
    keys = column_keys(WITH_COSTS)
    column = keys.index(score) if score in keys else None
    front = Front.of(WITH_COSTS, axis, column, everyone, machine)
    chart = against(front, scores_of(WITH_COSTS, keys), score, "type")
    return {row["model"]: row for batch in chart.batches() for row in batch.to_pylist()}


ROWS = {model.repo_id: row for row, model in enumerate(synthetic_board(60, 3).models)}


def test_the_cost_of_an_average_is_of_all_questions_together() -> None:
    """Counted again, one model and one column at a time."""
    tokens = by_cost("tokens")
    assert len(tokens) > 30
    assert WITH_COSTS.costs
    for name, line in tokens.items():
        spent = asked = 0.0
        for column in range(3):
            n = int(WITH_COSTS.n[ROWS[name], column])
            spent += float(WITH_COSTS.costs.of[ROWS[name], column, 0]) * n
            asked += n
        assert line["tokens"] == pytest.approx(spent / asked)


def test_models_on_another_kind_of_machine_are_never_on_the_same_chart() -> None:
    usual = {ROWS[name] for name in by_cost("seconds")}
    assert {row % 3 for row in usual} == {1, 2}
    assert 4 not in usual, "its columns were measured on both"
    assert all(row % 10 != 9 for row in usual), "one of its columns was not timed"
    assert {ROWS[name] % 3 for name in by_cost("seconds", machine="1 x B")} == {0}
    one = by_cost("seconds", column_keys(WITH_COSTS)[1])
    assert 4 in {ROWS[name] for name in one}, "this column is from one machine"


def test_the_page_names_the_machine_and_offers_the_others(client: Client, costly: None) -> None:
    html = get(client, "/charts?against=seconds")
    assert "All were timed on one kind of machine: 1 x A." in html
    assert 'name="on"' in html
    figures = [json_file(client, f"/charts-by-seconds.plotly.json{on}") for on in ("", "?on=1+x+B")]
    assert not heights(figures[0]).keys() & heights(figures[1]).keys()
    other = get(client, "/charts?against=seconds&on=1+x+B")
    assert 'href="/charts-by-seconds.csv?on=1+x+B"' in other
    response = client.get("/charts?against=seconds&on=1+x+A")
    assert response["Location"] == "/charts?against=seconds", "the usual one need not be named"
    assert client.get("/charts?against=seconds&on=9+x+Z")["Location"] == "/charts?against=seconds"
    tokens = get(client, "/charts?against=tokens&on=1+x+B")
    assert "All were timed" not in tokens, "tokens are of no machine"


@pytest.mark.parametrize("measure", ["tokens", "seconds"])
def test_the_files_have_what_is_drawn_in_full(client: Client, costly: None, measure: str) -> None:
    lines = csv_rows(client, f"/charts-by-{measure}.csv")
    stood = {
        card[0][0]: x
        for card, x, _, _ in dots(json_file(client, f"/charts-by-{measure}.plotly.json"))
    }
    assert {line["model"]: float(line[measure]) for line in lines} == stood
    about = json_file(client, f"/charts-by-{measure}.json")["about"]
    assert about.get("machine", "") == ("1 x A" if measure == "seconds" else "")
    assert client.get("/charts-by-joules.csv").status_code == 404, "energy is not drawn"


# Benchmarks that agree


def test_every_pair_of_columns_is_a_field_a_row_and_a_line_of_the_file(
    client: Client, six: None
) -> None:
    lines = csv_rows(client, "/charts-agreement.csv")
    wanted = correlations(SIX)
    assert len(lines) == len(wanted) == 15
    for line in lines:
        rho, models = wanted[frozenset((line["first"], line["second"]))]
        assert float(line["rho"]) == pytest.approx(rho)
        assert int(line["models"]) == models
        assert float(line["low"]) < rho < float(line["high"])
    html = get(client, "/charts-agreement")
    fields = re.findall(r'<g class="heat(\d)"><title>([^<]*)</title>', html)
    assert len(fields) == 15
    rows = [row[1] for row in rows_of(html)]
    assert sorted(rows) == sorted(re.findall(r", (−?\d\.\d\d) \(", " ".join(w for _, w in fields)))
    values = [float(rho.replace("−", "-")) for rho in rows]
    assert values == sorted(values, reverse=True)
    assert title_of(html) == f"Half of all pairs of benchmarks agree at {values[7]:.2f} or more"
    assert "Most alike: Bench" in html
    steps = [int(step) for step, _ in fields]
    assert [steps.count(step) for step in range(1, 6)] == [3] * 5, "a fifth has each colour"


def test_sixty_benchmarks_are_fields_side_by_side_and_their_pairs_on_pages(
    client: Client, site: Suite
) -> None:
    publish(synthetic_board(60, 60), site)
    html = get(client, "/charts-agreement")
    places = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', html)
    assert len(set(places)) == 1770
    assert all(float(width) >= 16 for *_, width, _ in places), "numbers above stand apart"
    assert len(rows_of(html)) == 50
    assert len(html) < 700_000


def test_of_very_many_models_a_thousand_are_drawn_and_the_page_says_so(
    client: Client, site: Suite
) -> None:
    board = synthetic_board(1300, 3)
    publish(board, site)
    all_of = len(board.comparable_rows)
    assert f"Of {all_of:,} models 1,000 were drawn" in get(client, "/charts-agreement")
    about = json_file(client, "/charts-agreement.json")["about"]
    assert (about["models_drawn"], about["of"]) == (1000, all_of)


# Charts of answers: questions as dots, and scores of one benchmark over prompts and draws


MODELS, N = 12, 40


@once_per_module
def analysed() -> Suite:
    """Twelve models of rising skill on one benchmark in two styles, and what its questions tell."""
    suite = make.make_suite(benchmarks=("facts",), styles=("mmlu", "cloze"))
    for number in range(MODELS):
        skill = 0.2 + 0.06 * number
        make.evaluated(f"lab/m{number}", suite, {"mmlu": skill, "cloze": skill}, n=N)
    make.publish(suite)
    for key in suite.entries.values_list("comparability_key", flat=True):
        items.analyse(key, "now")
    return suite


@pytest.fixture
def asked(analysed: Suite, db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return analysed


def counted(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Difficulty and item-rest correlation, question by question, by scipy."""
    results = Result.objects.filter(task_name=task, metric="acc", subset="")
    found = vectors.matrix(list(results.values_list("pk", flat=True)))
    scores = found.scores.astype(float)
    rest = scores.sum(axis=1, keepdims=True) - scores
    correlation = [
        pearsonr(scores[:, item], rest[:, item]).statistic if np.ptp(scores[:, item]) else np.nan
        for item in range(N)
    ]
    return scores.mean(axis=0), np.array(correlation)


def table(n: int, seed: int = 0) -> items.Table:
    draw = np.random.default_rng(seed)
    discrimination = draw.normal(0.2, 0.2, n).clip(-1, 1).astype(np.float32)
    return items.Table(
        tasks=("t",),
        task=np.zeros(n, np.int32),
        doc_id=np.arange(n, dtype=np.int32),
        parts=("t",),
        part=np.zeros(n, np.int32),
        row=SimpleNamespace(models_n=50, comparability_key="key", built=None),  # type: ignore[arg-type]
        difficulty=draw.random(n).astype(np.float32),
        discrimination=discrimination,
        defined=draw.random(n) < 0.95,
        suspicious=discrimination < -0.3,
        agreements=(),
        results=None,
    )


SKILLS = {"lab/even": (0.6, 0.6), "lab/letters": (0.2, 0.9), "lab/texts": (0.9, 0.3)}


@once_per_module
def drawn() -> Suite:
    """Three models on two benchmarks in two styles, the second of which is drawn three times."""
    suite = make.make_suite("drawn", benchmarks=("riddles", "songs"), styles=("cloze", "mmlu"))
    for entry in suite.entries.filter(style="mmlu"):
        for draw in (1, 2):
            _drawn_again(entry, draw)
    for repo_id, (cloze, mmlu) in SKILLS.items():
        variant = make.make_variant(repo_id)
        for number, entry in enumerate(suite.entries.order_by("position", "draw")):
            skill = cloze if entry.style == "cloze" else mmlu
            make.finish(
                make.queued_run(variant, entry),
                skill=skill,
                seed=make.hash_of(repo_id) + number,
                n=40,
            )
    make.publish(suite)
    return suite


@pytest.fixture
def drawn_suite(drawn: Suite, db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "drawn"
    return drawn


def _drawn_again(entry: SuiteEntry, draw: int) -> None:
    own = SuiteEntry.objects.get(pk=entry.pk)
    own.pk, own.draw, own.fewshot_seed = None, draw, draw
    own.position += 10 * draw
    own.run_key = f"{own.task.name}/{draw}"
    own.save()


def stored(repo_id: str, task: str) -> list[float]:
    """What each draw scored, as the runs themselves say."""
    results = Result.objects.filter(
        run__variant__hub_model__repo_id=repo_id, task_name=task, metric="acc", subset=""
    )
    return sorted(results.values_list("value", flat=True))


def test_every_question_is_a_dot_a_line_of_the_files_and_a_row_that_leads_to_it(
    client: Client, asked: Suite
) -> None:
    difficulty, correlation = counted("facts_mmlu")
    lines = csv_rows(client, "/charts-questions.csv?task=facts_mmlu")
    assert [int(line["doc_id"]) for line in lines] == list(range(N))
    assert [float(line["difficulty"]) for line in lines] == pytest.approx(difficulty.tolist())
    for line, expected in zip(lines, correlation.tolist(), strict=True):
        if np.isnan(expected):
            assert line["discrimination"] == ""
        else:
            assert float(line["discrimination"]) == pytest.approx(expected, abs=1e-6)
    assert json_file(client, "/charts-questions.json?task=facts_mmlu")["about"]["models"] == MODELS
    assert download(client, "/charts-questions.parquet").startswith(b"PAR1")
    html = get(client, "/charts-questions")
    assert "Facts, MMLU-style" in html, "the first benchmark need not be named"
    hard = int((difficulty < 0.5).sum())
    assert title_of(html) == f"Most models miss {hard} of the {N} questions of Facts"
    figure = json_file(client, "/charts-questions.plotly.json")
    drawn = {int(card[0][2].split("=")[1].partition("#")[0]): (card, x, y)
             for card, x, y, _ in dots(figure)}  # fmt: skip
    assert sorted(drawn) == np.flatnonzero(~np.isnan(correlation)).tolist()
    for place, (_, x, y) in drawn.items():
        assert x == pytest.approx(correlation[place], abs=6e-4)
        assert y == pytest.approx(100 * difficulty[place], abs=6e-3)
    number, (card, *_) = next(iter(drawn.items()))
    question = get(client, card[0][2].partition("#")[0])
    assert f"Which tool number {number} hangs" in question


def test_the_table_has_every_question_the_lowest_discrimination_first(
    client: Client, asked: Suite
) -> None:
    assert client.get("/charts-questions?task=nothing")["Location"] == "/charts-questions"
    html = get(client, "/charts-questions?task=facts")
    rows = [int(place) for place in re.findall(r'href="[^"]*doc=(\d+)#', html)]
    assert sorted(rows) == list(range(N))
    _, correlation = counted("facts")
    ordered = correlation[rows]
    known = ordered[~np.isnan(ordered)]
    assert np.all(np.diff(known) >= -1e-6)
    assert np.isnan(ordered[len(known) :]).all()
    assert '<option value="facts" selected>' in html


def test_before_anything_was_measured_the_pages_say_what_they_will_show(
    client: Client, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "empty"
    empty = make.make_suite("empty", benchmarks=("letters",), styles=("cloze",))
    assert "when ten models have been measured on it" in get(client, "/charts-questions")
    assert "The first board is built" in get(client, "/charts-spread")
    for page in ("questions", "spread"):
        assert client.get(f"/charts-{page}?suite=nowhere").status_code == 404
        for form in ("plotly.json", "csv"):
            assert client.get(f"/charts-{page}.{form}").status_code == 404
    waiting = make.make_submission(make.make_variant("lab/waits"), empty)
    make.publish(empty)
    assert "No model stands on this chart yet." in get(client, "/charts-spread")
    make.finish(waiting.runs.get())
    make.publish(empty)
    html = get(client, "/charts-spread")
    assert title_of(html) == "How much does a score depend on the prompt?", "in one style alone"
    assert len(list(dots(json_file(client, "/charts-spread.plotly.json")))) == 1


def test_of_many_questions_all_likely_wrong_keys_are_drawn_and_the_picture_stays_small() -> None:
    found = table(14_000)
    entry: Any = SimpleNamespace(
        task=SimpleNamespace(name="t", version="1", titled=str), title="T", benchmark="t"
    )
    chart = questions(entry, {"t": "T"}, found, None)
    assert chart.figure
    figure = chart.figure(slice(None)).to_plotly_json()
    drawn = list(dots(figure))
    assert len(drawn) == MOST_DOTS == chart.notes["drawn"]
    assert len({card[0][0] for card, *_ in drawn}) == MOST_DOTS
    wrong = int((found.suspicious & found.defined).sum())
    assert sum(trace["legendgroup"] == "1" for *_, trace in drawn) == wrong


def test_the_files_have_every_score_with_its_draws(client: Client, drawn_suite: Suite) -> None:
    for benchmark in ("riddles", "songs"):
        lines = csv_rows(client, f"/charts-spread.csv?benchmark={benchmark}")
        assert {(line["model"], line["style"]) for line in lines} == {
            (model, style) for model in SKILLS for style in ("cloze", "mmlu")
        }
        for line in lines:
            runs = stored(line["model"], line["task"])
            assert float(line["value"]) == pytest.approx(np.mean(runs))
            assert float(line["low"]) < float(line["value"]) < float(line["high"])
            draws = sorted(map(float, line["draws"].split()))
            assert draws == (pytest.approx(runs) if line["style"] == "mmlu" else [])


def test_models_stand_in_the_order_of_their_mean_every_draw_a_ring(
    client: Client, drawn_suite: Suite
) -> None:
    html = get(client, "/charts-spread")
    assert client.get("/charts-spread?benchmark=nothing")["Location"] == "/charts-spread"
    mean, apart = {}, {}
    for model in SKILLS:
        values = [np.mean(stored(model, task)) for task in ("riddles", "riddles_mmlu")]
        mean[model], apart[model] = np.mean(values), max(values) - min(values)
    rows = rows_of(html)
    named = [row[0] for row in rows]
    assert named == sorted(SKILLS, key=lambda model: -mean[model])
    assert [row[-1] for row in rows] == [f"{100 * apart[model]:.1f}" for model in named]
    middle = 100 * np.median(list(apart.values()))
    assert (
        title_of(html) == f"Another prompt moves half of the models by {middle:.1f} points or more"
    )
    assert "rings are single draws of examples, up to 3" in html
    traces = json_file(client, "/charts-spread.plotly.json")["data"]
    cloze, no_rings, mmlu, rings = ([*numbers(trace["x"])] for trace in traces)
    assert (len(cloze), len(no_rings), len(mmlu), len(rings)) == (3, 0, 3, 9)
    for trace, task in ((cloze, "riddles"), (mmlu, "riddles_mmlu")):
        for x, model in zip(trace, named, strict=True):
            assert x == pytest.approx(100 * np.mean(stored(model, task)))
    assert sorted(rings) == pytest.approx(
        sorted(100 * draw for model in SKILLS for draw in stored(model, "riddles_mmlu"))
    )


def test_a_model_that_lacks_a_style_has_a_line_and_is_not_counted(
    client: Client, drawn_suite: Suite
) -> None:
    variant = make.make_variant("lab/half")
    make.finish(
        make.queued_run(variant, drawn_suite.entries.get(benchmark="riddles", style="cloze")), n=40
    )
    make.publish(drawn_suite)
    html = get(client, "/charts-spread")
    assert "of 3 models asked in every style" in html
    assert len(rows_of(html)) == 4
    assert "not measured" in html
