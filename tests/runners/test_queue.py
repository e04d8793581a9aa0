"""The rows of Run are the queue: who may take what, and who may write what afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evalcore.engine import VERSION
from evalcore.record import RunRecord
from evalcore.task.identity.digest import docs_digest
from leaderboard.health import stand
from leaderboard.models import Result, Run, TaskVersion, Worker
from leaderboard.queue import claims, orders, records
from leaderboard.signals import runs_queued
from tests.runners import rows
from tests.runners.rows import claimed_by

pytestmark = pytest.mark.django_db

PAST = timedelta(seconds=1)
FULL = "the worker's disk is full: no space left on device"


def let_lease_run_out(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=Now() - PAST)


def story(run: Run) -> list[tuple[str, str]]:
    return [(event.state, event.by) for event in run.events.all()]


def test_a_queued_run_is_announced_after_the_commit(django_capture_on_commit_callbacks) -> None:
    heard: list[object] = []

    def listen(sender: object, **_: object) -> None:
        heard.append(sender)

    runs_queued.connect(listen)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            rows.queued("arc")
            assert heard == []
    finally:
        runs_queued.disconnect(listen)
    assert heard == [Run]


def test_runs_are_queued_together_by_one_statement(django_assert_num_queries) -> None:
    """However many there are, each with its own event and its own moment."""
    rows.queued("warm-up")
    few, many = (
        [rows.unsaved(f"task {number}") for number in range(first, last)]
        for first, last in ((0, 2), (2, 22))
    )
    with CaptureQueriesContext(connection) as of_few:
        claims.enqueue(few, by="bo", why="again")
    with django_assert_num_queries(len(of_few)):
        queued = claims.enqueue(many, by="bo", why="again")
    assert queued == many
    stored = Run.objects.filter(pk__in=[run.pk for run in many])
    assert {run.state for run in stored} == {Run.State.QUEUED}
    assert [run.pk for run in stored.order_by("created", "due")] == [run.pk for run in many]
    assert all(story(run) == [("queued", "bo")] for run in stored)
    with pytest.raises(IntegrityError), transaction.atomic():
        claims.enqueue([rows.unsaved("a new one"), rows.unsaved("task 3")], by="bo")
    assert not Run.objects.filter(task__name="a new one").exists()


def test_one_worker_wins_a_run_which_is_leased_to_it_and_counts_an_attempt() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker("ada"))
    assert claims.claim_next(rows.worker("bo")) is None
    run.refresh_from_db()
    assert (run.state, run.attempt, run.lease_token) == ("running", 1, claim.token)
    assert Run.objects.filter(
        Q(lease_until__gt=Now() + timedelta(seconds=50)) & Q(lease_until__lte=Now() + claims.LEASE)
    ).exists()
    assert story(run) == [("queued", "a visitor"), ("running", "ada")]


def test_a_claim_takes_all_runs_of_a_variant_shots_and_mode_by_priority_and_then_by_age() -> None:
    together = rows.queued("arc", "mmlu", "facts")
    (shots,) = rows.queued("arc", shots=5)
    (compat,) = rows.queued("sums", mode="compat")
    (urgent,) = rows.queued("arc", variant=rows.variant("tiny/gpt2"), priority=5)
    ada = rows.worker()
    taken = [{run.pk for run in claimed_by(ada).runs} for _ in range(4)]
    assert taken == [{urgent.pk}, {run.pk for run in together}, {shots.pk}, {compat.pk}]


def names(count: int, benchmarks: int) -> list[TaskVersion]:
    """Tasks of so many benchmarks, in the order of the benchmarks."""
    made = [rows.task(f"task{number:02}") for number in range(count)]
    for number, task in enumerate(made):
        task.benchmark = f"benchmark{number * benchmarks // count}"
        task.save()
    return made


def test_idle_workers_share_what_is_asked_of_one_model_by_whole_benchmarks() -> None:
    tasks = names(24, benchmarks=4)
    rows.queued(*(task.name for task in tasks))
    ada, bo = rows.worker("ada"), rows.worker("bo")
    Worker.objects.create(
        name="small", device="cpu", memory_bytes=1, dtypes=["float32"], started=Now(), seen=Now()
    )
    gone = rows.worker("gone")
    Worker.objects.filter(pk=gone.pk).update(ended=Now())
    first, second = claimed_by(ada), claimed_by(bo)
    # Of three, one is too small and one has ended.
    assert (len(first.runs), len(second.runs)) == (12, 12)
    asked = [{run.task.benchmark for run in claim.runs} for claim in (first, second)]
    assert asked == [{"benchmark0", "benchmark1"}, {"benchmark2", "benchmark3"}]


def test_nothing_is_left_to_workers_that_are_busy_paused_full_or_needed_elsewhere() -> None:
    tasks = names(24, benchmarks=4)
    ada, bo = rows.worker("ada"), rows.worker("bo")
    everything = rows.queued(*(task.name for task in tasks), priority=1)
    (other,) = rows.queued("arc", variant=rows.variant("tiny/gpt2"))

    def queue_again() -> None:
        for run in everything:
            claims.cancel(run, by="the operator")
            claims.retry(run, by="the operator")

    assert len(claimed_by(ada).runs) == 24  # bo is needed for the other
    assert [run.pk for run in claimed_by(bo).runs] == [other.pk]
    queue_again()
    assert len(claimed_by(ada).runs) == 24  # bo is busy
    claims.cancel(other, by="the operator")
    queue_again()
    orders.give("pause", "bo", by="the operator")
    assert len(claimed_by(ada).runs) == 24
    orders.lift("bo")
    queue_again()
    Worker.objects.filter(pk=bo.pk).update(full_until=Now() + timedelta(minutes=5))
    assert len(claimed_by(ada).runs) == 24


def test_few_runs_are_not_shared() -> None:
    rows.queued(*(task.name for task in names(6, benchmarks=6)))
    ada, _ = rows.worker("ada"), rows.worker("bo")
    assert len(claimed_by(ada).runs) == 6


def test_those_that_failed_together_are_taken_together_again() -> None:
    runs = rows.queued("arc", "mmlu", "facts")
    ada = rows.worker()
    claim = claimed_by(ada)
    for run in claim.runs:
        claims.fail(claim.token, run, error_class="InfraError", message="the Hub is down")
    assert claims.claim_next(ada) is None
    for run, seconds in zip(runs, (-1, 5, 60), strict=True):
        moment = Now() + timedelta(seconds=seconds)
        Run.objects.filter(pk=run.pk).update(not_before=moment)
    # The last of them has failed at another time, and rests on.
    assert {run.pk for run in claimed_by(ada).runs} == {run.pk for run in runs[:2]}


def test_a_run_goes_to_a_worker_that_holds_it_and_computes_as_it_is_packed() -> None:
    rows.queued("arc", needed_bytes=10 * rows.GIB)
    assert claims.claim_next(rows.worker("small", 10 * rows.GIB - 1)) is None
    large = rows.worker("large", 10 * rows.GIB)
    assert claims.claim_next(large) is not None
    rows.queued("arc", variant=rows.variant(dtype="float16"))
    packed = rows.variant("tiny/packed")
    packed.quantisation = "bitsandbytes 8-bit"
    packed.save()
    (run,) = rows.queued("arc", variant=packed)
    assert claims.claim_next(large) is None
    large.quantisations = ["bitsandbytes"]
    assert claimed_by(large).runs == (run,)


def test_renewing_extends_the_lease_of_what_is_still_ours_whose_progress_is_stored() -> None:
    kept, cancelled = rows.queued("arc", "mmlu")
    claim = claimed_by(rows.worker())
    let_lease_run_out(kept)
    claims.cancel(cancelled, by="the operator")
    assert claims.renew(claim.token) == {kept.pk}
    assert claims.release_stalled() == 0
    assert claims.report(claim.token, kept, phase="evaluate", done=3, total=10)
    kept.refresh_from_db()
    assert (kept.phase, kept.progress_done, kept.progress_total) == ("evaluate", 3, 10)


def test_a_completed_run_has_numbers_files_and_pins_and_fixes_what_its_column_compares() -> None:
    (run,) = rows.queued("arc")
    column, other = rows.entry(run), rows.entry(rows.unsaved("mmlu"))
    claim = claimed_by(rows.worker())
    parts = [rows.result("arc"), rows.result("arc", subset="physics", value=0.4)]
    claims.complete(claim.token, run, rows.record(run, *parts), rows.files())
    run.refresh_from_db()
    assert (run.state, run.lease_token, run.docs_digest) == (
        "done",
        None,
        docs_digest(rows.DIGESTS),
    )
    assert run.dataset_commits == {"arc": "e" * 40}
    assert run.engine_version == VERSION
    assert set(run.results.values_list("subset", "value")) == {("", 0.5), ("physics", 0.4)}
    assert set(run.artifacts.values_list("kind", "rows")) == {("record", None), ("samples", 100)}
    assert story(run)[-1] == ("done", "ada")

    (again,) = rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    later = rows.record(again, rows.result("arc", comparability_key="x" * 64))
    claims.complete(claimed_by(rows.worker("bo")).token, again, later, rows.files())
    column.refresh_from_db()
    other.refresh_from_db()
    assert (column.comparability_key, other.comparability_key) == ("k" * 64, "")


def test_a_worker_whose_lease_was_taken_over_writes_nothing() -> None:
    (run,) = rows.queued("arc")
    old = claimed_by(rows.worker("ada"))
    let_lease_run_out(run)
    assert claims.release_stalled() == 1
    new = claimed_by(rows.worker("bo"))

    assert claims.renew(old.token) == set()
    assert not claims.report(old.token, run, phase="evaluate", done=9, total=9)
    with pytest.raises(claims.LeaseLost):
        claims.complete(old.token, run, rows.record(run), rows.files())
    with pytest.raises(claims.LeaseLost):
        claims.fail(old.token, run, error_class="ModelError", message="too late")
    assert claims.give_back(old.token, why="too late") == 0
    assert claims.set_aside(old.token, Worker.objects.get(name="ada"), message=FULL) == 0

    run.refresh_from_db()
    assert (run.state, run.lease_token, run.progress_done) == ("running", new.token, 0)
    assert run.times_full == 0
    assert not Result.objects.exists()
    assert not run.artifacts.exists()
    assert story(run)[-1] == ("running", "bo")


@pytest.mark.django_db(transaction=True)
def test_results_that_the_database_or_we_refuse_leave_nothing_behind() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    part = rows.result("arc", subset="physics")
    twice = rows.record(run, rows.result("arc"), part, part)
    other = rows.record(run, engine={"version": "9.9.9"})
    for record, error, says in (
        (twice, IntegrityError, "(?i)unique"),
        (other, ValueError, f"version '9.9.9' of .* worker has {VERSION}"),
    ):
        with pytest.raises(error, match=says):
            claims.complete(claim.token, run, record, rows.files())
        run.refresh_from_db()
        assert (run.state, run.lease_token, run.docs_digest) == ("running", claim.token, "")
        assert not run.results.exists()
        assert not run.artifacts.exists()


def test_a_record_that_is_not_the_runs_own_or_has_no_numbers_is_refused() -> None:
    (run,) = rows.queued("arc")
    own = rows.record(run)
    records.check(run, own)

    def of_model(**pins: object) -> RunRecord:
        return replace(own, model={**own.model, **pins})

    def with_number(**fields: object) -> RunRecord:
        return replace(own, results=[rows.result("arc", **fields)])

    for wrong, says in (
        (replace(own, run_key="f" * 64), "run_key"),
        (replace(own, limit=10.0), "only 10.0 documents"),
        (replace(own, datasets={"arc": {"commit": None}}), "no commit is known of the data of arc"),
        (replace(own, environment={"torch": "\0"}), "PostgreSQL keeps no NUL"),
        (of_model(commit="b" * 40), "was evaluated, .* was asked for"),
        (of_model(adapter="org/adapter@abc"), "was evaluated, .* was asked for"),
        (of_model(code=["somebody/own@abc"]), "was evaluated, .* was asked for"),
        (of_model(computed_by={"name": "vllm"}), "was evaluated, .* was asked for"),
        (of_model(delta="org/delta@abc"), "delta .* another variant than the one that was"),
        (of_model(gguf_file="m-Q8_0.gguf"), "gguf_file .* another variant than the one that"),
        (of_model(unpinned=True), "asked through a server.*evaluate the published model"),
        (with_number(subset="physics"), "no result for the task itself"),
        (with_number(value=0.39), "acc of arc: value 0.39, .*not in its interval"),
        (with_number(value=0.61), "acc of arc: value 0.61, .*not in its interval"),
        (with_number(high=math.inf), "not finite"),
        (with_number(stderr=-0.01), "or the error below 0"),
        (with_number(n=0), "0 documents"),
        (with_number(filter="x" * 500), "filter"),
    ):
        with pytest.raises(ValueError, match=says):
            records.check(run, wrong)


def test_a_failure_of_the_model_or_the_task_ends_the_run_until_it_is_tried_again() -> None:
    runs = rows.queued("arc", "mmlu")
    worker = rows.worker()
    token = claimed_by(worker).token
    for run, error_class in zip(runs, ("ModelError", "TaskError"), strict=True):
        claims.fail(token, run, error_class=error_class, message="no column", log_tail="line")
        run.refresh_from_db()
        assert (run.state, run.error_class) == ("failed", error_class)
        assert (run.error_message, run.log_tail) == ("no column", "line")
        assert run.finished is not None

    assert claims.retry(run, by="the operator")
    assert not claims.retry(run, by="the operator"), "it waits already"
    run.refresh_from_db()
    assert (run.state, run.attempt, run.error_message, run.log_tail) == ("queued", 0, "", "")
    assert story(run)[-2:] == [("failed", "ada"), ("queued", "the operator")]
    again = claimed_by(worker)
    assert again.runs == (run,)
    assert again.runs[0].attempt == 1


def test_a_failure_of_ours_rests_and_is_tried_three_times() -> None:
    (run,) = rows.queued("arc")
    ada = rows.worker()
    rests = []

    def fail() -> None:
        token = claimed_by(ada).token
        claims.fail(token, run, error_class="InfraError", message="the disk is full")

    for _ in range(2):
        fail()
        assert claims.claim_next(ada) is None
        run.refresh_from_db()
        assert (run.state, run.error_message) == ("queued", "the disk is full")
        rests.append(run.not_before - run.started)
        Run.objects.update(not_before=Now() - PAST)
    fail()
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("failed", 3)
    assert rests[0] < rests[1]


def test_a_run_given_back_is_not_charged_with_the_attempt() -> None:
    done, open_run = rows.queued("arc", "mmlu")
    claim = claimed_by(rows.worker())
    claims.complete(claim.token, done, rows.record(done), rows.files())
    assert claims.give_back(claim.token, why="the worker stops") == 1
    done.refresh_from_db()
    open_run.refresh_from_db()
    assert done.state == "done"
    assert (open_run.state, open_run.attempt, open_run.lease_token) == ("queued", 0, None)
    assert open_run.events.last().why == "the worker stops"


def test_a_stalled_run_is_released_and_given_up_once_it_outlived_three_workers() -> None:
    (run,) = rows.queued("arc")
    (lively,) = rows.queued("arc", shots=5)
    ada = rows.worker()
    claimed_by(ada)
    claimed_by(rows.worker("bo"))
    for attempt in (1, 2, 3):
        token = Run.objects.get(pk=run.pk).lease_token
        assert claims.report(token, run, phase="load", done=0, total=0)
        let_lease_run_out(run)
        assert claims.release_stalled() == 1
        run.refresh_from_db()
        assert (run.state, run.attempt) == ("failed" if attempt == 3 else "queued", attempt)
        claims.claim_next(ada)
    assert run.error_class == "InfraError"
    assert "ada stopped reporting in attempt 3" in run.error_message
    lively.refresh_from_db()
    assert lively.state == "running"


def test_a_run_that_was_not_begun_is_not_charged_with_the_death_of_its_worker() -> None:
    begun, waiting = rows.queued("arc", "mmlu")
    Run.objects.update(attempt=claims.MAX_ATTEMPTS - 1)
    claim = claimed_by(rows.worker("ada"))
    claims.report(claim.token, begun, phase="evaluate", done=1, total=9)
    claims.report(claim.token, waiting, phase=claims.WAITS, done=0, total=0)
    for run in (begun, waiting):
        let_lease_run_out(run)
    assert claims.release_stalled() == 2
    begun.refresh_from_db()
    waiting.refresh_from_db()
    assert (begun.state, begun.error_class) == ("failed", "InfraError")
    assert (waiting.state, waiting.attempt) == ("queued", claims.MAX_ATTEMPTS - 1)


def test_a_waiting_and_a_running_run_can_be_cancelled_and_a_finished_one_stays() -> None:
    waiting = rows.queued("arc", shots=5)[0]
    (running,) = rows.queued("mmlu", priority=1)
    (finished,) = rows.queued("facts", priority=2)
    claim = claimed_by(rows.worker())
    claims.complete(claim.token, finished, rows.record(finished), rows.files())
    assert claims.cancel(waiting, by="ada")
    assert claims.cancel(running, by="ada", why="withdrawn")
    assert not claims.cancel(finished, by="ada")
    assert not claims.retry(finished, by="ada")
    with pytest.raises(claims.LeaseLost):
        claims.complete(claim.token, running, rows.record(running), rows.files())
    running.refresh_from_db()
    assert (running.state, running.lease_token) == ("cancelled", None)
    assert running.events.last().why == "withdrawn"


def found_full(worker: Worker) -> None:
    claim = claimed_by(worker)
    assert claims.set_aside(claim.token, worker, message=FULL) == len(claim.runs)


def rest_of_runs_is_over() -> None:
    Run.objects.update(not_before=Now() - PAST)


def rest_of_workers_is_over() -> None:
    Worker.objects.update(full_until=Now() - PAST)


def test_a_run_goes_from_a_full_machine_to_another_while_the_full_one_rests() -> None:
    runs = rows.queued("arc", "mmlu")
    rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    ada, bo = rows.worker("ada"), rows.worker("bo")
    found_full(ada)
    for run in runs:
        run.refresh_from_db()
        assert (run.state, run.attempt) == ("queued", 0)
    assert claims.claim_next(ada) is None
    rest_of_workers_is_over()
    rest_of_runs_is_over()
    other = claimed_by(ada)
    assert other.runs[0].variant.hub_model.repo_id == "tiny/gpt2", "the same goes elsewhere"
    taken = claimed_by(bo)
    assert {run.pk for run in taken.runs} == {run.pk for run in runs}
    assert {run.attempt for run in taken.runs} == {1}


def test_the_only_worker_takes_it_again_when_both_have_rested() -> None:
    rows.queued("arc")
    ada = rows.worker("ada")
    rows.worker("small", memory_bytes=1)
    found_full(ada)
    rest_of_runs_is_over()
    assert claims.claim_next(ada) is None
    rest_of_workers_is_over()
    assert claims.claim_next(ada) is not None


def test_a_run_that_finds_machine_after_machine_full_ends_and_says_what_to_do() -> None:
    (run,) = rows.queued("arc")
    rests = []
    for number in range(claims.MOST_TIMES_FULL):
        found_full(rows.worker(f"worker{number}"))
        run.refresh_from_db()
        if run.state == "queued":
            rests.append(run.not_before - run.started)
            rest_of_runs_is_over()
    assert (run.state, run.error_class, run.times_full) == (
        "failed",
        "InfraError",
        claims.MOST_TIMES_FULL,
    )
    assert "make room on the workers" in run.error_message
    assert rests == sorted(rests)
    assert rests[-1] > 100 * claims.FIRST_REST
    assert claims.retry(run, by="the operator")
    run.refresh_from_db()
    assert (run.times_full, run.full_on) == (0, "")


def give_back(claim: claims.Claim) -> None:
    claims.give_back(claim.token, why="drained")


def stall(claim: claims.Claim) -> None:
    let_lease_run_out(claim.runs[0])
    assert claims.release_stalled() == 1


def rest(claim: claims.Claim) -> None:
    claims.fail(claim.token, claim.runs[0], error_class="InfraError", message="the Hub is down")


def try_again(claim: claims.Claim) -> None:
    claims.fail(claim.token, claim.runs[0], error_class="ModelError", message="no tokenizer")
    assert claims.retry(Run.objects.get(), by="the operator")


@pytest.mark.parametrize("happens", [give_back, stall, rest, try_again])
def test_a_run_that_is_queued_again_waits_from_then_on(
    happens: Callable[[claims.Claim], None],
) -> None:
    rows.queued("arc")
    Run.objects.update(created=Now() - timedelta(days=30))
    happens(claimed_by(rows.worker()))
    assert Run.objects.get().state == "queued"
    Run.objects.exclude(not_before=None).update(not_before=F("not_before") - timedelta(seconds=31))
    oldest = stand.waiting(timezone.now()).oldest_seconds
    assert oldest is not None
    assert oldest < 60
