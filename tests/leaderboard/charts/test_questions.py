"""The questions of a benchmark as dots: every one is drawn and listed once, and leads to itself."""

from __future__ import annotations

import csv
import io
import json
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from scipy.stats import pearsonr

from leaderboard.charts.questions import Questions
from leaderboard.charts.questions_drawing import ALONE, STANDING_OUT, STOPS, picture
from leaderboard.models import Result, Suite
from leaderboard.samples import vectors
from leaderboard.tasks import items
from tests.leaderboard import factories as make
from tests.leaderboard.charts.test_page import get

MODELS, N = 12, 40


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("mmlu", "cloze"))
    for number in range(MODELS):
        skill = 0.2 + 0.06 * number
        make.evaluated(f"lab/m{number}", suite, {"mmlu": skill, "cloze": skill}, n=N)
    make.publish(suite)
    for key in suite.entries.values_list("comparability_key", flat=True):
        items.analyse(key, "now")
    return suite


def counted(task: str) -> tuple[np.ndarray, np.ndarray]:
    """Difficulty and item-rest correlation, question by question, by scipy."""
    results = Result.objects.filter(task_name=task, metric="acc", subset="")
    found = vectors.matrix(list(results.values_list("pk", flat=True)))
    assert found is not None
    scores = found.scores.astype(float)
    rest = scores.sum(axis=1, keepdims=True) - scores
    correlation = [
        pearsonr(scores[:, item], rest[:, item]).statistic if np.ptp(scores[:, item]) else np.nan
        for item in range(N)
    ]
    return scores.mean(axis=0), np.array(correlation)


def test_the_files_say_what_the_answers_say(client: Client, suite: Suite) -> None:
    difficulty, correlation = counted("facts_mmlu")
    text = b"".join(client.get("/charts-questions.csv?task=facts_mmlu")).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [int(line["doc_id"]) for line in lines] == list(range(N))
    assert [float(line["difficulty"]) for line in lines] == pytest.approx(difficulty.tolist())
    for line, expected in zip(lines, correlation.tolist(), strict=True):
        if np.isnan(expected):
            assert line["discrimination"] == ""
        else:
            assert float(line["discrimination"]) == pytest.approx(expected, abs=1e-6)
    about = json.loads(b"".join(client.get("/charts-questions.json?task=facts_mmlu")))["about"]
    assert about["models"] == MODELS
    assert b"".join(client.get("/charts-questions.parquet")).startswith(b"PAR1")


def test_a_dot_leads_to_its_question_and_stands_for_nothing_else(
    client: Client, suite: Suite
) -> None:
    html = get(client, "/charts-questions")
    dots = re.findall(r'<a href="(/runs/[^"]*\?doc=(\d+)#question)"[^>]*aria-label="([^"]*)"', html)
    _, correlation = counted("facts_mmlu")
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
    client: Client, suite: Suite
) -> None:
    html = get(client, "/charts-questions?task=facts")
    rows = re.findall(r'class="chartname"><a href="[^"]*doc=(\d+)#', html)
    assert sorted(map(int, rows)) == list(range(N))
    _, correlation = counted("facts")
    ordered = correlation[[int(row) for row in rows]]
    known = ordered[~np.isnan(ordered)]
    assert np.all(np.diff(known) >= -1e-6)
    assert np.isnan(ordered[len(known) :]).all()
    assert '<option value="facts" selected>' in html


def test_the_first_benchmark_need_not_be_named(client: Client, suite: Suite) -> None:
    assert client.get("/charts-questions?task=nothing")["Location"] == "/charts-questions"
    assert get(client, "/charts-questions").count("Facts, MMLU-style") >= 1
    assert client.get("/charts-questions?suite=nowhere").status_code == 404


def test_the_picture_is_a_file_with_colours_of_its_own(client: Client, suite: Suite) -> None:
    text = client.get("/charts-questions.svg").content.decode()
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "style=" not in text


def test_before_any_analysis_the_page_says_what_it_takes(client: Client, db: None) -> None:
    make.make_suite(benchmarks=("facts",))
    html = get(client, "/charts-questions?suite=demo")
    assert "when 10 models have been measured on it" in html
    for form in ("svg", "csv"):
        assert client.get(f"/charts-questions.{form}?suite=demo").status_code == 404


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


def of(found: items.Table) -> Questions:
    entry: Any = None
    return Questions(entry=entry, columns=(), table=found, run=None)


@hypothesis_settings(deadline=None, max_examples=25)
@given(some.integers(1, 6000), some.integers(0, 100))
def test_every_question_is_drawn_once_and_the_picture_stays_small(n: int, seed: int) -> None:
    found = table(n, seed)
    if not found.defined.any():
        return
    drawn = picture(of(found), found)
    assert len(drawn.dots) + sum(field.n for field in drawn.fields) + drawn.alike == n
    assert len(drawn.dots) <= ALONE
    for mark in (*drawn.dots, *drawn.fields):
        assert drawn.left <= mark.x <= drawn.right
        assert drawn.top <= mark.y <= drawn.bottom


def test_of_many_questions_the_likely_wrong_keys_are_dots() -> None:
    found = table(14_000)
    drawn = picture(of(found), found)
    wrong = int((found.suspicious & found.defined).sum())
    assert len(drawn.dots) == STANDING_OUT
    assert sum(dot.suspicious for dot in drawn.dots) == min(wrong, STANDING_OUT)
    assert len(drawn.fields) < 1200
