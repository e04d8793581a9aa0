"""A submission: from a form to runs in the queue, on whichever database the tests run; its page.

The page says how its runs do, what comes next and what its submitter can do.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test import Client
from django.utils import timezone

from leaderboard.catalogue import sync as catalogue
from leaderboard.hub import Refused
from leaderboard.models import Quota, Role, Run, RunEvent, Submission, Suite, User, give
from leaderboard.models.run import State
from leaderboard.queue import claims
from leaderboard.queue.pace import ENOUGH
from leaderboard.signals import runs_queued
from leaderboard.submissions import precheck
from leaderboard.submissions import submit as submissions
from leaderboard.submissions.submit import NotYours, submit, withdraw
from tests.leaderboard import factories as make
from tests.leaderboard.conftest import SUITE, TINY, Fail, get, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub", "suite")]


def test_a_submission_queues_one_run_per_column_of_the_suite_at_the_commit_of_its_revision(
    suite: Suite, ada: User
) -> None:
    submission = submit(TINY, user=ada)
    assert submission.submitter == ada
    assert submission.variant.hub_model.repo_id == TINY
    assert submission.requested_revision == "main"
    runs = set(submission.runs.values_list("run_key", "task__name", "shots", "state"))
    assert runs == {(e.run_key, e.task.name, e.shots, "queued") for e in suite.entries.all()}
    assert submission.runs.filter(needed_bytes=submission.variant.needed_bytes).count() == 2
    assert RunEvent.objects.filter(run__in=submission.runs.all(), state="queued").count() == 2
    v1 = submit(TINY, "v1", user=ada)
    assert v1.requested_revision == "v1"
    assert v1.variant.hub_model == submission.variant.hub_model
    assert v1.variant.commit != submission.variant.commit


@pytest.mark.django_db(transaction=True)
def test_listeners_hear_of_new_runs_after_the_commit_and_may_fail(ada: User) -> None:
    heard = []

    def listener(**_: Any) -> None:
        heard.append(Run.objects.filter(state=State.QUEUED).count())
        raise ConnectionError("the broker is down")

    runs_queued.connect(listener)
    try:
        submit(TINY, user=ada)
    finally:
        runs_queued.disconnect(listener)
    assert heard == [2]


def test_the_second_model_of_a_submitter_waits_its_turn_and_an_others_wish_for_a_run_brings_it_on(
    tasks: Path, settings: Any, ada: User, bo: User
) -> None:
    first = submit(TINY, user=ada)
    second = submit(TINY, "v1", user=ada)
    (asked,) = set(first.runs.values_list("due", flat=True))
    later = asked + timedelta(hours=1)
    assert set(second.runs.values_list("due", flat=True)) == {later}
    # The suite `one` has the first column of the suite `small` alone.
    one = SUITE.replace("suite: small", "suite: one").replace(", mmlu: facts_mmlu", "")
    (tasks / "suites" / "one.yaml").write_text(one)
    catalogue.sync(tasks)
    settings.PLUMBLINE_SUITE = "one"
    shared = submit(TINY, "v1", user=bo).runs.get()
    assert shared in second.runs.all(), "suites share the runs that they have in common"
    assert asked < shared.due <= timezone.now()
    assert set(second.runs.values_list("due", flat=True)) == {shared.due, later}


def test_a_site_without_its_suite_says_what_to_run(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_SUITE = "nowhere"
    with pytest.raises(Refused, match="sync_tasks"):
        submit(TINY, user=ada)


def test_a_submission_waits_longer_for_the_hub_than_a_check_and_not_for_ever(
    hub: Fail, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submissions.HUB_SECONDS >= 5 * precheck.SECONDS
    monkeypatch.setattr(submissions, "HUB_SECONDS", 1.0)
    hub([{"match": "/api/models/*", "delay": 30}])
    with pytest.raises(Refused) as refused:
        submit(TINY, user=ada)
    [problem] = refused.value.problems
    assert problem.field == "model"
    assert problem.message == "The Hub did not answer within 1 s. Nothing was submitted."
    assert problem.remedy
    assert not Submission.objects.exists()
    monkeypatch.setattr(submissions, "HUB_SECONDS", 300.0)
    hub([{"match": "/api/models/*", "delay": precheck.SECONDS + 0.5, "times": 1}])
    assert submit(TINY, user=ada)


def test_withdrawing_stops_the_runs_that_nobody_else_wants(ada: User, bo: User) -> None:
    first = submit(TINY, user=ada)
    failed, shared = first.runs.order_by("task__name")
    make.fail(failed, "ModelError", "no luck")
    second = submit(TINY, user=bo)
    assert withdraw(first, ada) == []
    shared.refresh_from_db()
    assert shared.state == State.QUEUED
    stopped = withdraw(second, bo)
    assert {run.pk for run in stopped} == set(second.runs.values_list("pk", flat=True))
    assert set(second.runs.values_list("state", flat=True)) == {State.CANCELLED}
    second.refresh_from_db()
    assert second.state == Submission.State.WITHDRAWN
    assert withdraw(second, bo) == []
    again = submit(TINY, user=ada)
    assert set(again.runs.values_list("state", flat=True)) == {State.QUEUED}


def test_a_submission_is_withdrawn_by_whose_it_is_and_by_moderators(
    settings: Any, ada: User, bo: User
) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    own, visitors = submit(TINY, user=ada), submit(TINY, "v1", user=AnonymousUser())
    for submission, strangers in ((own, (bo, AnonymousUser())), (visitors, (ada, AnonymousUser()))):
        for stranger in strangers:
            with pytest.raises(NotYours, match="did not submit"):
                withdraw(submission, stranger)
    give(bo, Role.MODERATOR)
    bo = User.objects.get(pk=bo.pk)
    assert len(withdraw(own, bo)) == len(withdraw(visitors, bo)) == 2


def at_once(*actions: Callable[[], object]) -> list[object]:
    """What each action returns or raises, all started at the same moment in threads."""
    start = threading.Barrier(len(actions))
    outcomes: list[object] = [None] * len(actions)

    def act(place: int, action: Callable[[], object]) -> None:
        start.wait()
        try:
            outcomes[place] = action()
        except Exception as error:
            outcomes[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=act, args=each) for each in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.django_db(transaction=True)
def test_of_many_submissions_of_one_model_at_once_one_is_taken(ada: User, bo: User) -> None:
    # The variant exists already: nothing but the lock on it keeps them apart.
    withdraw(submit(TINY, user=ada), ada)
    people = [ada, bo] * 4
    outcomes = at_once(*[lambda who=who: submit(TINY, user=who) for who in people])
    taken = [outcome for outcome in outcomes if isinstance(outcome, Submission)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert len(taken) == 1, outcomes
    assert [r.problems[0].code for r in refused] == ["submitted_before"] * 7, outcomes
    assert Run.objects.filter(state=State.QUEUED).count() == 2
    assert Submission.objects.filter(state=Submission.State.ACTIVE).count() == 1


@pytest.mark.django_db(transaction=True)
def test_submissions_at_once_do_not_outrun_the_quota(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_USER_QUOTA = 2
    kinds = [(r, d) for r in ("main", "v1") for d in ("float32", "float16", "bfloat16")]
    outcomes = at_once(*[lambda k=kind: submit(TINY, *k, user=ada) for kind in kinds])
    assert sum(isinstance(outcome, Submission) for outcome in outcomes) == 2, outcomes
    assert Submission.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_run_is_not_shared_with_a_submission_that_stops_it(ada: User, bo: User) -> None:
    for _ in range(3):
        first = submit(TINY, user=ada)
        failed = first.runs.order_by("task__name")[0]
        make.fail(failed, "ModelError", "no luck")
        withdrawn, second = at_once(lambda s=first: withdraw(s, ada), lambda: submit(TINY, user=bo))
        assert isinstance(withdrawn, list)
        assert isinstance(second, Submission), second
        assert set(second.runs.values_list("state", flat=True)) == {State.QUEUED}
        withdraw(second, bo)


# How many models somebody may submit in a day


def test_a_user_beyond_the_quota_learns_when_it_frees_up(
    settings: Any, ada: User, bo: User
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 2
    first = submit(TINY, user=ada)
    submit(TINY, "v1", user=ada)
    created = timezone.now() - timedelta(hours=23)
    Submission.objects.filter(pk=first.pk).update(created=created)
    with pytest.raises(Refused) as refused:
        submit(TINY, dtype="float16", user=ada)
    [problem] = refused.value.problems
    assert (problem.field, problem.code) == ("form", "quota")
    assert f"{created + timedelta(days=1):%H:%M UTC}" in problem.remedy
    assert submit(TINY, dtype="float16", user=bo), "one user's quota is not another's"
    Submission.objects.filter(pk=first.pk).update(created=timezone.now() - timedelta(hours=25))
    assert submit(TINY, dtype="bfloat16", user=ada)


def test_visitors_share_one_quota_where_the_site_is_open(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = False
    with pytest.raises(Refused, match="Sign in"):
        submit(TINY, user=AnonymousUser())
    settings.PLUMBLINE_OPEN_SUBMIT = True
    settings.PLUMBLINE_OPEN_QUOTA = 1
    assert submit(TINY, user=AnonymousUser()).submitter is None
    with pytest.raises(Refused, match="all visitors without an account together is 1"):
        submit(TINY, "v1", user=AnonymousUser())
    assert submit(TINY, "v1", user=ada)


def quota_on_the_form(client: Client) -> str:
    found = re.search(r'id="quota">(.*?)</span>', client.get("/submit").content.decode(), re.S)
    return " ".join(found[1].split()) if found else ""


def test_the_form_says_how_many_are_left_and_then_when_the_next_may_come(
    client: Client, ada: User, settings: Any
) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = False
    settings.PLUMBLINE_USER_QUOTA = 2
    assert quota_on_the_form(client) == "", "who may not submit is told no number"
    client.force_login(ada)
    assert quota_on_the_form(client) == "2 of 2 submissions left today."
    withdraw(submit(TINY, user=ada), ada)
    assert quota_on_the_form(client) == "1 of 2 submissions left today.", "withdrawn counts too"
    submit(TINY, "v1", user=ada)
    assert quota_on_the_form(client).startswith("None of 2 submissions left today; the next at")
    refused = client.post("/submit", {"model": TINY, "dtype": "float16"})
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 24 * 3600
    assert "The next one can be submitted at" in refused.content.decode()


def test_an_operator_gives_one_account_a_number_of_its_own(
    client: Client, ada: User, bo: User, settings: Any
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 1
    operator = User.objects.create_user("op")
    give(operator, Role.OPERATOR)
    client.force_login(operator)
    typed = {"user": ada.pk, "most": 2, "why": "measures a whole family"}
    assert client.post("/admin/leaderboard/quota/add/", typed).status_code == 302
    submit(TINY, user=ada)
    submit(TINY, "v1", user=ada)
    submit(TINY, user=bo, dtype="float16")
    with pytest.raises(Refused, match="account bo is 1 submission in"):
        submit(TINY, "v1", user=bo, dtype="float16")
    Quota.objects.update(most=0)
    client.force_login(ada)
    assert quota_on_the_form(client) == "None is taken at the moment."
    with pytest.raises(Refused, match=r"account ada is 0 submissions.*whom to ask"):
        submit(TINY, "v1", user=ada, dtype="float16")


# Its page


@pytest.fixture
def open_site(suite: Suite, settings: Any) -> Suite:
    """A site that takes submissions from anybody."""
    settings.PLUMBLINE_OPEN_SUBMIT = True
    return suite


def page(client: Client, submission: Submission) -> str:
    return text_of(get(client, submission.get_absolute_url()))


def test_a_cause_stands_once_with_class_reason_log_and_remedy_before_the_repeat(
    client: Client, open_site: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), open_site)
    for run in submission.runs.all():
        make.fail(run, "ModelError", "no tokenizer", "the last line")
    html = get(client, submission.get_absolute_url())
    assert html.count('<article class="failed">') == 1
    for words in ("ModelError", "no tokenizer", "the last line", "Remedy"):
        assert words in html
    (primary,) = re.findall(r'class="btn first"[^>]*>([^<]+)<', html)
    assert primary == "Check the newest revision"
    assert html.index(primary) < html.index("Submit again")


def test_after_a_failure_of_ours_it_is_tried_again_and_then_repeating_is_the_first_thing_to_do(
    client: Client, open_site: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), open_site)
    run = submission.runs.all()[0]
    for attempt in range(claims.MAX_ATTEMPTS):
        Run.objects.filter(pk=run.pk).update(not_before=None)
        make.fail(run, "InfraError", "the disk is full")
        resting = "We failed at it; it rests until" in page(client, submission)
        assert resting == (attempt + 1 < claims.MAX_ATTEMPTS)
    html = get(client, submission.get_absolute_url())
    (primary,) = re.findall(r'class="btn first"[^>]*>([^<]+)<', html)
    assert primary.split() == ["Submit", "again:", "repeat", "what", "failed"]


def test_a_submission_that_was_repeated_leads_to_the_later_one(
    client: Client, open_site: Suite
) -> None:
    variant = make.make_variant("lab/one")
    earlier = make.make_submission(variant, open_site)
    for run in earlier.runs.all():
        make.fail(run, "ModelError", "no tokenizer")
    later = make.make_submission(variant, open_site)
    html = get(client, f"/submissions/{earlier.pk}")
    assert "Repeated on" in html
    assert f'href="/submissions/{later.pk}"' in html
    assert "Submit again" not in html
    assert "Check the newest revision" not in html
    assert "Repeated on" not in get(client, f"/submissions/{later.pk}")


def test_only_who_submitted_may_withdraw(
    client: Client, open_site: Suite, ada: User, bo: User, caplog: pytest.LogCaptureFixture
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), open_site, submitter=ada)
    address = submission.get_absolute_url()
    client.force_login(bo)
    assert "Withdraw</button>" not in get(client, address)
    refused = client.post(f"{address}/withdraw")
    assert refused.status_code == 403
    assert "Not yours to do" in refused.content.decode()
    assert "Only who submitted a model" in refused.content.decode()
    assert not any(record.exc_info for record in caplog.records), "no fault of ours"
    client.force_login(ada)
    html = get(client, address)
    assert "by ada" in html
    assert "Withdraw</button>" in html
    for action in ("again", "withdraw"):
        assert client.get(f"{address}/{action}").status_code == 405, "to look does nothing"
    assert client.post(f"{address}/withdraw")["Location"] == address
    assert "Withdrawn." in get(client, address)
    assert set(submission.runs.values_list("state", flat=True)) == {"cancelled"}


def test_a_waiting_submission_knows_its_position_and_each_run_its_own(
    client: Client, open_site: Suite
) -> None:
    make.make_worker("bench-1", memory_bytes=10**9)
    make.make_submission(make.make_variant("lab/first"), open_site)
    second = make.make_submission(make.make_variant("lab/second", parameters=10**10), open_site)
    said = page(client, second)
    assert "Waits for a larger worker" in said
    worker = make.make_worker("bench-1")
    said = page(client, second)
    assert "Queued position 3; starts at a time that nobody can tell." in said
    assert "Running nobody can tell how long" in said
    for position in (3, 4):
        assert f"waits position {position}" in said
    assert "bench-1 is the only worker that can hold it" in said
    while claims.claim_next(worker):
        pass
    assert "Queued waited" in page(client, second)


def test_with_enough_finished_runs_it_says_when_and_how_long(
    client: Client, open_site: Suite
) -> None:
    worker = make.make_worker()
    for entry in open_site.entries.all():
        for number in range(ENOUGH):
            done = timezone.now() - timedelta(days=9, hours=number + 10 * entry.position)
            run = make.queued_run(make.make_variant(f"old/{entry.position}-{number}"), entry)
            Run.objects.filter(pk=run.pk).update(
                state="done",
                worker=worker,
                started=done - timedelta(minutes=10),
                finished=done,
            )
    make.make_submission(make.make_variant("lab/first"), open_site)
    second = make.make_submission(make.make_variant("lab/second"), open_site)
    said = page(client, second)
    assert "starts in about 20 min" in said
    assert "Running takes about 20 min" in said


def title(html: str) -> str:
    return text_of(html[html.index("<title>") : html.index("</title>")])


def test_a_finished_submission_shows_rank_average_and_scores_and_its_title_says_so(
    client: Client, open_site: Suite
) -> None:
    make.evaluated("lab/other", open_site, {"cloze": 0.2, "mmlu": 0.2}, n=60)
    submission = make.make_submission(make.make_variant("lab/one"), open_site)
    address = f"/submissions/{submission.pk}"
    runs = list(submission.runs.all())
    assert title(get(client, address)).startswith("0 of 2 done: lab/one")
    make.finish(runs[0], skill=0.9, n=60)
    html = get(client, address)
    assert title(html).startswith("1 of 2 done: lab/one")
    assert score_of(runs[0]) in text_of(html)
    make.finish(runs[1], skill=0.9, n=60)
    html = get(client, address)
    assert title(html).startswith("Done: lab/one")
    assert "Its rank and average appear here with the next board" in text_of(html)
    assert "data-refreshed" in html, "until the board has it the page goes on looking"
    make.publish(open_site)
    board = make.board(open_site)
    html = get(client, address)
    assert title(html).startswith("Rank 1: lab/one")
    average = 100 * board.average.value[board.row_of[submission.variant_id]]
    assert re.search(rf"Rank 1 \([^)]*\) of 2, average {average:.1f} \(", text_of(html))
    for run in runs:
        assert score_of(run) in text_of(html)
    assert "data-refreshed" not in html


def test_a_finished_submission_without_a_board_is_not_polled_for_ever(
    client: Client, open_site: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), open_site)
    for run in submission.runs.all():
        make.finish(run, n=4)
    assert "hx-trigger" in get(client, submission.get_absolute_url()), "its rank is awaited"
    submission.runs.update(finished=timezone.now() - timedelta(hours=1))
    html = get(client, submission.get_absolute_url())
    assert "All 2 runs done." in text_of(html)
    assert "hx-trigger" not in html
    assert 'href="/?q=lab/one"' in html


def score_of(run: Run) -> str:
    result = run.results.get(metric=run.task.entries.get().metric, subset="")
    return f"{100 * result.value:.1f} {100 * result.low:.1f}–{100 * result.high:.1f}"
