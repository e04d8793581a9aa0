"""The rows of Run are the queue: who may take what, and who may write what afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.db.models import Q
from django.db.models.functions import Now

from evalcore.engine import VERSION
from leaderboard.models import Result, Run, TaskVersion, Worker
from leaderboard.queue import claims, orders
from leaderboard.signals import runs_queued
from tests.runners import rows

pytestmark = pytest.mark.django_db

LEFT_BEHIND = timedelta(seconds=1)


def claimed_by(worker: Worker) -> claims.Claim:
    claim = claims.claim_next(worker)
    assert claim is not None
    return claim


def let_lease_run_out(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_until=Now() - LEFT_BEHIND)


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


def test_two_workers_and_one_run_have_one_winner() -> None:
    rows.queued("arc")
    assert claims.claim_next(rows.worker("ada")) is not None
    assert claims.claim_next(rows.worker("bo")) is None


def test_a_claim_counts_an_attempt_leases_the_run_and_is_noted() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    run.refresh_from_db()
    assert (run.state, run.attempt, run.lease_token) == ("running", 1, claim.token)
    assert Run.objects.filter(
        Q(lease_until__gt=Now() + timedelta(seconds=50)) & Q(lease_until__lte=Now() + claims.LEASE)
    ).exists()
    assert story(run) == [("queued", "a visitor"), ("running", "ada")]


def test_priority_comes_before_age_and_age_before_the_rest() -> None:
    one, two, three = (rows.variant(commit=letter * 40) for letter in "123")
    (first,) = rows.queued("arc", variant=one)
    (urgent,) = rows.queued("arc", variant=two, priority=5)
    (last,) = rows.queued("arc", variant=three)
    ada = rows.worker()
    order = [claimed_by(ada).runs[0].pk for _ in range(3)]
    assert order == [urgent.pk, first.pk, last.pk]


def test_a_claim_takes_all_runs_of_the_same_variant_shots_and_mode() -> None:
    together = rows.queued("arc", "mmlu", "facts")
    rows.queued("arc", shots=5)
    rows.queued("sums", mode="compat")
    rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    claim = claimed_by(rows.worker())
    assert {run.pk for run in claim.runs} == {run.pk for run in together}


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


def test_nothing_is_left_to_workers_that_are_busy_paused_or_needed_elsewhere() -> None:
    tasks = names(24, benchmarks=4)
    ada, bo = rows.worker("ada"), rows.worker("bo")
    everything = rows.queued(*(task.name for task in tasks), priority=1)
    (other,) = rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    assert len(claimed_by(ada).runs) == 24  # bo is needed for the other
    assert [run.pk for run in claimed_by(bo).runs] == [other.pk]

    for run in everything:
        claims.cancel(run, by="the operator")
        claims.retry(run, by="the operator")
    assert len(claimed_by(ada).runs) == 24  # bo is busy
    claims.cancel(other, by="the operator")
    for run in everything:
        claims.cancel(run, by="the operator")
        claims.retry(run, by="the operator")
    orders.give("pause", "bo", by="the operator")
    assert len(claimed_by(ada).runs) == 24


def test_nothing_is_left_to_a_worker_whose_machine_is_full() -> None:
    rows.queued(*(task.name for task in names(24, benchmarks=4)))
    ada, bo = rows.worker("ada"), rows.worker("bo")
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


def test_a_run_goes_to_a_worker_that_can_hold_it() -> None:
    rows.queued("arc", needed_bytes=10 * rows.GIB)
    assert claims.claim_next(rows.worker("small", 8 * rows.GIB)) is None
    assert claims.claim_next(rows.worker("large", 10 * rows.GIB)) is not None


def test_a_run_goes_to_a_worker_that_computes_in_its_precision() -> None:
    rows.queued("arc", variant=rows.variant(dtype="float16"))
    assert claims.claim_next(rows.worker()) is None


def test_renewing_extends_the_lease_of_what_is_still_ours() -> None:
    kept, cancelled = rows.queued("arc", "mmlu")
    claim = claimed_by(rows.worker())
    let_lease_run_out(kept)
    claims.cancel(cancelled, by="the operator")
    assert claims.renew(claim.token) == {kept.pk}
    assert claims.release_stalled() == 0


def test_progress_of_a_run_that_is_ours_is_stored() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    assert claims.report(claim.token, run, phase="evaluate", done=3, total=10)
    run.refresh_from_db()
    assert (run.phase, run.progress_done, run.progress_total) == ("evaluate", 3, 10)


def test_a_completed_run_has_its_numbers_its_files_and_its_pins() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    parts = [rows.result("arc"), rows.result("arc", subset="physics", value=0.4)]
    claims.complete(claim.token, run, rows.record(run, *parts), rows.files())
    run.refresh_from_db()
    assert (run.state, run.lease_token, run.docs_digest) == ("done", None, "d" * 64)
    assert run.dataset_commits == {"arc": "e" * 40}
    assert run.engine_version == VERSION
    assert set(run.results.values_list("subset", "value")) == {("", 0.5), ("physics", 0.4)}
    assert set(run.artifacts.values_list("kind", "rows")) == {("record", None), ("samples", 100)}
    assert story(run)[-1] == ("done", "ada")


def test_the_first_result_fixes_what_its_column_compares() -> None:
    (run,) = rows.queued("arc")
    column, other = rows.entry(run), rows.entry(rows.unsaved("mmlu"))
    claim = claimed_by(rows.worker())
    claims.complete(claim.token, run, rows.record(run), rows.files())
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

    run.refresh_from_db()
    assert (run.state, run.lease_token, run.progress_done) == ("running", new.token, 0)
    assert not Result.objects.exists()
    assert not run.artifacts.exists()
    assert story(run)[-1] == ("running", "bo")


@pytest.mark.django_db(transaction=True)
def test_results_that_the_database_refuses_leave_nothing_behind() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    outside = rows.result("arc", subset="physics", value=0.9)
    with pytest.raises(IntegrityError):
        claims.complete(
            claim.token, run, rows.record(run, rows.result("arc"), outside), rows.files()
        )
    run.refresh_from_db()
    assert (run.state, run.lease_token, run.docs_digest) == ("running", claim.token, "")
    assert not run.results.exists()
    assert not run.artifacts.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"run_key": "f" * 64}, "run_key"),
        ({"engine": {"version": "9.9.9"}}, f"names version '9.9.9' of .* worker has {VERSION}"),
        ({"limit": 10.0}, "only 10.0 documents"),
        ({"model": {"repository": "tiny/llama", "commit": "b" * 40}}, "was evaluated"),
        ({"datasets": {"arc": {"commit": None}}}, "no commit is known of the data of arc"),
        ({"results": [rows.result("arc", subset="physics")]}, "no result for the task itself"),
    ],
)
def test_a_record_that_is_not_the_runs_own_is_refused(wrong: dict[str, object], says: str) -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    with pytest.raises(ValueError, match=says):
        claims.complete(claim.token, run, rows.record(run, **wrong), rows.files())
    run.refresh_from_db()
    assert run.state == "running"


@pytest.mark.django_db(transaction=True)
def test_a_model_that_a_server_answered_for_stands_in_no_column() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    own = rows.record(run)
    served = replace(own, model={**own.model, "service": {"url": "http://x"}, "unpinned": True})
    with pytest.raises(ValueError, match=r"asked through a server.*evaluate the published model"):
        claims.complete(claim.token, run, served, rows.files())
    run.refresh_from_db()
    assert run.state == "running"
    assert not run.results.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("adapter", "org/adapter@abc"),
        ("delta", "org/delta@abc"),
        ("gguf_file", "model-Q8_0.gguf"),
        ("computed_by", {"name": "vllm", "version": "0.32.0"}),
    ],
)
def test_another_variant_of_the_model_stands_in_no_column(kind: str, value: object) -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    own = rows.record(run)
    other = replace(own, model={**own.model, kind: value})
    with pytest.raises(ValueError, match=r"was evaluated, .* was asked for|than the one that was"):
        claims.complete(claim.token, run, other, rows.files())
    run.refresh_from_db()
    assert run.state == "running"
    assert not run.results.exists()


@pytest.mark.parametrize("error_class", ["ModelError", "TaskError"])
def test_a_failure_of_others_ends_the_run_with_its_reason(error_class: str) -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    claims.fail(claim.token, run, error_class=error_class, message="no tokenizer", log_tail="line")
    run.refresh_from_db()
    assert (run.state, run.error_class, run.error_message, run.log_tail) == (
        "failed",
        error_class,
        "no tokenizer",
        "line",
    )
    assert run.finished is not None


def test_a_failure_of_ours_rests_and_is_tried_three_times() -> None:
    (run,) = rows.queued("arc")
    ada = rows.worker()
    rests = []
    for _ in range(2):
        claims.fail(
            claimed_by(ada).token, run, error_class="InfraError", message="the disk is full"
        )
        assert claims.claim_next(ada) is None
        run.refresh_from_db()
        assert (run.state, run.error_message) == ("queued", "the disk is full")
        rests.append(run.not_before - run.started)
        Run.objects.update(not_before=Now() - LEFT_BEHIND)
    claims.fail(claimed_by(ada).token, run, error_class="InfraError", message="the disk is full")
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


def test_a_stalled_run_is_released_and_a_renewed_one_is_not() -> None:
    stalled, lively = rows.queued("arc"), rows.queued("arc", shots=5)
    claimed_by(rows.worker("ada"))
    claimed_by(rows.worker("bo"))
    let_lease_run_out(stalled[0])
    assert claims.release_stalled() == 1
    stalled[0].refresh_from_db()
    lively[0].refresh_from_db()
    assert (stalled[0].state, lively[0].state) == ("queued", "running")


def test_a_run_that_outlived_three_workers_is_given_up() -> None:
    (run,) = rows.queued("arc")
    ada = rows.worker()
    for _ in range(3):
        assert claims.report(claimed_by(ada).token, run, phase="load", done=0, total=0)
        let_lease_run_out(run)
        assert claims.release_stalled() == 1
    run.refresh_from_db()
    assert (run.state, run.error_class, run.attempt) == ("failed", "InfraError", 3)
    assert "ada stopped reporting in attempt 3" in run.error_message


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


def test_cancelling_ends_a_waiting_and_a_running_run_but_no_finished_one() -> None:
    waiting = rows.queued("arc", shots=5)[0]
    (running,) = rows.queued("mmlu", priority=1)
    (finished,) = rows.queued("facts", priority=2)
    claim = claimed_by(rows.worker())
    claims.complete(claim.token, finished, rows.record(finished), rows.files())
    assert claims.cancel(waiting, by="ada")
    assert claims.cancel(running, by="ada", why="withdrawn")
    assert not claims.cancel(finished, by="ada")
    with pytest.raises(claims.LeaseLost):
        claims.complete(claim.token, running, rows.record(running), rows.files())
    running.refresh_from_db()
    assert (running.state, running.lease_token) == ("cancelled", None)
    assert running.events.last().why == "withdrawn"


def test_a_failed_run_that_is_tried_again_begins_anew_and_keeps_its_story() -> None:
    (run,) = rows.queued("arc")
    worker = rows.worker()
    claim = claimed_by(worker)
    claims.fail(claim.token, run, error_class="ModelError", message="no tokenizer", log_tail="x")
    assert claims.retry(run, by="the operator")
    assert not claims.retry(run, by="the operator"), "it waits already"
    run.refresh_from_db()
    assert (run.state, run.attempt, run.error_message, run.log_tail) == ("queued", 0, "", "")
    assert story(run)[-2:] == [("failed", "ada"), ("queued", "the operator")]
    again = claimed_by(worker)
    assert again.runs == (run,)
    assert again.runs[0].attempt == 1


def test_a_run_that_is_done_is_not_tried_again() -> None:
    (run,) = rows.queued("arc")
    claim = claimed_by(rows.worker())
    claims.complete(claim.token, run, rows.record(run), rows.files())
    assert not claims.retry(run, by="the operator")
