"""What a model's page takes from the board of every style, and what it reads from the tables."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.models import BoardSnapshot, Run, Suite, SuiteEntry
from leaderboard.snapshot import EVERY
from leaderboard.web import kept
from tests.leaderboard import factories as make

SKILL = {"cloze": 0.7, "mmlu": 0.5, "hybrid": 0.6}
NUMBERS = ('FROM "leaderboard_result"', 'FROM "leaderboard_scorevector"')


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"))


def page(model: str) -> tuple[str, str]:
    """Its HTML, and all that the database was asked for it."""
    kept.forget()
    with CaptureQueriesContext(connection) as asked:
        response = Client().get(f"/models/{model}")
    assert response.status_code == 200
    return response.content.decode(), "\n".join(query["sql"] for query in asked)


def page_from_tables(model: str) -> str:
    """The same as if the board of every style had never been built."""
    BoardSnapshot.objects.filter(style=EVERY).delete()
    html, asked = page(model)
    assert all(table in asked for table in NUMBERS)
    return html


def test_what_is_on_the_board_is_not_read_again_and_the_page_is_the_same(suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL)
    make.publish(suite)
    html, asked = page("lab/one")
    assert not any(table in asked for table in NUMBERS)
    assert html.count("on the same questions") == 2
    assert html == page_from_tables("lab/one")


def test_styles_that_the_board_could_not_pair_are_looked_at_again(suite: Suite) -> None:
    make.evaluated("lab/even", suite, dict.fromkeys(SKILL, 1.0))
    make.publish(suite)
    html, asked = page("lab/even")
    assert all(table in asked for table in NUMBERS)
    assert "as independent scores" in html
    assert html == page_from_tables("lab/even")


def test_a_run_that_ended_since_the_board_is_there_at_once(suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    last, *others = submission.runs.order_by("task__name")
    for run in others:
        make.finish(run)
    make.publish(suite)
    assert f'href="/runs/{last.pk}">queued</a>' in page("lab/one")[0]
    make.finish(last)
    html, _ = page("lab/one")
    assert f'href="/runs/{last.pk}">queued</a>' not in html
    assert html == page_from_tables("lab/one")


def test_a_number_in_whose_place_another_run_ended_is_not_taken_from_the_board(
    suite: Suite,
) -> None:
    variant = make.evaluated("lab/one", suite, SKILL)
    make.publish(suite)
    old = Run.objects.filter(variant=variant, task__style="cloze")[0]
    Run.objects.filter(pk=old.pk).update(state=Run.State.CANCELLED)
    entry = SuiteEntry.objects.get(suite=suite, run_key=old.run_key)
    new = make.finish(make.queued_run(variant, entry), make.Answers(skill=0.2, n=40, seed=1))
    html, _ = page("lab/one")
    scores = html[html.index('aria-labelledby="scores"') : html.index('aria-labelledby="runs"')]
    assert f"/runs/{new.pk}" in scores
    assert f"/runs/{old.pk}" not in scores
    assert html == page_from_tables("lab/one")


def test_a_column_that_asks_for_another_number_now_is_read_from_the_tables(suite: Suite) -> None:
    make.evaluated("lab/one", suite, SKILL)
    make.publish(suite)
    before, _ = page("lab/one")
    entry = SuiteEntry.objects.filter(suite=suite).order_by("position")[0]
    SuiteEntry.objects.filter(pk=entry.pk).update(metric="f1")
    html, _ = page("lab/one")
    assert html != before
    assert html == page_from_tables("lab/one")
