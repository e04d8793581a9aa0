"""The board as its readers see it: order, intervals, missing numbers, address."""

from __future__ import annotations

import re
from math import sqrt
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.board import Standing, build_board
from leaderboard.models import Result, Run, Suite, SuiteEntry
from tests.leaderboard import factories as make

STRONG = {"cloze": 0.9, "mmlu": 0.3, "hybrid": 0.8}
MIDDLE = {"cloze": 0.6, "mmlu": 0.6, "hybrid": 0.6}
WEAK = {"cloze": 0.3, "mmlu": 0.9, "hybrid": 0.4}


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(notice="Scores mean nothing beyond the demo.")


def names(html: str) -> list[str]:
    """Model IDs in the order of the table's rows."""
    found = re.findall(r'<a class="mid" href="/models/([^"]+)"', html)
    return list(found)


def get(client: Client, address: str = "/") -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def test_models_stand_in_the_order_of_their_average(client: Client, suite: Suite) -> None:
    make.evaluated("lab/weak", suite, WEAK)
    make.evaluated("lab/strong", suite, STRONG)
    make.evaluated("lab/middle", suite, MIDDLE)
    assert names(get(client)) == ["lab/strong", "lab/middle", "lab/weak"]


def test_average_is_the_mean_of_the_suites_own_columns_with_the_error_of_fixed_parts(
    suite: Suite,
) -> None:
    variant = make.evaluated("lab/one", suite, MIDDLE)
    (row,) = build_board(suite).ranked
    own = Result.objects.filter(
        run__variant=variant, run__task__style="cloze", metric="acc", subset=""
    )
    values = [r.value for r in own]
    assert len(values) == 2
    assert row.average is not None
    assert row.average.value == pytest.approx(sum(values) / 2)
    half = sqrt(sum((r.high - r.value) ** 2 for r in own)) / 2
    assert row.average.high - row.average.value == pytest.approx(half)


