"""The questions of a column, judged over all models in the background, and the task's page."""

from __future__ import annotations

import csv
import html as html_module
import re
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from evalcore.stats import kendall_tau, minimum_detectable_difference
from leaderboard.models import HubModel, ItemAnalysis, Result, Run, Suite, SuiteEntry, Variant
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from leaderboard.snapshot import OWN, published
from leaderboard.tasks import items
from tests.leaderboard import factories as make

WRONG_KEY = 7
"""The question that better models get wrong more often."""
N = 40


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))


def an_hour_later() -> None:
    """Every column may be looked at again."""
    items._looked.clear()


@pytest.fixture(autouse=True)
def never_looked_at() -> None:
    an_hour_later()


def column(suite: Suite) -> SuiteEntry:
    return suite.entries.get(task__name="facts")


def measure(suite: Suite, models: int, *, start: int = 0) -> None:
    """Models of rising skill, each with its numbers; the key of one question is wrong."""
    for number in range(start, start + models):
        skill = 0.2 + 0.7 * number / 30
        variant = make.make_variant(f"lab/m{number:02}")
        for entry in suite.entries.filter(own=True):
            make.finish(make.queued_run(variant, entry), skill=skill, n=N, seed=number)
        mark(variant, suite, WRONG_KEY, right=number < (start + models) / 2)


def mark(variant: Variant, suite: Suite, question: int, *, right: bool) -> None:
    """Let the model be right or wrong on one question, in its vector."""
    result = own_result(variant, suite)
    matrix = vectors.matrix([result.pk])
    assert matrix is not None
    scores = matrix.scores[0].astype(np.float64)
    scores[question] = float(right)
    result.vector.values = vectors.pack_values(scores)
    result.vector.save()


def own_result(variant: Variant, suite: Suite) -> Result:
    return Result.objects.get(
        run__variant=variant, run__task=column(suite).task, subset="", metric="acc"
    )


def matrix(suite: Suite) -> Any:
    keys = [own_result(variant, suite).pk for variant in Variant.objects.order_by("pk")]
    found = vectors.matrix(keys)
    assert found is not None
    return found.scores


def table(suite: Suite) -> items.Table:
    found = items.newest(column(suite).comparability_key)
    assert found is not None
    return items.table(found)


def test_difficulty_and_discrimination_are_those_of_the_answers(suite: Suite) -> None:
    measure(suite, 12)
    assert items.analyse_due() == 2
    found, scores = table(suite), matrix(suite)
    assert found.row.models_n == 12
    assert found.difficulty == pytest.approx(scores.mean(axis=0))
    rest = scores.sum(axis=1)[:, None] - scores
    for question in np.flatnonzero(found.defined):
        expected = np.corrcoef(scores[:, question], rest[:, question])[0, 1]
        assert found.discrimination[question] == pytest.approx(expected, abs=1e-5)
    assert found.doc_id.tolist() == list(range(N))


def test_a_question_that_better_models_get_wrong_is_named(suite: Suite) -> None:
    measure(suite, 18)
    items.analyse_due()
    assert WRONG_KEY in np.flatnonzero(table(suite).suspicious)


def test_the_detectable_difference_is_the_usual_one_between_neighbours_in_rank(
    suite: Suite,
) -> None:
    measure(suite, 12)
    items.analyse_due()
    newest_first = matrix(suite)[::-1]
    ordered = newest_first[np.argsort(-newest_first.mean(axis=1), kind="stable")]
    each = [minimum_detectable_difference(one, other) for one, other in pairwise(ordered)]
    assert table(suite).row.detectable == pytest.approx(np.median(each))


def test_fewer_than_ten_models_judge_no_question(client: Client, suite: Suite) -> None:
    measure(suite, 9)
    assert items.analyse_due() == 0
    page = client.get("/tasks/facts").content.decode()
    assert "9 models measured so far; questions are judged from 10 on" in " ".join(page.split())


def test_a_model_counts_once_whatever_its_commits_names_and_flags(suite: Suite) -> None:
    measure(suite, 13)
    make.finish(make.queued_run(make.make_variant("lab/m00", commit="f" * 40), column(suite)), n=N)
    Variant.objects.filter(hub_model__repo_id__in=("lab/m01", "lab/m02")).update(
        weights_digest="d" * 64
    )
    HubModel.objects.filter(repo_id="lab/m03").update(flag_reason="trained on the test")
    items.analyse_due()
    assert table(suite).row.models_n == 11


def test_a_column_is_analysed_again_when_it_has_more_runs_and_has_rested(suite: Suite) -> None:
    measure(suite, 10)
    assert items.analyse_due() == 2
    assert items.analyse_due() == 0
    first = table(suite).row
    measure(suite, 1, start=10)
    assert items.analyse_due() == 0
    an_hour_later()
    assert items.analyse_due() == 2
    assert table(suite).row.models_n == 11
    assert not artifacts.path_of(first.sha256).is_file()
    assert ItemAnalysis.objects.count() == 2


