"""Whose turn it is and when: the order, votes, runs measured again, and estimates of the wait."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.cache import caches
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evalcore.digest import digest_of
from leaderboard.models import (
    Rerun,
    Run,
    Submission,
    Suite,
    TaskVersion,
    User,
    Variant,
    Vote,
    Worker,
)
from leaderboard.models.run import MOST_VOTES
from leaderboard.queue import claims, estimate, fairness, reruns, votes
from leaderboard.queue.estimate import Obstacle, in_order
from leaderboard.queue.pace import ENOUGH, GROWTH, WIDE, Finished, Pace
from runners.cleanup import journal_folder
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

FAR = fairness.VOTE * MOST_VOTES
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    caches["throttle"].clear()


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(benchmarks=("facts",), styles=("cloze",))


def order() -> list[str]:
    return [run.variant.hub_model.repo_id for run in in_order(Run.objects.all())]


def ask(model: str, who: User, suite: Suite, parameters: int = 10**9) -> Run:
    """As the form does, without the Hub."""
    others = Submission.objects.filter(submitter=who)
    variant = make.make_variant(model, parameters=parameters)
    run = make.queued_run(variant, suite.entries.get(), due=fairness.due(others))
    submission = Submission.objects.create(
        submitter=who, variant=variant, suite=suite, requested_revision="main"
    )
    submission.runs.add(run)
    return run


def test_who_comes_later_waits_behind_one_model_of_another_not_behind_all(
    suite: Suite, ada: User, bo: User
) -> None:
    for name in ("a/one", "a/two", "a/three"):
        ask(name, ada, suite)
    ask("b/one", bo, suite)
    ask("b/two", bo, suite)
    assert order() == ["a/one", "b/one", "a/two", "b/two", "a/three"]
    worker = make.make_worker()
    taken = [claims.claim_next(worker).runs[0].variant.hub_model.repo_id for _ in range(5)]
    assert taken == ["a/one", "b/one", "a/two", "b/two", "a/three"]
    assert ask("a/four", ada, suite).due <= timezone.now(), "what is taken puts nothing off"
    late = ask("a/five", ada, suite)
    Run.objects.filter(state="queued").update(due=late.due - 2 * HOUR)
    ask("b/three", bo, suite)
    assert order()[-1] == "b/three", "nobody is overtaken by who comes hours later"


def test_the_next_counts_as_asked_for_later_by_the_size_of_the_one_before(
    suite: Suite, ada: User
) -> None:
    sizes = (10**9, 7 * 10**9, 70 * 10**9, 10**9)
    turns = [ask(f"a/{n}", ada, suite, size).due for n, size in enumerate(sizes)]
    assert [later - turns[0] for later in turns[1:]] == [HOUR, 3 * HOUR, 7 * HOUR]


def test_the_page_says_why_a_model_counts_as_later(client: Client, suite: Suite, ada: User) -> None:
    ask("a/one", ada, suite)
    assert "Its submitter had others waiting" not in client.get("/queue").text
    ask("a/two", ada, suite)
    html = client.get("/queue").text
    assert html.count("Its submitter had others waiting: it counts as asked for") == 1
    assert "each further one counts as asked" in html


# Votes


def waiting(name: str, suite: Suite, later: timedelta = timedelta(0), **who: Any) -> Submission:
    """A submission of this model whose turn is so much later than that of the first."""
    submission = make.make_submission(make.make_variant(name), suite, **who)
    first = min(Run.objects.values_list("created", flat=True))
    submission.runs.update(due=first + later)
    return submission


def many_vote(submission: Submission, n: int) -> None:
    for number in range(n):
        voter = User.objects.create_user(f"{submission.pk}-{number}")
        votes.cast(submission, voter, "")


def test_a_vote_brings_a_model_before_one_that_was_asked_for_a_little_earlier(
    suite: Suite, bo: User
) -> None:
    waiting("a/first", suite)
    liked = waiting("b/liked", suite, timedelta(minutes=10))
    assert order() == ["a/first", "b/liked"]
    votes.cast(liked, bo, "")
    assert order() == ["b/liked", "a/first"]
    claim = claims.claim_next(make.make_worker())
    assert claim.runs[0].variant.hub_model.repo_id == "b/liked"


def test_nobody_is_overtaken_by_who_asked_more_than_two_hours_later(suite: Suite) -> None:
    waiting("a/first", suite)
    near, far = (waiting("b/near", suite, FAR - SECOND), waiting("c/far", suite, FAR + SECOND))
    shares = Submission.objects.create(
        variant=far.variant, suite=suite, requested_revision="main", visitor="somebody"
    )
    shares.runs.set(far.runs.all())
    for submission in (near, far, shares):
        many_vote(submission, MOST_VOTES + 3)
    assert order() == ["b/near", "a/first", "c/far"]
    assert timedelta(hours=2) == FAR


def test_one_vote_of_each_account_and_each_visitor_counts_and_for_that_model_alone(
    suite: Suite, ada: User, bo: User
) -> None:
    submission = waiting("a/one", suite, submitter=ada)
    before = fairness.due(Submission.objects.filter(submitter=ada))
    for _ in range(3):
        votes.cast(submission, bo, "ignored")
        votes.cast(submission, Client().get("/method").wsgi_request.user, "a visitor's digest")
    assert (submission.runs.get().votes, Vote.objects.count()) == (2, 2)
    assert fairness.due(Submission.objects.filter(submitter=ada)) == before
    with pytest.raises(IntegrityError), transaction.atomic():
        Vote.objects.create(submission=submission, voter=bo)


def test_who_asks_for_a_voted_model_as_well_leaves_it_its_votes(suite: Suite) -> None:
    liked = waiting("a/liked", suite, timedelta(hours=5))
    many_vote(liked, 4)
    before = liked.runs.get().due
    fairness.advance(liked.runs.all(), before + 4 * fairness.VOTE - timedelta(hours=1))
    assert liked.runs.get().due == before - timedelta(hours=1)


def test_the_button_works_by_a_plain_form_and_says_what_the_vote_did(
    suite: Suite, ada: User
) -> None:
    submission = waiting("a/one", suite, submitter=ada)
    client = Client(enforce_csrf_checks=True)
    address = f"{submission.get_absolute_url()}/vote"
    html = client.get(submission.get_absolute_url()).text
    assert f'action="{address}"' in html
    assert client.post(address).status_code == 403, "no token"
    token = client.cookies["csrftoken"].value
    done = client.post(address, {"csrfmiddlewaretoken": token}, follow=True)
    assert "1 vote: it counts as asked for 15 min earlier." in done.content.decode()
    assert "You have voted for it." in done.content.decode()
    assert f'action="{address}"' not in done.content.decode()
    queue = client.get("/queue").text
    assert "1 vote: it counts as asked for 15 min earlier." in queue
    assert "first eight votes count, which is two hours" in queue
    assert f"{submission.get_absolute_url()}#votes" in queue
    assert client.get(address).status_code == 405


def test_what_cannot_be_voted_for_is_refused_in_a_sentence(
    client: Client, suite: Suite, bo: User
) -> None:
    own = waiting("a/own", suite, submitter=bo)
    taken = waiting("a/taken", suite)
    taken.runs.update(state="cancelled")
    client.force_login(bo)
    for submission, says in ((own, "a vote is for the models of others"), (taken, "any more")):
        refused = client.post(f"{submission.get_absolute_url()}/vote")
        assert refused.status_code == 409
        assert "Your vote was not counted." in refused.content.decode()
        assert says in refused.content.decode()
    assert not Vote.objects.exists()


def test_votes_from_one_network_are_throttled(
    client: Client, suite: Suite, one_minute: None
) -> None:
    submission = waiting("a/one", suite)
    address = f"{submission.get_absolute_url()}/vote"
    answers = [client.post(address).status_code for _ in range(11)]
    assert answers == [302] * 10 + [429]


# Measured again


REASON = "the key of question 7 was wrong"


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
    board = make.board(suite)
    cells = [(board.run_id(row, 0), board.score(row, 0)) for row in range(len(board.models))]
    return [(str(run), score.value) for run, score in cells if score]


def test_the_old_number_stands_until_the_new_one_is_stored_and_then_the_new_one_alone(
    suite: Suite, heron: Variant
) -> None:
    old, new = again(heron)
    ordered = reruns.rerun([old], by="ada", reason="once more")
    assert (ordered.queued, ordered.asked, Rerun.objects.count()) == ([], 1, 1)
    before = old.results.get(subset="", metric="acc").value
    assert on_board(suite) == [(str(old.pk), before)]
    make.finish(new, skill=0.95, n=20, seed=3)
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.state, old.superseded_by) == ("superseded", new)
    assert (new.state, new.replaces) == ("done", None)
    assert on_board(suite) == [(str(new.pk), new.results.get(subset="", metric="acc").value)]
    (submission,) = heron.submissions.all()
    assert list(submission.runs.all()) == [new]
    assert old.events.last().why == REASON


def test_a_rerun_that_fails_leaves_what_stands_and_is_told(
    client: Client, suite: Suite, heron: Variant
) -> None:
    old, new = again(heron)
    make.fail(new, "ModelError", "no tokenizer any more")
    assert [run for run, _ in on_board(suite)] == [str(old.pk)]
    assert "no tokenizer any more" in client.get("/queue").text
    assert claims.retry(new, by="ada")
    make.fail(new, "ModelError", "no tokenizer any more")
    (other,) = reruns.rerun([old], by="ada", reason=REASON).queued
    make.finish(other, skill=0.9, n=20)
    assert "no tokenizer any more" not in client.get("/queue").text
    old.refresh_from_db()
    assert old.state == "superseded"
    assert not claims.retry(new, by="ada"), "another has replaced it"


def test_answers_are_not_taken_up_from_the_run_that_is_replaced(heron: Variant) -> None:
    old, new = again(heron)
    assert journal_folder(old) != journal_folder(new)
    entry = make.make_suite("other", benchmarks=("sums",), styles=("cloze",)).entries.get()
    other = make.queued_run(heron, entry)
    claim = claims.claim_next(make.make_worker())
    assert len(claim.runs) == 1, "one child asks by one journal"
    assert {other.pk, new.pk} >= {claim.runs[0].pk}


def test_a_newer_version_of_the_task_has_its_own_column_and_the_old_says_so(
    client: Client, suite: Suite, heron: Variant
) -> None:
    newer = make.make_suite("demo", benchmarks=("facts",), styles=("cloze",), version="1.1")
    task = make.task_version("facts", "cloze", "1.1")
    newer.entries.update(task=task, run_key=digest_of("facts 1.1"), shots=5)
    ordered = reruns.rerun(heron.runs.all(), by="ada", reason=REASON)
    assert (ordered.queued, ordered.gone) == ([], 1), "nothing is asked in that way any more"
    newer.entries.update(shots=0)
    old, new = again(heron)
    assert (new.task.version, new.run_key) == ("1.1", digest_of("facts 1.1"))
    make.finish(new, skill=0.9, n=20)
    assert [run for run, _ in on_board(newer)] == [str(new.pk)]
    assert [run for run, _ in on_board(suite)] == [str(old.pk)], "suites of then are as they were"
    html = client.get(old.get_absolute_url()).text
    assert "Measured by a newer version of the task as well" in html
    assert new.get_absolute_url() in html
    assert reruns.finished("facts@1.0").count() == 0, "once is enough"


def test_pages_say_why_it_runs_again_and_what_stands(client: Client, heron: Variant) -> None:
    old, new = again(heron)
    assert f"Runs again: {REASON}" in client.get("/queue").text
    assert "This number stands until" in client.get(old.get_absolute_url()).text
    assert f"It runs again: {REASON}</h2>" in client.get(new.get_absolute_url()).text
    make.finish(new, skill=0.9, n=20)
    html = client.get(old.get_absolute_url()).text
    assert ">Superseded</h2>" in html
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
    assert list(in_order(Run.objects.all())) == [first, later, second]


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
    admin_client: Client, heron: Variant
) -> None:
    (old,) = heron.runs.all()
    act = {"action": "rerun", "_selected_action": [str(old.pk)]}
    address = reverse("admin:leaderboard_run_changelist")
    assert "say why" in admin_client.post(address, act, follow=True).text
    assert not Run.objects.filter(state="queued").exists()
    admin_client.post(address, {**act, "reason": REASON})
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


# When waiting runs begin: against the real claims of the queue, and against sums by hand


NOON = datetime.fromisoformat("2026-11-01T12:00:00+00:00")
SMALL, LARGE = 5 * 10**7, 7 * 10**9


@pytest.fixture
def styled() -> Suite:
    """A suite of one benchmark in two styles."""
    return make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))


def done(
    task: TaskVersion, seconds: float, *, times: int = ENOUGH, parameters: int = SMALL
) -> None:
    """Runs of this task that took so long each, long ago."""
    worker = make.make_worker("of old")
    before = Run.objects.count()
    for number in range(before, before + times):
        started = timezone.now() - timedelta(days=2) + timedelta(hours=number)
        name = f"old/{task.name}-{parameters}-{number}"
        Run.objects.create(
            variant=make.make_variant(name, parameters=parameters),
            task=task,
            shots=0,
            run_key=f"{task.name}-{number}",
            needed_bytes=1,
            state="done",
            worker=worker,
            started=started,
            finished=started + timedelta(seconds=seconds),
        )
    Worker.objects.filter(name="of old").update(seen=NOON - timedelta(days=300))


def asked(name: str, styled: Suite, style: str = "cloze", **variant: Any) -> Run:
    made = make.make_variant(f"lab/{name}", **{"parameters": SMALL, **variant})
    return make.queued_run(made, styled.entries.get(style=style))


def turn_of(run: Run) -> estimate.Turn:
    return estimate.plan().places()[run.pk][0]


def begins(run: Run) -> float | None:
    begun = turn_of(run).begins
    return begun and round(begun.middle, 1)


def test_workers_share_the_queue_in_its_order(styled: Suite) -> None:
    done(styled.entries.get(style="cloze").task, 600)
    make.make_worker("a")
    runs = [asked(f"m{number}", styled) for number in range(4)]
    assert [begins(run) for run in runs] == [0.0, 600.0, 1200.0, 1800.0]
    make.make_worker("b")
    assert [begins(run) for run in runs] == [0.0, 0.0, 600.0, 600.0]


def test_what_is_left_of_a_running_run_is_waited_for(styled: Suite) -> None:
    done(styled.entries.get(style="cloze").task, 600)
    make.make_worker()
    running = make.start(asked("runs", styled), 5, 5, phase="prepare")
    waits = asked("waits", styled)
    assert begins(waits) == 600.0, "it is asked nothing yet"
    claims.report(running.lease_token, running, phase="evaluate", done=30, total=120)
    assert begins(waits) == 450.0


def test_before_five_runs_of_that_size_and_task_a_wait_is_guessed(styled: Suite) -> None:
    task = styled.entries.get(style="cloze").task
    make.make_worker()
    first, second = asked("first", styled), asked("second", styled)
    assert turn_of(first).takes is None
    assert begins(second) is None
    done(task, 600, times=ENOUGH - 1)
    guess = turn_of(first).takes
    assert guess == (600 / WIDE, 600, 600 * WIDE)
    assert guess.guessed
    assert turn_of(second).begins == guess
    done(task, 700, times=1)
    assert not turn_of(first).takes.guessed


def test_a_guess_borrows_from_the_nearest_size_and_then_from_other_tasks(styled: Suite) -> None:
    done(styled.entries.get(style="cloze").task, 600)
    make.make_worker()
    larger = turn_of(asked("larger", styled, parameters=2 * 10**9)).takes
    assert (larger.low, larger.high) == (600 / WIDE, 600 * GROWTH**2 * WIDE)
    assert larger.middle == pytest.approx(600 * GROWTH)
    assert turn_of(asked("other", styled, style="mmlu")).takes == (600 / WIDE, 600, 600 * WIDE)
    done(styled.entries.get(style="cloze").task, 3000, parameters=LARGE)
    smaller = turn_of(asked("smaller", styled, parameters=2 * 10**9)).takes
    assert (smaller.low, smaller.high) == (3000 / GROWTH / WIDE, 3000 * WIDE)


def test_the_usual_range_is_told(styled: Suite) -> None:
    task = styled.entries.get(style="cloze").task
    for number in range(11):
        done(task, 100.0 * number, times=1, parameters=SMALL + number)
    make.make_worker()
    takes = turn_of(asked("one", styled)).takes
    assert [round(end) for end in takes] == [100, 500, 900]


def test_a_worker_begins_a_claim_at_once_and_finishes_its_runs_one_by_one() -> None:
    def at(minutes: float) -> datetime:
        return NOON + timedelta(minutes=minutes)

    # Each claim holds task 1 and then task 2: ten minutes, then two.
    finished = [
        Finished("w", task, SMALL, at(60 * claim), at(60 * claim + end))
        for claim in range(ENOUGH)
        for task, end in ((1, 10), (2, 12))
    ]
    pace = Pace.of(reversed(finished))
    assert pace.span(1, SMALL) == (600.0, 600.0, 600.0)
    assert pace.span(2, SMALL) == (120.0, 120.0, 120.0)
    guess = pace.span(1, LARGE)
    assert guess.guessed
    assert Pace.of([]).span(1, SMALL) is None


@pytest.mark.parametrize(
    ("worker", "variant", "obstacle"),
    [
        ({}, {}, Obstacle.NO_WORKER),
        ({"memory_bytes": 10**9}, {"parameters": LARGE}, Obstacle.TOO_LARGE),
        ({"dtypes": ["float32"]}, {"dtype": "bfloat16"}, Obstacle.NO_DTYPE),
        ({"dtypes": ["float32"]}, {}, Obstacle.NONE),
    ],
)
def test_what_keeps_a_run_waiting_is_named(
    styled: Suite, worker: dict[str, Any], variant: dict[str, Any], obstacle: Obstacle
) -> None:
    if worker:
        make.make_worker("one")
        Worker.objects.filter(name="one").update(**worker)
    run = asked("one", styled, **variant)
    turn = turn_of(run)
    assert turn.obstacle == obstacle
    assert turn.takers == (("one",) if obstacle is Obstacle.NONE else ())
    assert (turn.begins is None) == (obstacle is not Obstacle.NONE)
    if obstacle is Obstacle.TOO_LARGE:
        done(run.task, 600)
        assert begins(asked("fits", styled)) == 0.0, "it holds up nobody"


def test_after_a_failure_of_ours_a_run_rests_and_others_go_first(styled: Suite) -> None:
    done(styled.entries.get(style="cloze").task, 20)
    worker = make.make_worker()
    resting = asked("rests", styled)
    claim = claims.claim_next(worker)
    claims.fail(claim.token, resting, error_class="InfraError", message="the disk is full")
    other = asked("other", styled)
    turn = turn_of(resting)
    assert turn.obstacle is Obstacle.RESTING
    assert 0 < turn.begins.middle < 31
    assert begins(other) == 0.0


def fill(worker: Worker, seconds: float) -> None:
    until = timezone.now() + timedelta(seconds=seconds)
    Worker.objects.filter(pk=worker.pk).update(full_until=until)


def test_a_worker_whose_machine_is_full_is_counted_on_when_it_has_rested(styled: Suite) -> None:
    done(styled.entries.get(style="cloze").task, 600)
    full = make.make_worker("full")
    first = asked("first", styled)
    fill(full, -1)
    assert begins(first) == 0.0, "its rest is over"
    fill(full, 200)
    turn = turn_of(first)
    assert 100 < turn.begins.middle < 201
    assert (turn.obstacle, turn.takers) == (Obstacle.FULL, ("full",))
    assert estimate.plan().all_rest()
    make.make_worker("other")
    second = asked("second", styled)
    assert (turn_of(first).obstacle, begins(first)) == (Obstacle.NONE, 0.0)
    assert 100 < begins(second) < 201, "the other is busy for 600 seconds"
    assert not estimate.plan().all_rest()


def test_a_run_that_found_a_machine_full_begins_elsewhere_or_after_its_hour(styled: Suite) -> None:
    done(styled.entries.get(style="cloze").task, 600)
    make.make_worker("was full")
    avoids = asked("avoids", styled)
    until = timezone.now() + timedelta(seconds=3000)
    Run.objects.filter(pk=avoids.pk).update(full_on="was full", full_until=until)
    other = asked("other", styled)
    assert 2900 < begins(avoids) < 3001
    assert begins(other) == 0.0, "it goes first"
    make.make_worker("another")
    assert begins(avoids) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_the_order_is_that_in_which_one_worker_claims(styled: Suite, seed: int) -> None:
    drawn = random.Random(seed)
    variants = [make.make_variant(f"lab/{name}", parameters=SMALL) for name in "abcd"]
    wanted = [(variant, entry) for variant in variants for entry in styled.entries.all()]
    for variant, entry in drawn.sample(wanted, 6):
        make.queued_run(variant, entry, priority=drawn.choice((0, 0, 1)))
    worker = make.make_worker()
    foretold = [[run.pk for run in turn.runs] for turn in estimate.plan().turns]
    taken = []
    while claim := claims.claim_next(worker):
        taken.append([run.pk for run in claim.runs])
    assert foretold == taken
