"""The pages of charts: what is drawn is what the board says, and stands beneath as a table."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from leaderboard.board import column_keys
from leaderboard.charts.agreement import agreement
from leaderboard.charts.axes import AXES
from leaderboard.charts.chart import AVERAGE, chart
from leaderboard.charts.drawing import STANDING_OUT
from leaderboard.charts.heat_map import heat_map
from leaderboard.charts.questions import Questions
from leaderboard.charts.questions_drawing import ALONE, STOPS, picture
from leaderboard.charts.questions_drawing import STANDING_OUT as DOTS_OF_MANY
from leaderboard.models import Result, Suite, SuiteEntry
from leaderboard.models.task import is_share
from leaderboard.samples import vectors
from leaderboard.snapshot import Board, Cost, Costs
from leaderboard.tasks import items
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


def told(html: str) -> dict[str, str]:
    dots = re.findall(r'<a href="/models/[^"]*"[^>]*aria-label="([^:]*): ([^"]*)"', html)
    return dict(dots)


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


def test_every_model_with_a_score_is_a_dot_in_the_page_the_table_and_the_files(
    client: Client,
) -> None:
    html = get(client, "/charts")
    dots, values = told(html), expected(BOARD.average.value)
    assert dots.keys() == values.keys()
    for name, value in values.items():
        assert f", {100 * value:.1f} (" in dots[name]
    measured = int(np.isfinite(BOARD.average.value).sum())
    assert f"Left out: {measured - len(values)} models" in html
    pages = [get(client, f"/charts?page={page}" if page > 1 else "/charts") for page in (1, 2, 3)]
    rows = [
        re.findall(
            r'<th role="rowheader" scope="row" class="chartname"><a href="[^"]*">([^<]*)<', page
        )
        for page in pages
    ]
    assert [len(of_page) for of_page in rows[:2]] == [50, 50]
    listed = [name for of_page in rows for name in of_page]
    assert sorted(listed) == sorted(values)
    lines = csv_rows(client, "/charts-by-size.csv")
    assert {line["model"]: float(line["value"]) for line in lines} == values
    figures = json_file(client, "/charts-by-size.json")
    assert {row["model"]: row["value"] for row in figures["models"]} == values
    assert figures["about"]["left_out"] > 0
    best = html.count('class="dot best"')
    assert sum(row["on_front"] for row in figures["models"]) == best > 0
    # Only the models on the line are stops of the tab key.
    links = re.findall(r'<a href="/models/[^"]*"( tabindex="-1")? aria-label', html)
    assert len([link for link in links if not link]) == best


def test_a_column_can_be_drawn_but_no_perplexity_and_stays_chosen_on_another_axis(
    client: Client,
) -> None:
    html = get(client, "/charts?score=bench_01")
    assert told(html).keys() == expected(BOARD.scores.value[:, 1]).keys()
    assert "Bench 1, mmlu" in html
    assert 'value="bench_03"' not in html
    response = client.get("/charts?score=bench_03")
    assert (response.status_code, response["Location"]) == (302, "/charts")
    html = get(client, "/charts?score=bench_01&against=time")
    assert 'href="/charts?score=bench_01">Score against size' in html
    assert '<input type="hidden" name="against" value="time">' in html
    assert 'href="/charts-by-time.csv?score=bench_01"' in html


def test_a_picture_is_a_file_with_colours_of_its_own(client: Client) -> None:
    for name in ("by-size", "agreement"):
        response = client.get(f"/charts-{name}.svg")
        assert response["Content-Type"] == "image/svg+xml"
        text = response.content.decode()
        assert 'xmlns="http://www.w3.org/2000/svg"' in text
        assert "style" not in text
    assert text.count("<rect class") == 6
    assert told(client.get("/charts-by-size.svg").content.decode()) == told(get(client, "/charts"))


def test_names_stand_beside_dots_and_a_hostile_one_is_but_a_text(
    client: Client, suite: Suite
) -> None:
    hostile = "lab/<script>'&amp;\"x=1"
    best = max(expected(BOARD.average.value).items(), key=lambda model: model[1])[0]
    models = [
        replace(model, repo_id=hostile) if model.repo_id == best else model
        for model in BOARD.models
    ]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(models), built=later), suite)
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


def test_through_time_the_line_is_the_best_score_until_then(client: Client) -> None:
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
    lines = {line["model"]: line for line in csv_rows(client, "/charts-by-time.csv")}
    assert {name for name, line in lines.items() if line["on_front"] == "true"} == records
    assert {line["family"] for line in lines.values()} == {""}
    assert 'href="/charts-by-time.svg' in html
    assert told(client.get("/charts-by-time.svg").content.decode()) == told(html)
    assert client.get("/charts?against=luck")["Location"] == "/charts"


def test_a_commit_that_was_superseded_stood_until_then(client: Client, suite: Suite) -> None:
    first = BOARD.models[0]
    older = [replace(first, superseded_by="f" * 40), *BOARD.models[1:]]
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, models=type(BOARD.models).of(older), built=later), suite)
    assert first.repo_id not in told(get(client, "/charts"))
    assert first.repo_id in told(get(client, "/charts?against=time"))


def test_before_the_first_board_and_where_too_little_is_measured_the_pages_say_so(
    client: Client, site: Suite
) -> None:
    assert "Nothing to draw yet" in get(client, "/charts")
    assert "The first board is built" in get(client, "/charts-agreement")
    for page in ("/charts-by-size", "/charts-agreement"):
        for ending in ("svg", "csv"):
            assert client.get(f"{page}.{ending}").status_code == 404
    for page in ("/charts", "/charts-agreement"):
        assert client.get(f"{page}?suite=nowhere").status_code == 404
    for day, (models, columns) in enumerate(((9, 4), (30, 1))):
        small = synthetic_board(models, columns)
        publish(replace(small, built=small.built + timedelta(days=day)), site)
        html = get(client, "/charts-agreement")
        assert "Nothing to draw yet" in html
        assert ("Too few models" in html) == (columns > 1)
        assert client.get("/charts-agreement.csv").status_code == 404


def test_the_cost_of_an_average_is_of_all_questions_together() -> None:
    """Counted again, one model and one column at a time."""
    drawn = chart(WITH_COSTS, AVERAGE, column_keys(WITH_COSTS), AXES["tokens"])
    assert len(drawn.rows) > 30
    for row, across in zip(drawn.rows.tolist(), drawn.across.tolist(), strict=True):
        spent = asked = 0.0
        for column in range(3):
            n = int(WITH_COSTS.n[row, column])
            spent += float(WITH_COSTS.costs.of[row, column, 0]) * n
            asked += n
        assert across == pytest.approx(spent / asked)


def test_models_on_another_kind_of_machine_are_never_on_the_same_chart() -> None:
    keys = column_keys(WITH_COSTS)
    usual = chart(WITH_COSTS, AVERAGE, keys, AXES["seconds"])
    assert usual.machine == "1 x A"
    assert {row % 3 for row in usual.rows.tolist()} == {1, 2}
    assert 4 not in usual.rows.tolist(), "its columns were measured on both"
    assert all(row % 10 != 9 for row in usual.rows.tolist()), "one of its columns was not timed"
    other = chart(WITH_COSTS, AVERAGE, keys, AXES["seconds"], "1 x B")
    assert {row % 3 for row in other.rows.tolist()} == {0}
    assert dict(usual.machines) == {"1 x A": len(usual.rows), "1 x B": len(other.rows)}
    one = chart(WITH_COSTS, keys[1], keys, AXES["seconds"])
    assert 4 in one.rows.tolist(), "this column is from one machine"


def test_the_page_names_the_machine_and_offers_the_others(client: Client, costly: None) -> None:
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
def test_the_files_have_what_is_drawn_in_full(client: Client, costly: None, measure: str) -> None:
    drawn = chart(WITH_COSTS, AVERAGE, column_keys(WITH_COSTS), AXES[measure])
    lines = csv_rows(client, f"/charts-by-{measure}.csv")
    assert [float(line[measure]) for line in lines] == drawn.across.tolist()
    figures = json_file(client, f"/charts-by-{measure}.json")
    assert figures["about"].get("machine", "") == drawn.machine
    assert told(client.get(f"/charts-by-{measure}.svg").content.decode()).keys() == {
        line["model"] for line in lines
    }


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
    fields = re.findall(r'<rect class="heat[^>]*><title>([^<]*)</title>', html)
    assert len(fields) == 15
    rows = re.findall(r'<td role="cell" class="num" data-l="Correlation">(−?[01]\.\d\d)</td>', html)
    assert sorted(rows) == sorted(re.findall(r": (−?\d\.\d\d) \(", " ".join(fields)))
    values = [float(rho.replace("−", "-")) for rho in rows]
    assert values == sorted(values, reverse=True)
    assert "Most alike: Bench" in html


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
    assert drawn.side >= 16, "names of 12 would lie on each other"
    assert 'class="heatmap large"' in html


def test_of_very_many_models_a_thousand_are_drawn_and_the_page_says_so(
    client: Client, site: Suite
) -> None:
    board = synthetic_board(1300, 3)
    publish(board, site)
    found = agreement(board)
    assert (found.drawn, found.of) == (1000, len(board.comparable_rows))
    assert f"Of {found.of:,} models 1,000 were drawn" in get(client, "/charts-agreement")


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
        row=SimpleNamespace(models_n=50),  # type: ignore[arg-type]
        difficulty=draw.random(n).astype(np.float32),
        discrimination=discrimination,
        defined=draw.random(n) < 0.95,
        suspicious=discrimination < -0.3,
        agreements=(),
        results=None,
    )


def drawn_of(found: items.Table) -> Any:
    return picture(Questions(entry=None, columns=(), table=found, run=None), found)


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


def test_every_question_is_a_dot_in_the_files_and_the_table_that_leads_to_it(
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
    picture = client.get("/charts-questions.svg").content.decode()
    assert 'xmlns="http://www.w3.org/2000/svg"' in picture
    html = get(client, "/charts-questions")
    assert "Facts, MMLU-style" in html, "the first benchmark need not be named"
    dots = re.findall(r'<a href="(/runs/[^"]*\?doc=(\d+)#question)"[^>]*aria-label="([^"]*)"', html)
    assert (
        sorted(int(number) for _, number, _ in dots)
        == np.flatnonzero(~np.isnan(correlation)).tolist()
    )
    url, number, told = dots[0]
    assert f"{int(number) + 1}: " in told
    question = get(client, url.replace("&amp;", "&").partition("#")[0])
    assert f"Which tool number {number} hangs" in question
    stops = re.findall(r'<a href="/runs/[^"]*" aria-label', html)
    assert len(stops) == STOPS


def test_the_table_has_every_question_the_lowest_discrimination_first(
    client: Client, asked: Suite
) -> None:
    assert client.get("/charts-questions?task=nothing")["Location"] == "/charts-questions"
    html = get(client, "/charts-questions?task=facts")
    rows = re.findall(r'class="chartname"><a href="[^"]*doc=(\d+)#', html)
    assert sorted(map(int, rows)) == list(range(N))
    _, correlation = counted("facts")
    ordered = correlation[[int(row) for row in rows]]
    known = ordered[~np.isnan(ordered)]
    assert np.all(np.diff(known) >= -1e-6)
    assert np.isnan(ordered[len(known) :]).all()
    assert '<option value="facts" selected>' in html


def test_before_anything_was_measured_the_pages_say_what_they_will_show(
    client: Client, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "empty"
    empty = make.make_suite("empty", benchmarks=("letters",), styles=("cloze",))
    assert "when 10 models have been measured on it" in get(client, "/charts-questions")
    assert "The first board is built" in get(client, "/charts-spread")
    for page in ("questions", "spread"):
        assert client.get(f"/charts-{page}?suite=nowhere").status_code == 404
        for form in ("svg", "csv"):
            assert client.get(f"/charts-{page}.{form}").status_code == 404
    waiting = make.make_submission(make.make_variant("lab/waits"), empty)
    make.publish(empty)
    assert "No model has a score on this benchmark yet." in get(client, "/charts-spread")
    make.finish(waiting.runs.get())
    make.publish(empty)
    html = get(client, "/charts-spread")
    assert "This benchmark is asked in one style alone." in html
    assert html.count('<g class="asked') == 1


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6000), st.integers(0, 100))
def test_every_question_is_drawn_once_and_the_picture_stays_small(n: int, seed: int) -> None:
    found = table(n, seed)
    if not found.defined.any():
        return
    drawn = drawn_of(found)
    assert len(drawn.dots) + sum(field.n for field in drawn.fields) + drawn.alike == n
    assert len(drawn.dots) <= ALONE
    for mark in (*drawn.dots, *drawn.fields):
        assert drawn.left <= mark.x <= drawn.right
        assert drawn.top <= mark.y <= drawn.bottom


def test_of_many_questions_the_likely_wrong_keys_are_dots() -> None:
    found = table(14_000)
    drawn = drawn_of(found)
    wrong = int((found.suspicious & found.defined).sum())
    assert len(drawn.dots) == DOTS_OF_MANY
    assert sum(dot.suspicious for dot in drawn.dots) == min(wrong, DOTS_OF_MANY)
    assert len(drawn.fields) < 1200


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


def test_models_stand_in_the_order_of_their_mean_every_draw_a_mark(
    client: Client, drawn_suite: Suite
) -> None:
    html = get(client, "/charts-spread")
    assert client.get("/charts-spread?benchmark=nothing")["Location"] == "/charts-spread"
    mean, apart = {}, {}
    for model in SKILLS:
        values = [np.mean(stored(model, task)) for task in ("riddles", "riddles_mmlu")]
        mean[model], apart[model] = np.mean(values), max(values) - min(values)
    named = re.findall(
        r'<th role="rowheader" scope="row" class="chartname"><a[^>]*><span class="nm">([^<]*)', html
    )
    assert named == sorted(SKILLS, key=lambda model: -mean[model])
    table = html.partition("The same as a table")[2]
    cells = re.findall(r'<td role="cell" class="num" data-l="Apart">(\d+\.\d)</td>\s*</tr>', table)
    assert cells == [f"{100 * apart[model]:.1f}" for model in named]
    middle = 100 * np.median(list(apart.values()))
    assert f"half of the models change their score by more than {middle:.1f} points" in html
    assert "Examples were drawn up to 3 times" in html
    marks = re.findall(r'<g class="asked (\w+)"[^>]*><title>([^<]*)</title>(.*?)</g>', html)
    assert len(marks) == 6
    for style, told, drawn in marks:
        assert drawn.count("<circle") == (4 if style == "mmlu" else 1)
        assert ("; draws " in told) == (style == "mmlu")
    assert html.count('aria-label="lab/') == 3
    picture = client.get("/charts-spread.svg").content.decode()
    assert 'xmlns="http://www.w3.org/2000/svg"' in picture
    assert picture.count('<g class="asked') == 6


def test_a_model_that_lacks_a_style_has_a_line_and_is_not_counted(
    client: Client, drawn_suite: Suite
) -> None:
    variant = make.make_variant("lab/half")
    make.finish(
        make.queued_run(variant, drawn_suite.entries.get(benchmark="riddles", style="cloze")), n=40
    )
    make.publish(drawn_suite)
    html = get(client, "/charts-spread")
    assert "over the\n          3 models with every style" in html
    assert html.count('<th role="rowheader" scope="row" class="chartname">') == 4
    assert "not measured" in html