def test_of_very_many_models_some_are_drawn(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MOST", 11)
    measure(suite, 14)
    items.analyse_due()
    assert table(suite).row.models_n == 11


def test_agreement_is_with_the_rest_of_the_suite_and_has_its_interval(suite: Suite) -> None:
    measure(suite, 14)
    published.build(suite, OWN)
    items.analyse_due()
    (found,) = table(suite).agreements
    board = published.newest(suite, OWN)
    assert board is not None
    facts, sums = board.scores.value[:, 0], board.scores.value[:, 1]
    assert found.tau == pytest.approx(kendall_tau(facts, sums))
    assert found.low <= found.tau <= found.high
    assert found.low < found.high
    assert (found.models, found.style) == (14, OWN)


# The task's page


def get(client: Client, address: str = "/tasks/facts") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def text(html: str) -> str:
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", "", html)).split())


def section(html: str, name: str) -> str:
    start = html.index(f'aria-labelledby="{name}"')
    return html[start : html.index("</section>", start)]


def test_the_page_shows_its_first_questions_as_sent_in_each_style(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, {"cloze": 0.7, "mmlu": 0.5})
    run = column(suite).task.runs.get()
    asks = section(get(client), "asks")
    assert f'href="{run.get_absolute_url()}"' in asks
    assert "Which tool number 0 hangs beside" in text(asks)
    assert "Which tool number 2 hangs beside" in text(asks)
    assert "Which tool number 3 hangs beside" not in text(asks)
    beside = asks[: asks.index('class="one-prompt"')]
    assert text(beside).count("Which tool number 0") == 2
    assert "␣A" in text(beside)
    assert 'href="/tasks/facts_mmlu"' in beside


def test_withheld_text_stays_withheld(client: Client, suite: Suite) -> None:
    entry = column(suite)
    run = make.queued_run(make.make_variant("lab/one"), entry)
    withheld = {"doc": '{"doc_digest": "0"}', "prompt": "sha256:00", "choices": []}
    make.finish(run, extra=withheld, n=N)
    asks = section(get(client), "asks")
    assert "Text withheld" in asks
    assert "Which tool" not in asks


def test_a_task_without_files_says_how_to_see_its_prompts(client: Client, suite: Suite) -> None:
    assert "No finished run of it has its file here yet" in get(client)


def test_the_page_tells_what_questions_are_worth(client: Client, suite: Suite) -> None:
    measure(suite, 18)
    published.build(suite, OWN)
    items.analyse_due()
    html = get(client)
    row = table(suite).row
    assert row.detectable is not None
    assert f"where they differ by {100 * row.detectable:.1f} points or more" in text(html)
    worth = section(html, "worth")
    assert "Over 18 models" in text(worth)
    assert 'class="suspect"' in worth
    run = column(suite).task.runs.order_by("-finished")[0]
    assert f'href="{run.get_absolute_url()}?doc={WRONG_KEY}#question"' in worth
    assert f"Which tool number {WRONG_KEY} hangs beside" in text(worth)
    assert "orders models as the rest of Workshop does with Kendall’s τ" in text(html)


def test_the_ends_of_the_column_and_the_way_to_all_of_it(client: Client, suite: Suite) -> None:
    measure(suite, 12)
    HubModel.objects.filter(repo_id="lab/m11").update(flag_reason="trained on the test")
    published.build(suite, OWN)
    board = published.newest(suite, OWN)
    assert board is not None
    place = [one.benchmark for one in board.columns].index("facts")
    names = [model.repo_id for model in board.models]
    best = max((board.scores.value[r, place], n) for r, n in enumerate(names) if n != "lab/m11")[0]
    ends = section(get(client), "standings")
    shown = re.findall(r'title="([0-9.]+), 95% interval', ends)
    assert len(shown) == 10
    assert float(shown[0]) == pytest.approx(best)
    assert [float(number) for number in shown] == sorted(map(float, shown), reverse=True)
    assert "lab/m11" not in ends
    assert 'href="/?sort=facts"' in ends
    assert client.get("/?sort=facts").status_code == 200
    (address,) = re.findall(r'href="(/board.csv[^"]*)"', ends)
    lines = b"".join(client.get(html_module.unescape(address))).decode().splitlines()  # type: ignore[arg-type]
    rows = list(csv.DictReader(lines))
    by_name = {row["model"]: float(row["facts.cloze"]) for row in rows}
    assert by_name.keys() == set(names)
    assert max(v for name, v in by_name.items() if name != "lab/m11") == pytest.approx(best)


def test_every_question_can_be_taken_along(client: Client, suite: Suite) -> None:
    assert client.get("/tasks/facts/questions.parquet").status_code == 404
    measure(suite, 10)
    items.analyse_due()
    response = client.get("/tasks/facts/questions.parquet")
    rows = pq.read_table(BytesIO(b"".join(response))).to_pylist()  # type: ignore[arg-type]
    assert len(rows) == N
    assert {"task", "doc_id", "difficulty", "discrimination", "suspicious"} <= set(rows[0])
    again = client.get(
        "/tasks/facts/questions.parquet", headers={"If-None-Match": response["ETag"]}
    )
    assert again.status_code == 304


def test_the_queries_do_not_grow_with_the_models(client: Client, suite: Suite) -> None:
    asked = []
    for start, models in ((0, 10), (10, 6)):
        measure(suite, models, start=start)
        an_hour_later()
        items.analyse_due()
        published.build(suite, OWN)
        get(client)
        with CaptureQueriesContext(connection) as queries:
            get(client)
        asked.append(len(queries))
    assert Run.objects.count() == 32
    assert asked[0] == asked[1] < 20
