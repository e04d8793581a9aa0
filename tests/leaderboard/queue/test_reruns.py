"""What stands is measured again: the old number until the new one is there, and never two."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from evalcore.digest import digest_of
from leaderboard.models import Rerun, Run, Suite, User, Variant
from leaderboard.queue import claims, estimate, reruns
from leaderboard.snapshot import OWN, published
from runners.leftovers import journal_of
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

REASON = "the key of question 7 was wrong"


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(benchmarks=("facts",), styles=("cloze",))


@pytest.fixture
def heron(suite: Suite) -> Variant:
    return make.evaluated("workshop/heron", suite, {"cloze": 0.5}, n=20)


def again(variant: Variant) -> tuple[Run, Run]:
    """The run that stands, and the one that waits to replace it."""
    (old,) = variant.runs.filter(state="done")
    (new,) = reruns.rerun([old], by="ada", reason=REASON).queued
    return old, new


def on_board(suite: Suite) -> list[tuple[str, float]]:
    make.publish(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    cells = [(board.run_id(row, 0), board.score(row, 0)) for row in range(len(board.models))]
    return [(str(run), score.value) for run, score in cells if score]


def test_the_old_number_stands_until_the_new_one_is_stored_and_then_the_new_one_alone(
    suite: Suite, heron: Variant
) -> None:
    old, new = again(heron)
    before = old.results.get(subset="", metric="acc").value
    assert on_board(suite) == [(str(old.pk), before)]
    make.finish(new, skill=0.95, n=20, seed=3)
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, old.superseded_by, new.state, new.replaces) == (
        "superseded",
        new,
        "done",
        None,
    )
    assert on_board(suite) == [(str(new.pk), new.results.get(subset="", metric="acc").value)]
    (submission,) = heron.submissions.all()
    assert list(submission.runs.all()) == [new]
    assert old.events.last().why == REASON


def test_the_database_refuses_two_results_that_stand(heron: Variant) -> None:
    old, new = again(heron)
    for change in (
        {"state": "done", "replaces": None},
        {"state": "done"},
        {"state": "queued", "replaces": None},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Run.objects.filter(pk=new.pk).update(**change)
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=old.pk).update(state="superseded")


def test_what_is_waited_for_already_is_not_queued_twice(heron: Variant) -> None:
    old, _ = again(heron)
    ordered = reruns.rerun([old], by="ada", reason="once more")
    assert (ordered.queued, ordered.asked) == ([], 1)
    assert Rerun.objects.count() == 1


def test_a_rerun_that_fails_leaves_what_stands_and_is_told(
    client: Client, suite: Suite, heron: Variant
) -> None:
    old, new = again(heron)
    make.fail(new, "ModelError", "no tokenizer any more")
    assert [run for run, _ in on_board(suite)] == [str(old.pk)]
    assert "no tokenizer any more" in client.get("/queue").text
    assert claims.retry(new, by="ada")
    make.finish(new, skill=0.9, n=20)
    assert "no tokenizer any more" not in client.get("/queue").text
    old.refresh_from_db()
    assert old.state == "superseded"


def test_a_failed_rerun_is_not_tried_again_when_another_has_replaced(heron: Variant) -> None:
    old, failed = again(heron)
    make.fail(failed, "ModelError", "no tokenizer")
    (other,) = reruns.rerun([old], by="ada", reason=REASON).queued
    make.finish(other, skill=0.9, n=20)
    assert not claims.retry(failed, by="ada")


def test_answers_are_not_taken_up_from_the_run_that_is_replaced(heron: Variant) -> None:
    old, new = again(heron)
    assert journal_of(old) != journal_of(new)
    entry = make.make_suite("other", benchmarks=("sums",), styles=("cloze",)).entries.get()
    other = make.queued_run(heron, entry)
    claim = claims.claim_next(make.make_worker())
    assert claim is not None
    assert len(claim.runs) == 1, "one child asks by one journal"
    assert {other.pk, new.pk} >= {claim.runs[0].pk}


def newer_version(suite: Suite) -> Suite:
    newer = make.make_suite("demo", benchmarks=("facts",), styles=("cloze",), version="1.1")
    task = make.task_version("facts", "cloze", "1.1")
    newer.entries.update(task=task, run_key=digest_of("facts 1.1"))
    return newer


def test_a_newer_version_of_the_task_has_its_own_column_and_the_old_says_so(
    client: Client, suite: Suite, heron: Variant
) -> None:
    newer = newer_version(suite)
    old, new = again(heron)
    assert (new.task.version, new.run_key) == ("1.1", digest_of("facts 1.1"))
    make.finish(new, skill=0.9, n=20)
    assert [run for run, _ in on_board(newer)] == [str(new.pk)]
    assert [run for run, _ in on_board(suite)] == [str(old.pk)], "suites of then are as they were"
    html = client.get(old.get_absolute_url()).text
    assert "Measured by a newer version of the task as well." in html
    assert new.get_absolute_url() in html
    assert reruns.finished("facts@1.0").count() == 0, "once is enough"


def test_a_way_of_asking_that_no_suite_has_in_the_newest_version_is_left(
    suite: Suite, heron: Variant
) -> None:
    newer_version(suite).entries.update(shots=5)
    ordered = reruns.rerun(heron.runs.all(), by="ada", reason=REASON)
    assert (ordered.queued, ordered.gone) == ([], 1)


def test_pages_say_why_it_runs_again_and_what_stands(client: Client, heron: Variant) -> None:
    old, new = again(heron)
    assert f"Runs again: {REASON}" in client.get("/queue").text
    assert "This number stands until" in client.get(old.get_absolute_url()).text
    assert f"It runs again: {REASON}.</strong>" in client.get(new.get_absolute_url()).text
    make.finish(new, skill=0.9, n=20)
    html = client.get(old.get_absolute_url()).text
    assert "Superseded." in html
    assert REASON in html
    assert client.get(reverse("run-parquet", args=[old.pk])).status_code == 200
    assert "The earlier run" in client.get(new.get_absolute_url()).text
    compared = client.get(f"/compare?run={old.pk},{new.pk}")
    assert compared.status_code == 200
    assert "no answers to compare" not in compared.text


def test_reruns_wait_in_turn_like_the_models_of_one_submitter(suite: Suite) -> None:
    for name in ("a/one", "a/two"):
        make.evaluated(name, suite, {"cloze": 0.5}, n=8)
    first, second = reruns.rerun(reruns.finished("facts"), by="ada", reason=REASON).queued
    later = make.queued_run(make.make_variant("b/new"), suite.entries.get())
    assert list(estimate.in_order(Run.objects.all())) == [first, later, second]


def test_the_command_says_what_it_did_and_refuses_what_it_does_not_know(heron: Variant) -> None:
    said = StringIO()
    call_command("supersede", task="facts", reason=f"{REASON}.", stdout=said)
    assert Rerun.objects.get().reason == REASON
    assert said.getvalue() == "1 run is queued\n"
    for wrong, says in (
        ({"task": "fact"}, "no task is called 'fact'"),
        ({"task": "facts@2"}, "facts has no version '2', only 1.0"),
        ({"task": "facts@"}, "--task: 'facts@' names no version: write facts@VERSION, or facts"),
        ({"task": "facts", "model": "x/y"}, "no model 'x/y'"),
        ({"task": "facts", "reason": " "}, "say why"),
    ):
        with pytest.raises(CommandError, match=says):
            call_command("supersede", **{"reason": REASON, **wrong})


def test_operators_have_chosen_results_measured_again_for_a_reason(
    client: Client, heron: Variant
) -> None:
    User.objects.create_superuser("ada", password="a long pass phrase")
    client.login(username="ada", password="a long pass phrase")
    (old,) = heron.runs.all()
    act = {"action": "rerun", "_selected_action": [str(old.pk)]}
    address = reverse("admin:leaderboard_run_changelist")
    assert "say why" in client.post(address, act, follow=True).text
    assert not Run.objects.filter(state="queued").exists()
    client.post(address, {**act, "reason": REASON})
    assert Run.objects.get(state="queued").replaces == old


def test_a_column_goes_over_to_other_questions_when_all_that_stood_in_it_is_replaced(
    suite: Suite,
) -> None:
    one, two = (make.evaluated(name, suite, {"cloze": 0.5}, n=20) for name in ("a/one", "a/two"))
    column = suite.entries.get()
    before = column.comparability_key
    for variant, changed in ((one, False), (two, True)):
        _, new = again(variant)
        make.finish(new, skill=0.9, n=24)
        column.refresh_from_db()
        assert (column.comparability_key != before) is changed
    assert len(on_board(suite)) == 2
