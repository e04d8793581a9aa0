"""Cloze beside MMLU-style: differences, crossings, and what may not be claimed."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest
from django.test import Client

from evalcore.stats import interval
from leaderboard import artifacts
from leaderboard.board import Score
from leaderboard.models import Artifact, Suite, Variant
from leaderboard.style_gap import gap
from leaderboard.style_table import StyleTable, style_tables
from tests.leaderboard import factories as make


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


def table(suite: Suite) -> StyleTable:
    (only,) = style_tables(suite)
    return only


def answers(variant: Variant, task: str) -> list[float]:
    run = variant.runs.get(task__name=task)
    digest = run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256
    rows = pq.read_table(artifacts.path_of(digest)).to_pylist()
    return [row["correct"] for row in sorted(rows, key=lambda row: row["doc_id"])]


def test_the_difference_is_paired_over_the_same_questions(suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.5}, n=60)
    (row,) = table(suite).rows
    pairs = zip(answers(variant, "facts"), answers(variant, "facts_mmlu"), strict=True)
    expected = interval([a - b for a, b in pairs])
    assert row.gap is not None
    assert row.gap.paired
    assert (row.gap.low, row.gap.value, row.gap.high) == pytest.approx(
        (expected.low, expected.value, expected.high)
    )


def test_other_questions_make_the_difference_unpaired_and_wider(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    make.finish(submission.runs.get(task__name="facts"), skill=0.7, n=60)
    make.finish(submission.runs.get(task__name="facts_mmlu"), skill=0.4, n=50)
    (row,) = table(suite).rows
    assert row.gap is not None
    assert not row.gap.paired
    first, second = row.score(0), row.score(1)
    assert first is not None
    assert second is not None
    assert row.gap == gap(first, second, None)
    assert "unpaired" in client.get("/styles").content.decode()


def test_an_average_that_is_no_plain_mean_over_questions_is_not_paired(suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.5})
    digests = [
        variant.runs.get(task__name=task).artifacts.get(kind="samples").sha256
        for task in ("facts", "facts_mmlu")
    ]
    first, second = Score(0.9, 0.8, 1.0, 40), Score(0.1, 0.0, 0.2, 40)
    assert not gap(first, second, (digests[0], digests[1])).paired


def test_a_pair_that_turns_round_beyond_chance_is_named(client: Client, suite: Suite) -> None:
    make.evaluated("lab/texts", suite, {"cloze": 0.9, "mmlu": 0.2, "hybrid": 0.5}, n=100)
    make.evaluated("lab/letters", suite, {"cloze": 0.2, "mmlu": 0.9, "hybrid": 0.5}, n=100)
    (crossing,) = table(suite).crossings()
    assert crossing.clear
    assert crossing.ahead.variant.hub_model.repo_id == "lab/texts"
    html = client.get("/styles").content.decode()
    assert "texts leads in Cloze, letters in MMLU-style." in html
    assert '<g class="up">' in html
    assert '<g class="down">' in html


def test_a_change_of_places_within_the_noise_is_drawn_faint(client: Client, suite: Suite) -> None:
    texts = make.evaluated("lab/texts", suite, {"cloze": 0.5, "mmlu": 0.5, "hybrid": 0.5}, n=40)
    letters = make.evaluated("lab/letters", suite, {"cloze": 0.5, "mmlu": 0.5, "hybrid": 0.5}, n=40)
    for variant, cloze, mmlu in ((texts, 0.52, 0.5), (letters, 0.5, 0.52)):
        for task, value in (("facts", cloze), ("facts_mmlu", mmlu)):
            results = variant.runs.get(task__name=task).results.filter(subset="", metric="acc")
            results.update(value=value, low=value - 0.15, high=value + 0.15, stderr=0.08)
    (crossing,) = table(suite).crossings()
    assert not crossing.clear
    html = client.get("/styles").content.decode()
    assert "0 beyond chance" in html
    assert '<g class="up">' not in html


def test_each_score_has_its_interval_and_leads_to_its_run(client: Client, suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.5})
    html = client.get("/styles").content.decode()
    for run in variant.runs.all():
        assert f'<a href="/runs/{run.pk}"' in html


def test_a_model_measured_in_one_style_says_what_is_missing(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    make.finish(submission.runs.get(task__name="facts"))
    html = client.get("/styles").content.decode()
    assert "one is missing" in html
    assert "queued" in html


def test_the_number_of_questions_stands_once_whatever_is_missing(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    for task in ("facts_mmlu", "facts_hybrid"):
        make.finish(submission.runs.get(task__name=task), n=40)
    html = client.get("/styles").content.decode()
    assert '<td role="cell" class="num" data-l="Questions">40</td>' in html


def test_without_results_the_page_still_explains_the_styles(client: Client, suite: Suite) -> None:
    html = client.get("/styles").content.decode()
    assert "Why you cannot compare across styles" in html
    assert "No order to compare yet" in html


def test_an_unknown_benchmark_leads_to_the_short_address(client: Client, suite: Suite) -> None:
    response = client.get("/styles?benchmark=nothing")
    assert (response.status_code, response["Location"]) == (302, "/styles")