def test_a_model_with_a_benchmark_missing_has_no_average_and_no_rank(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/whole", suite, MIDDLE)
    part = make.make_submission(make.make_variant("lab/part"), suite)
    make.finish(part.runs.get(task__name="facts"), skill=1.0)
    html = get(client)
    assert names(html) == ["lab/whole", "lab/part"]
    unranked = html[html.index("Not ranked") :]
    assert "no average" in unranked
    assert "queued" in unranked
    board = build_board(suite)
    assert [row.rank for row in board.rows] == [1, None]


def test_equal_averages_share_a_rank(suite: Suite) -> None:
    make.evaluated("lab/a", suite, STRONG)
    make.evaluated("lab/b", suite, MIDDLE)
    make.evaluated("lab/c", suite, WEAK)
    Result.objects.filter(metric="acc", subset="", run__variant__hub_model__repo_id="lab/b").update(
        value=0.5, low=0.4, high=0.6
    )
    Result.objects.filter(metric="acc", subset="", run__variant__hub_model__repo_id="lab/c").update(
        value=0.5, low=0.4, high=0.6
    )
    assert [row.rank for row in build_board(suite).ranked] == [1, 2, 2]


def test_a_failed_run_is_shown_as_failed_and_links_to_its_page(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/broken"), suite)
    run = submission.runs.get(task__name="facts")
    make.fail(run, "ModelError", "no vector for token 9")
    assert f'<a href="/runs/{run.pk}">failed</a>' in get(client)


def test_a_result_on_other_questions_is_not_comparable_and_says_why(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/first", suite, MIDDLE, n=40)
    other = make.evaluated("lab/other", suite, STRONG, n=30)
    html = get(client)
    assert "not comparable" in html
    assert "other questions than this column’s (n = 30)" in html
    row = next(row for row in build_board(suite).unranked if row.variant == other)
    assert {cell.standing for cell in row.cells} == {Standing.NOT_COMPARABLE}


def test_a_result_of_an_older_task_version_is_not_comparable_and_says_why(suite: Suite) -> None:
    entry = SuiteEntry.objects.get(suite=suite, benchmark="facts", style="cloze")
    old = make.task_version("facts", "cloze", "0.9")
    run = make.queued_run(make.make_variant("lab/old"), entry, task=old, run_key="f" * 64)
    make.finish(run)
    (row,) = build_board(suite).unranked
    assert row.cells[0].standing is Standing.NOT_COMPARABLE
    assert row.cells[0].why == "task version 0.9, this column is 1.0"


def test_the_style_switch_shows_one_style_only(client: Client, suite: Suite) -> None:
    make.evaluated("lab/strong", suite, STRONG)
    make.evaluated("lab/weak", suite, WEAK)
    assert names(get(client, "/?style=mmlu")) == ["lab/weak", "lab/strong"]
    board = build_board(suite, "mmlu")
    assert {column.entry.style for column in board.columns} == {"mmlu"}


def test_benchmarks_that_lack_the_style_are_named(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",))
    sums = make.task_version("sums", "mmlu")
    SuiteEntry.objects.create(
        suite=suite,
        position=9,
        benchmark="sums",
        title="Sums",
        style="mmlu",
        own=True,
        task=sums,
        shots=0,
        metric="acc",
        run_key="a" * 64,
    )
    html = get(client, "/?style=cloze")
    assert "Not asked in this style" in html


def test_every_score_links_to_its_run_and_has_its_full_value_in_the_title(
    client: Client, suite: Suite
) -> None:
    variant = make.evaluated("lab/one", suite, MIDDLE)
    html = get(client)
    for run in variant.runs.filter(task__style="cloze"):
        result = run.results.get(metric="acc", subset="")
        link = re.search(rf'<a\s+href="/runs/{run.pk}"\s+title="([^"]+)"\s*>([^<]+)</a>', html)
        assert link is not None
        assert repr(result.value) in link[1]
        assert link[2] == f"{100 * result.value:.1f}"


def test_sorting_by_a_column_keeps_the_rank_and_the_unranked_last(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/strong", suite, STRONG)
    make.evaluated("lab/weak", suite, WEAK)
    part = make.make_submission(make.make_variant("lab/part"), suite)
    make.finish(part.runs.get(task__name="facts"), skill=1.0)
    assert names(get(client, "/?sort=-facts")) == ["lab/weak", "lab/strong", "lab/part"]
    assert names(get(client, "/?sort=model"))[:2] == ["lab/strong", "lab/weak"]
    assert 'aria-sort="ascending"' in get(client, "/?sort=-facts")


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("/?style=own&q=&arch=all&precision=all&sort=average&suite=demo", "/"),
        ("/?style=mmlu&q=&page=1", "/?style=mmlu"),
        ("/?style=nonsense", "/"),
        ("/?sort=nonsense", "/"),
        ("/?page=99", "/"),
        ("/?page=-1", "/"),
        ("/?utm_source=x", "/"),
    ],
)
def test_addresses_are_made_short(client: Client, suite: Suite, given: str, short: str) -> None:
    make.make_submission(make.make_variant("lab/one"), suite)
    response = client.get(given)
    assert response.status_code == 302
    assert response["Location"] == short
    assert client.get(short).status_code == 200


def test_search_and_filters_narrow_the_rows_but_not_the_ranks(client: Client, suite: Suite) -> None:
    make.evaluated("lab/strong", suite, STRONG, model_type="gpt2")
    make.evaluated("lab/weak", suite, WEAK, model_type="llama")
    html = get(client, "/?q=WEAK")
    assert names(html) == ["lab/weak"]
    assert "<b>2</b>" in html
    assert names(get(client, "/?arch=gpt2")) == ["lab/strong"]
    assert names(get(client, "/?precision=float32")) == ["lab/strong", "lab/weak"]


def test_a_search_that_finds_nothing_offers_a_way_out(client: Client, suite: Suite) -> None:
    make.evaluated("lab/strong", suite, STRONG, model_type="gpt2")
    html = get(client, "/?q=strong&arch=llama")
    assert "No model matches all 2 filters" in html
    assert "Dropping “llama” would show 1 model" in html


def test_an_empty_board_says_so_and_leads_to_the_form(client: Client, suite: Suite) -> None:
    html = get(client)
    assert "No models yet" in html
    assert 'href="/submit"' in html


def test_a_site_without_its_suite_says_what_its_operator_does(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "missing"
    html = get(client)
    assert "manage.py sync_tasks" in html


def test_an_unknown_suite_is_not_found(client: Client, suite: Suite) -> None:
    assert client.get("/?suite=nothing").status_code == 404


def test_the_suites_notice_stands_on_the_board(client: Client, suite: Suite) -> None:
    assert "Scores mean nothing beyond the demo." in get(client)


def many_models(suite: Suite, numbers: range) -> None:
    """Finished runs as rows only: a board reads no files."""
    entries = list(suite.entries.filter(own=True))
    SuiteEntry.objects.filter(suite=suite).update(comparability_key="k" * 64)
    for number in numbers:
        variant = make.make_variant(f"lab/model-{number:04}")
        runs = [
            Run(
                variant=variant,
                task=entry.task,
                shots=entry.shots,
                run_key=entry.run_key,
                needed_bytes=1,
                state=Run.State.DONE,
            )
            for entry in entries
        ]
        Run.objects.bulk_create(runs)
        Result.objects.bulk_create(
            Result(
                run=run,
                task_name=run.task.name,
                metric="acc",
                filter="none",
                value=0.3 + number / 1000,
                stderr=0.01,
                low=0.28,
                high=0.95,
                n=100,
                higher_is_better=True,
                comparability_key="k" * 64,
            )
            for run in runs
        )


def queries_of(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


@pytest.mark.parametrize("address", ["/", "/queue", "/models/lab/model-0001"])
def test_the_number_of_queries_does_not_grow_with_the_board(
    client: Client, suite: Suite, address: str
) -> None:
    many_models(suite, range(10))
    few = queries_of(client, address)
    many_models(suite, range(10, 300))
    assert queries_of(client, address) == few


def test_the_hundredth_row_stands_on_the_second_page(client: Client, suite: Suite) -> None:
    many_models(suite, range(120))
    first, second = get(client), get(client, "/?page=2")
    assert len(names(first)) == 50
    assert names(second)[-1] == "lab/model-0020"
    assert "Rows 51–100 of 120" in second
    assert 'href="/?page=3"' in second


def test_a_style_that_the_suite_does_not_ask_is_not_offered_and_says_so(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    make.make_suite(styles=("cloze", "mmlu"))
    assert 'value="hybrid"' not in get(client)
    assert "Nothing is asked in this style" in get(client, "/?style=hybrid")
