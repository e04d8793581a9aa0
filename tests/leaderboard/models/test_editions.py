"""The numbers by which a kept page is known to be true: what moves which, and in which order."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from leaderboard.hub import state as hub_state
from leaderboard.models import Edition, HubModel, Run, Suite, SuiteEntry, TaskVersion, User
from leaderboard.models import edition as editions
from leaderboard.models.edition import SITE
from leaderboard.queue import claims
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite(db: None) -> Suite:
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze",))
    make.make_suite("other", benchmarks=("letters",), styles=("cloze",))
    make.make_submission(make.make_variant("lab/one"), suite)
    return suite


def moved(before: tuple[tuple[int, int, int], ...]) -> set[tuple[str, str]]:
    """Which numbers are others than before: of whom, and data or pages."""
    names = {SITE: "site"} | dict(Suite.objects.values_list("pk", "name"))
    rows = zip(before, editions.now(), strict=True)
    return {
        (names[old[0]], name)
        for old, new in rows
        for at, name in ((1, "data"), (2, "pages"))
        if old[at] != new[at]
    }


DATA = {("demo", "data"), ("other", "data"), ("site", "data")}
PAGES = {("demo", "pages"), ("other", "pages"), ("site", "pages")}


def test_a_run_moves_the_data_of_the_suites_that_ask_its_benchmark(suite: Suite) -> None:
    worker = make.make_worker()
    before = editions.now()
    claim = claims.claim_next(worker)
    assert claim is not None
    assert moved(before) == {("demo", "data")}
    before = editions.now()
    claims.report(claim.token, claim.runs[0], phase="evaluate", done=1, total=2)
    claims.renew(claim.token)
    assert moved(before) == set()
    claims.fail(claim.token, claim.runs[0], error_class="TaskError", message="no")
    assert moved(before) == {("demo", "data")}


def test_a_board_moves_its_suites_pages_once_it_is_published(suite: Suite) -> None:
    before = editions.now()
    published.build(suite, OWN)
    assert moved(before) == {("demo", "pages")}
    before = editions.now()
    published.build(suite, OWN)
    assert moved(before) == set(), "nothing new"


def test_what_is_said_of_a_model_moves_every_boards_data_and_a_new_one_none(suite: Suite) -> None:
    before = editions.now()
    make.make_variant("lab/two")
    assert moved(before) == {("site", "pages")}
    before = editions.now()
    HubModel.objects.filter(repo_id="lab/two").update(flag_reason="copied")
    assert moved(before) == DATA


def test_a_hub_that_says_the_same_again_moves_nothing(suite: Suite) -> None:
    model = HubModel.objects.get()
    before = editions.now()
    hub_state.note(model, hub_state.PRESENT)
    assert moved(before) == set()
    assert HubModel.objects.get().hub_checked is not None
    hub_state.note(model, hub_state.Found("gone"))
    assert moved(before) == DATA
    assert HubModel.objects.get().hub_state == "gone"


def test_words_move_what_shows_them(suite: Suite) -> None:
    for change, expected in (
        (lambda: Suite.objects.filter(pk=suite.pk).update(title="Foundry"), DATA | PAGES),
        (lambda: SuiteEntry.objects.update(title="Hard"), DATA | PAGES),
        (lambda: TaskVersion.objects.update(known_gaps="None."), {("site", "pages")}),
        (lambda: SuiteEntry.objects.update(comparability_key="k"), set()),
    ):
        before = editions.now()
        change()
        assert moved(before) == expected


def test_to_sign_in_changes_no_page_and_a_new_name_does(suite: Suite) -> None:
    ada = User.objects.create_user("ada")
    before = editions.now()
    ada.save(update_fields=["last_login"])
    assert moved(before) == set()
    ada.username = "countess"
    ada.save()
    assert moved(before) == {("site", "pages")}
    before = editions.now()
    User.objects.filter(pk=ada.pk).delete()
    assert moved(before) == {("site", "pages")}


def test_what_is_rolled_back_moves_nothing(suite: Suite) -> None:
    before = editions.now()

    def change_and_fail() -> None:
        with transaction.atomic(), editions.changing():
            Suite.objects.update(title="Foundry")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_and_fail()
    assert moved(before) == set()
    make.make_variant("lab/two")
    assert moved(before) == {("site", "pages")}, "nothing is left over from the one that failed"


def test_numbers_move_at_the_end_of_the_transaction_and_in_order(suite: Suite) -> None:
    worker = make.make_worker()
    with CaptureQueriesContext(connection) as queries:
        claim = claims.claim_next(worker)
    assert claim is not None
    told = [
        query["sql"] for query in queries if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))
    ]
    tables = ["leaderboard_edition"] * 2 + ["leaderboard_benchmarkedition"] * 2
    for sql, table in zip(told[-4:], tables, strict=True):
        assert f'"{table}"' in sql
    assert not any('edition"' in sql for sql in told[:-4])
    for sql, table in ((told[-4], tables[0]), (told[-2], tables[-1])):
        assert re.search(f'ORDER BY (1|"{table}"."of") ASC', sql), sql


def test_a_run_moves_its_own_benchmarks_columns_and_words_about_columns_move_all(
    suite: Suite,
) -> None:
    whole, before = editions.of_columns(suite.pk)
    (run,) = Run.objects.filter(task__benchmark="facts")
    make.claimed(run).release_companions()
    now, after = editions.of_columns(suite.pk)
    assert now == whole
    assert after["facts"] > before["facts"]
    HubModel.objects.update(flag_reason="copied")
    assert editions.of_columns(suite.pk) == (whole, after), "columns say nothing of models"
    SuiteEntry.objects.filter(suite=suite).update(counts=False)
    assert editions.of_columns(suite.pk)[0] > whole


def test_a_row_that_is_missing_is_made(suite: Suite) -> None:
    Edition.objects.all().delete()
    with editions.changing():
        editions.note("pages", of=[suite.pk])
    assert editions.now() == ((suite.pk, 1, 2),)
    editions.note("data")
    assert (SITE, 2, 1) in editions.now()


def test_the_edition_of_a_name_is_of_its_newest_version(
    suite: Suite, django_assert_num_queries: Any
) -> None:
    newer = make.make_suite(benchmarks=("facts",), styles=("cloze",), version="2.0")
    with django_assert_num_queries(1):
        found = published.edition("demo")
    assert found is not None
    assert found[0] == newer.pk
    assert published.edition("demo@1.0") == (
        suite.pk,
        Edition.objects.get(of=suite.pk).pages,
    )
    assert published.edition("nowhere") is None
