"""A benchmark over prompts and draws: every score of a model, and how far they lie apart."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import numpy as np
import pytest
from django.test import Client

from leaderboard.models import Result, Suite, SuiteEntry
from tests.leaderboard import factories as make
from tests.leaderboard.charts.test_page import get

SKILLS = {"lab/even": (0.6, 0.6), "lab/letters": (0.2, 0.9), "lab/texts": (0.9, 0.3)}


@pytest.fixture
def empty(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))


@pytest.fixture
def suite(empty: Suite) -> Suite:
    """Three models on two benchmarks in two styles, the second of which is drawn three times."""
    entries = list(empty.entries.order_by("position"))
    for entry in entries:
        if entry.style == "mmlu":
            for draw in (1, 2):
                _drawn_again(entry, draw)
    for repo_id, (cloze, mmlu) in SKILLS.items():
        variant = make.make_variant(repo_id)
        for number, entry in enumerate(empty.entries.order_by("position", "draw")):
            skill = cloze if entry.style == "cloze" else mmlu
            make.finish(
                make.queued_run(variant, entry),
                skill=skill,
                seed=make.hash_of(repo_id) + number,
                n=40,
            )
    make.publish(empty)
    return empty


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


def lines_of(client: Client, query: str = "") -> list[dict[str, str]]:
    text = b"".join(client.get(f"/charts-spread.csv{query}")).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_the_files_have_every_score_with_its_draws(client: Client, suite: Suite) -> None:
    for benchmark in ("facts", "sums"):
        lines = lines_of(client, f"?benchmark={benchmark}")
        assert {(line["model"], line["style"]) for line in lines} == {
            (model, style) for model in SKILLS for style in ("cloze", "mmlu")
        }
        for line in lines:
            runs = stored(line["model"], line["task"])
            assert float(line["value"]) == pytest.approx(np.mean(runs))
            assert float(line["low"]) < float(line["value"]) < float(line["high"])
            draws = sorted(map(float, line["draws"].split()))
            assert draws == (pytest.approx(runs) if line["style"] == "mmlu" else [])


def test_models_stand_in_the_order_of_their_mean_with_what_lies_between(
    client: Client, suite: Suite
) -> None:
    html = get(client, "/charts-spread")
    mean, apart = {}, {}
    for model in SKILLS:
        values = [np.mean(stored(model, task)) for task in ("facts", "facts_mmlu")]
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


def test_every_score_and_draw_is_a_mark_that_says_what_the_table_says(
    client: Client, suite: Suite
) -> None:
    html = get(client, "/charts-spread")
    marks = re.findall(r'<g class="asked (\w+)"[^>]*><title>([^<]*)</title>(.*?)</g>', html)
    assert len(marks) == 6
    for style, told, drawn in marks:
        assert drawn.count("<circle") == (4 if style == "mmlu" else 1)
        assert ("; draws " in told) == (style == "mmlu")
    assert html.count('aria-label="lab/') == 3
    picture = client.get("/charts-spread.svg").content.decode()
    assert 'xmlns="http://www.w3.org/2000/svg"' in picture
    assert picture.count('<g class="asked') == 6


def test_a_benchmark_that_there_is_not_is_the_first_one(client: Client, suite: Suite) -> None:
    response = client.get("/charts-spread?benchmark=nothing")
    assert response.status_code in (301, 302)
    assert response["Location"] == "/charts-spread"


def test_a_model_that_lacks_a_style_has_a_line_and_is_not_counted(
    client: Client, suite: Suite
) -> None:
    variant = make.make_variant("lab/half")
    make.finish(make.queued_run(variant, suite.entries.get(benchmark="facts", style="cloze")), n=40)
    make.publish(suite)
    html = get(client, "/charts-spread")
    assert "over the\n          3 models with every style" in html
    assert html.count('<th role="rowheader" scope="row" class="chartname">') == 4
    assert "not measured" in html


def test_one_style_alone_has_nothing_between(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze",))
    make.evaluated("lab/one", suite, {"cloze": 0.7})
    make.publish(suite)
    html = get(client, "/charts-spread")
    assert "This benchmark is asked in one style alone." in html
    assert html.count('<g class="asked') == 1


def test_before_there_is_a_score_the_page_says_so(client: Client, empty: Suite) -> None:
    assert "The first board is built" in get(client, "/charts-spread")
    assert client.get("/charts-spread.svg").status_code == 404
    assert client.get("/charts-spread.csv").status_code == 404
    make.make_submission(make.make_variant("lab/waits"), empty)
    make.publish(empty)
    assert "No model has a score on this benchmark yet." in get(client, "/charts-spread")
    assert client.get("/charts-spread?suite=nowhere").status_code == 404
