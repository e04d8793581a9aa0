"""From a form to runs in the queue, on whichever database the tests run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.utils import timezone

from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Role, Run, RunEvent, Submission, Suite, User, Variant, give
from leaderboard.models.run import State
from leaderboard.queue import claims
from leaderboard.signals import runs_queued
from leaderboard.submissions import submit as submissions
from leaderboard.submissions.submit import NotYours, submit, withdraw
from leaderboard.web import Refused
from tests.hub import Orders
from tests.leaderboard.conftest import SUITE, worker

Fail = Callable[[Orders], None]
TINY = "awkward/tiny-llama"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hub", "suite")]


def end(run: Run, state: str) -> None:
    """Let a run end as a worker would."""
    alive = worker(10**12)
    claim = claims.claim_next(alive)
    while claim and run not in claim.runs:
        claim = claims.claim_next(alive)
    assert claim is not None
    if state == State.FAILED:
        claims.fail(claim.token, run, error_class="ModelError", message="no luck")
    claims.give_back(claim.token, why="test")
    alive.delete()


def test_a_submission_queues_one_run_per_column_of_the_suite(suite: Suite, ada: User) -> None:
    submission = submit(TINY, user=ada)
    assert submission.submitter == ada
    assert submission.variant.hub_model.repo_id == TINY
    assert submission.requested_revision == "main"
    runs = set(submission.runs.values_list("run_key", "task__name", "shots", "state"))
    assert runs == {(e.run_key, e.task.name, e.shots, "queued") for e in suite.entries.all()}
    assert submission.runs.filter(needed_bytes=submission.variant.needed_bytes).count() == 2
    assert RunEvent.objects.filter(run__in=submission.runs.all(), state="queued").count() == 2


def test_the_variant_is_pinned_to_the_commit_of_the_revision(ada: User) -> None:
    main, v1 = submit(TINY, user=ada), submit(TINY, "v1", user=ada)
    assert main.variant.commit != v1.variant.commit
    assert main.variant.hub_model == v1.variant.hub_model
    assert v1.requested_revision == "v1"


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


def test_a_wrong_model_submits_nothing(ada: User) -> None:
    with pytest.raises(Refused) as refused:
        submit("awkward/no-tokenizer", user=ada)
    assert [p.code for p in refused.value.problems] == ["no_tokenizer"]
    assert Submission.objects.count() == Run.objects.count() == Variant.objects.count() == 0


def test_the_same_commit_and_precision_are_not_submitted_twice(ada: User, bo: User) -> None:
    submit(TINY, user=ada)
    with pytest.raises(Refused, match="submitted before"):
        submit("awkward/renamed", user=bo)
    assert Run.objects.count() == 2


def test_a_second_submission_repeats_failed_runs_only(ada: User, bo: User) -> None:
    first = submit(TINY, user=ada)
    failed, other = first.runs.order_by("task__name")
    end(failed, State.FAILED)
    second = submit(TINY, user=bo)
    assert other in second.runs.all()
    assert failed not in second.runs.all()
    new = second.runs.exclude(pk=other.pk).get()
    assert new.run_key == failed.run_key
    assert new.state == State.QUEUED
    assert failed in first.runs.all(), "what happened is not rewritten"


def test_suites_share_the_runs_that_they_have_in_common(
    tasks: Any, settings: Any, ada: User
) -> None:
    small = submit(TINY, user=ada)
    one = SUITE.replace("suite: small", "suite: one").replace(", mmlu: facts_mmlu", "")
    (tasks / "suites" / "one.yaml").write_text(one)
    catalogue.sync(tasks)
    settings.PLUMBLINE_SUITE = "one"
    alone = submit(TINY, user=ada)
    assert Run.objects.count() == 2
    assert alone.runs.get() in small.runs.all()


def test_the_second_model_of_a_submitter_waits_its_turn_and_an_others_wish_brings_it_on(
    tasks: Any, settings: Any, ada: User, bo: User
) -> None:
    first = submit(TINY, user=ada)
    second = submit(TINY, "v1", user=ada)
    (asked,) = set(first.runs.values_list("due", flat=True))
    later = asked + timedelta(hours=1)
    assert set(second.runs.values_list("due", flat=True)) == {later}
    one = SUITE.replace("suite: small", "suite: one").replace(", mmlu: facts_mmlu", "")
    (tasks / "suites" / "one.yaml").write_text(one)
    catalogue.sync(tasks)
    settings.PLUMBLINE_SUITE = "one"
    shared = submit(TINY, "v1", user=bo).runs.get()
    assert asked < shared.due <= timezone.now()
    assert set(second.runs.values_list("due", flat=True)) == {shared.due, later}


def test_a_visitor_needs_an_account(settings: Any) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = False
    with pytest.raises(Refused, match="Sign in"):
        submit(TINY, user=AnonymousUser())


def test_an_open_site_takes_submissions_from_visitors(settings: Any) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    assert submit(TINY, user=AnonymousUser()).submitter is None


def test_a_user_beyond_the_quota_learns_when_it_frees_up(
    settings: Any, ada: User, bo: User
) -> None:
    settings.PLUMBLINE_USER_QUOTA = 2
    first = submit(TINY, user=ada)
    submit(TINY, "v1", user=ada)
    Submission.objects.filter(pk=first.pk).update(created=timezone.now() - timedelta(hours=23))
    with pytest.raises(Refused) as refused:
        submit(TINY, dtype="float16", user=ada)
    [problem] = refused.value.problems
    assert (problem.field, problem.code) == ("form", "quota")
    frees_up = timezone.now() + timedelta(hours=1)
    assert f"{frees_up:%H:%M UTC}" in problem.remedy
    assert submit(TINY, dtype="float16", user=bo), "one user's quota is not another's"
    Submission.objects.filter(pk=first.pk).update(created=timezone.now() - timedelta(hours=25))
    assert submit(TINY, dtype="bfloat16", user=ada)


def test_visitors_share_one_quota(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    settings.PLUMBLINE_OPEN_QUOTA = 1
    submit(TINY, user=AnonymousUser())
    with pytest.raises(Refused, match="all visitors without an account together is 1"):
        submit(TINY, "v1", user=AnonymousUser())
    assert submit(TINY, "v1", user=ada)


def test_a_quota_of_nothing_closes_the_site(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_USER_QUOTA = 0
    with pytest.raises(Refused, match="None is taken at the moment"):
        submit(TINY, user=ada)


def test_a_site_without_its_suite_says_what_to_run(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_SUITE = "nowhere"
    with pytest.raises(Refused, match="sync_tasks"):
        submit(TINY, user=ada)


def test_a_slow_hub_is_waited_for_longer(hub: Fail, ada: User) -> None:
    hub([{"match": "/api/models/*", "delay": 3, "times": 1}])
    assert submit(TINY, user=ada)


def test_a_hub_that_stays_silent_submits_nothing_and_says_so(
    hub: Fail, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "HUB_SECONDS", 1.0)
    hub([{"match": "/api/models/*", "delay": 30}])
    with pytest.raises(Refused) as refused:
        submit(TINY, user=ada)
    [problem] = refused.value.problems
    assert problem.field == "model"
    assert problem.message == "The Hub did not answer within 1 s. Nothing was submitted."
    assert problem.remedy
    assert Submission.objects.count() == 0


def test_withdrawing_stops_the_runs_that_nobody_else_wants(ada: User) -> None:
    submission = submit(TINY, user=ada)
    stopped = withdraw(submission, ada)
    assert {run.pk for run in stopped} == set(submission.runs.values_list("pk", flat=True))
    assert set(submission.runs.values_list("state", flat=True)) == {State.CANCELLED}
    assert Submission.objects.get().state == Submission.State.WITHDRAWN
    assert withdraw(submission, ada) == []
    again = submit(TINY, user=ada)
    assert set(again.runs.values_list("state", flat=True)) == {State.QUEUED}


def test_withdrawing_leaves_the_runs_that_another_submission_wants(ada: User, bo: User) -> None:
    first = submit(TINY, user=ada)
    failed, shared = first.runs.order_by("task__name")
    end(failed, State.FAILED)
    second = submit(TINY, user=bo)
    assert withdraw(first, ada) == []
    shared.refresh_from_db()
    assert shared.state == State.QUEUED
    assert len(withdraw(second, bo)) == 2


def test_bo_cannot_withdraw_adas_submission(ada: User, bo: User) -> None:
    submission = submit(TINY, user=ada)
    for stranger in (bo, AnonymousUser()):
        with pytest.raises(NotYours, match="did not submit"):
            withdraw(submission, stranger)
    give(bo, Role.MODERATOR)
    bo = User.objects.get(pk=bo.pk)
    assert len(withdraw(submission, bo)) == 2


def test_a_visitors_submission_is_withdrawn_by_moderators_only(settings: Any, ada: User) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    submission = submit(TINY, user=AnonymousUser())
    for nobody in (ada, AnonymousUser()):
        with pytest.raises(NotYours):
            withdraw(submission, nobody)


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
    for _ in range(5):
        first = submit(TINY, user=ada)
        failed = first.runs.order_by("task__name").first()
        assert failed is not None
        end(failed, State.FAILED)
        withdrawn, second = at_once(lambda s=first: withdraw(s, ada), lambda: submit(TINY, user=bo))
        assert isinstance(withdrawn, list)
        assert isinstance(second, Submission), second
        assert set(second.runs.values_list("state", flat=True)) == {State.QUEUED}
        withdraw(second, bo)
