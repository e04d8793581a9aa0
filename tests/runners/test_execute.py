"""From a claim to stored results, with real child processes that behave and misbehave."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psutil
import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from evalcore.record import read_samples
from leaderboard import logs
from leaderboard.models import Run, Worker
from leaderboard.models.run import ErrorClass
from leaderboard.queue import claims, orders
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from runners import leftovers, prctl
from runners.execute import evaluate_claim
from runners.watch import Failed, Watch
from tests.runners import rows, standin

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, with the stand-in where the engine is started."""
    settings.PLUMBLINE_HOME = tmp_path
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": tmp_path / "artifacts"}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    program = (sys.executable, str(Path(standin.__file__)))
    monkeypatch.setattr("runners.backends.PYTHON", program)
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_survives() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    left = set(psutil.Process().children(recursive=True)) - before
    assert [child for child in left if child.is_running()] == []


def evaluate(
    behaviour: str,
    *tasks: str,
    worker: Worker | None = None,
    stopping: threading.Event | None = None,
) -> list[Run]:
    """Queue runs of a model that behaves so, and do what a worker does; the runs afterwards."""
    runs = rows.queued(*(tasks or ("arc",)), variant=rows.variant(f"standin/{behaviour}"))
    worker = worker or rows.worker()
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, stopping or threading.Event())
    for run in runs:
        run.refresh_from_db()
    return runs


def soon(act: Callable[[], object], seconds: float = 1.0) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def test_every_task_of_a_claim_is_stored_with_its_files_and_the_work_files_go(home: Path) -> None:
    runs = evaluate("slow", "arc", "mmlu")
    assert [run.state for run in runs] == ["done", "done"]
    assert all(run.results.get().value == 0.5 for run in runs)
    assert runs[0].progress_done == runs[0].progress_total == 100
    samples = runs[1].artifacts.get(kind="samples")
    assert {row["task"] for row in read_samples(artifacts.path_of(samples.sha256))} == {"mmlu"}
    assert vectors.matrix([runs[1].results.get().pk]).scores.mean() == 0.5
    record = json.loads(artifacts.path_of(runs[1].artifacts.get(kind="record").sha256).read_text())
    assert record["task"] == "mmlu"
    for left in ("work", "logs", "journal"):
        assert list((home / left).iterdir()) == []


def test_garbage_on_standard_output_hurts_nobody() -> None:
    (run,) = evaluate("garbage")
    assert run.state == "done"


def test_a_model_that_does_not_exist_fails_before_anything_is_loaded() -> None:
    (run,) = evaluate("unknown")
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert "does not exist" in run.error_message


def test_a_model_error_fails_all_runs_of_the_model_without_telling_secrets(home: Path) -> None:
    runs = evaluate("chatty-failure", "arc", "mmlu")
    for run in runs:
        assert (run.state, run.error_class) == ("failed", "ModelError")
        assert run.error_message == "no tokenizer in (home)/hf/x"
        assert run.log_tail == "Loading from (home)/hf with hf_(hidden)\nred"
        assert str(home) not in run.log_tail


def test_a_failure_beside_questions_that_stay_offline_quotes_nothing() -> None:
    runs = evaluate("chatty-failure", "arc", "gpqa_diamond_cloze")
    for run in runs:
        assert (run.state, run.error_class) == ("failed", "ModelError")
        assert run.error_message.startswith("the reason is withheld")
        assert run.log_tail == ""
        assert not any("tokenizer" in event.why for event in run.events.all())


def test_a_task_error_fails_the_guilty_task_alone() -> None:
    arc, mmlu, facts = evaluate("guilty-task", "arc", "mmlu", "facts")
    assert (mmlu.state, mmlu.error_class) == ("failed", "TaskError")
    assert (arc.state, facts.state) == ("done", "done")


def test_a_model_error_in_one_task_leaves_the_others_their_chance() -> None:
    arc, mmlu, facts = evaluate("weak-at-mmlu", "arc", "mmlu", "facts")
    assert (mmlu.state, mmlu.error_class) == ("failed", "ModelError")
    assert mmlu.error_message == "its window is too short"
    assert (arc.state, facts.state) == ("done", "done")


def test_task_files_of_another_version_are_a_task_error() -> None:
    (run,) = evaluate("other-version")
    assert (run.state, run.error_class) == ("failed", "TaskError")
    assert "not those of the queued version" in run.error_message
    assert not run.results.exists()


def test_a_file_outside_the_work_folder_is_never_stored() -> None:
    arc, mmlu = evaluate("foreign-file", "arc", "mmlu")
    assert arc.state == "done"
    assert (mmlu.state, mmlu.error_class, mmlu.attempt) == ("queued", "InfraError", 1)
    assert not mmlu.artifacts.exists()


@pytest.mark.parametrize("wrong", standin.WRONG)
def test_a_record_that_no_engine_writes_is_never_stored_and_is_told_of(wrong: str) -> None:
    arc, mmlu = evaluate(wrong, "arc", "mmlu")
    assert (arc.state, arc.error_class, arc.attempt) == ("queued", "InfraError", 1)
    assert "arc" in arc.error_message
    assert not arc.results.exists()
    assert not arc.artifacts.exists()
    assert mmlu.state == "done"


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("infra", "the disk is full"),
        ("segfault", "SIGSEGV"),
        ("killed", "SIGKILL"),
        ("silent-end", "without results for arc"),
        ("nameless-signal", "signal 40"),
        ("says-that-it-was-stopped", "nobody had asked it"),
    ],
)
def test_what_is_our_fault_goes_back_to_the_queue(behaviour: str, says: str) -> None:
    (run,) = evaluate(behaviour)
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 1)
    assert says in run.error_message
    assert run.not_before is not None


def test_a_model_that_takes_more_memory_than_the_worker_has_is_stopped() -> None:
    rows.variant("standin/hungry")
    small = rows.worker("small", memory_bytes=200 * 2**20)
    run = rows.queued("arc", variant=rows.variant("standin/hungry"), needed_bytes=1)[0]
    claim = claims.claim_next(small)
    assert claim is not None
    evaluate_claim(claim, small, threading.Event())
    run.refresh_from_db()
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert run.error_message.startswith("out of memory")


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("talker", "the process printed .* MiB, and 4 MiB is the most"),
        ("complainer", "the process printed .* MiB, and 4 MiB is the most"),
        ("hoarder", r"the model's process took \d+\.\d GiB of files of the disk"),
        ("collector", "the model's process took more than 50 files of the disk"),
    ],
)
def test_a_model_that_fills_a_disk_or_prints_without_end_is_stopped(
    behaviour: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.watch.SAID_BYTES", 4 * 2**20)
    monkeypatch.setattr("runners.footprint.DISK_BYTES", 8 * 2**20)
    monkeypatch.setattr("runners.footprint.FILES", 50)
    (run,) = evaluate(behaviour)
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert re.fullmatch(says, run.error_message)


def test_folders_too_deep_to_be_seen_stop_their_model_and_no_worker(
    home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", home], check=True))
    worker = rows.worker()
    (run,) = evaluate("digger", worker=worker)
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert run.error_message.startswith("the model's process hides files")
    monkeypatch.setattr("runners.watch.STORE_EVERY", math.inf)  # these end before a look
    for task in ("arc", "mmlu"):  # the second with the journal that the first has left
        (run,) = evaluate("digger-that-ends", task, worker=worker)
        assert (run.state, run.error_message) == ("failed", "its weights are spoilt")
    assert list((home / "work").iterdir()) == []
    monkeypatch.setattr(leftovers, "KEEP_JOURNALS", timedelta(seconds=-1))
    leftovers.sweep()
    assert list((home / "journal").iterdir()) == []


def test_a_child_that_is_at_work_as_the_disk_runs_full_is_ended_and_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = itertools.chain([2**30], itertools.repeat(2**20))
    monkeypatch.setattr("runners.footprint._free", lambda disks: next(free) if disks else 0)
    monkeypatch.setattr("runners.execute._fetch", lambda *_: None)
    (run,) = evaluate("stubborn")
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 0)
    assert run.error_message == "the worker's disk is full"


def test_a_child_that_gives_no_sign_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"download": 60.0, "load": 60.0, "prepare": 60.0, "evaluate": 1.0}
    monkeypatch.setattr("runners.watch.STALLED", limits)
    (run,) = evaluate("stubborn")
    assert (run.state, run.error_class) == ("queued", "InfraError")
    assert "no sign of life" in run.error_message


def test_a_child_that_gives_signs_of_life_for_ever_is_ended_when_its_time_is_up(
    settings: Any,
) -> None:
    settings.PLUMBLINE_TIME_FACTOR = 2 / 3600
    (run,) = evaluate("dawdler")
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert re.fullmatch(
        r"arc took longer than the 0\.0 hours that a model of 1,000,000 parameters is given for it",
        run.error_message,
    )


def test_an_engine_that_dies_takes_no_run_with_it_that_it_had_not_begun() -> None:
    arc, mmlu, facts = evaluate("killer", "arc", "mmlu", "facts")
    assert (mmlu.state, mmlu.error_class, mmlu.attempt) == ("queued", "InfraError", 1)
    assert (arc.state, facts.state) == ("done", "done")


def test_the_last_attempt_is_one_run_to_a_child() -> None:
    runs = rows.queued("arc", "mmlu", "facts", variant=rows.variant("standin/killer-as-it-loads"))
    Run.objects.update(attempt=claims.MAX_ATTEMPTS - 1)
    worker = rows.worker()
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, threading.Event())
    for run in runs:
        run.refresh_from_db()
    assert [run.state for run in runs] == ["done", "failed", "done"]


def test_a_worker_that_dies_over_one_run_dies_over_none_that_an_earlier_child_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Died(BaseException):
        """What a worker does that is killed: nothing more."""

    def die_over_one(watch: Watch, *arguments: Any) -> None:
        if len(watch.runs) == 1:
            raise Died
        Run.objects.update(phase="prepare")
        raise Failed(ErrorClass.TASK, "nobody knows which of them")

    monkeypatch.setattr("runners.execute._fetch", die_over_one)
    runs = rows.queued("arc", "mmlu", "facts", variant=rows.variant("standin/polite"))
    worker = rows.worker()
    claim = claims.claim_next(worker)
    assert claim is not None
    with pytest.raises(Died):
        evaluate_claim(claim, worker, threading.Event())
    Run.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert claims.release_stalled() == 3
    for run in runs:
        run.refresh_from_db()
    assert [(run.state, run.attempt) for run in runs] == [
        ("queued", 1),
        ("queued", 0),
        ("queued", 0),
    ]


def fail_to_renew(monkeypatch: pytest.MonkeyPatch, *, seconds: float) -> None:
    """The heartbeat, and nobody else, finds no database for so long; leases last three seconds."""
    until = time.monotonic() + seconds
    renew = claims.renew

    def unless_cut_off(token: Any) -> Any:
        if threading.current_thread().name == "heartbeat" and time.monotonic() < until:
            raise OperationalError("cut off")
        return renew(token)

    monkeypatch.setattr(claims, "LEASE", timedelta(seconds=3))
    monkeypatch.setattr("runners.heartbeat.RENEW_EVERY", 0.3)
    monkeypatch.setattr("runners.heartbeat.TRY_AGAIN", 0.1)
    monkeypatch.setattr(claims, "renew", unless_cut_off)


def test_a_worker_that_cannot_renew_its_lease_stops_its_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail_to_renew(monkeypatch, seconds=600)
    caplog.handler.setFormatter(logs.Json())
    stopping = threading.Event()
    timer = soon(stopping.set, 20.0)
    (run,) = evaluate("polite", stopping=stopping)
    timer.cancel()
    assert not stopping.is_set()
    assert (run.state, run.attempt, run.lease_token) == ("queued", 0, None)
    assert run.events.last().why == "ada could not renew its lease on the run"
    (said,) = [
        line for line in caplog.text.splitlines() if "the lease has run out: the work" in line
    ]
    assert json.loads(said)["runs"] == [str(run.pk)]  # logged by the heartbeat's own thread


def test_a_lease_outlives_a_database_error_that_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_renew(monkeypatch, seconds=1.5)
    stopping = threading.Event()
    soon(stopping.set, 5.0)
    (run,) = evaluate("polite", stopping=stopping)
    assert stopping.is_set()
    assert run.events.last().why == "ada was stopped"


def test_a_machine_that_others_have_filled_is_not_the_models_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total = psutil.virtual_memory().total
    full = SimpleNamespace(available=total // 100, total=total)
    monkeypatch.setattr("runners.watch.psutil.virtual_memory", lambda: full)
    (run,) = evaluate("killed")
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 0)
    assert "the worker's machine ran out of memory" in run.error_message


def test_the_sweep_leaves_a_folder_in_which_an_engine_still_writes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def sweep_after(*arguments: Any, **more: Any) -> None:
        complete(*arguments, **more)
        abandoned.mkdir()
        leftovers.sweep()
        folders.extend((home / "work").iterdir())

    abandoned = home / "work" / str(uuid4())
    complete = claims.complete
    monkeypatch.setattr(claims, "complete", sweep_after)
    (run,) = evaluate("garbage")
    assert run.state == "done"
    assert len(folders) == 1
    assert folders[0] != abandoned


def test_a_slow_store_does_not_let_the_lease_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LEASE", timedelta(seconds=2))
    monkeypatch.setattr("runners.heartbeat.RENEW_EVERY", 0.3)
    released = []

    def slowly(*arguments: Any, **more: Any) -> None:
        time.sleep(4)
        released.append(claims.release_stalled())
        complete(*arguments, **more)

    complete = claims.complete
    monkeypatch.setattr(claims, "complete", slowly)
    (run,) = evaluate("garbage")
    assert released == [0]
    assert run.state == "done"


@pytest.mark.parametrize("behaviour", ["polite", "stubborn"])
def test_a_worker_that_stops_gives_its_runs_back_in_time(behaviour: str) -> None:
    stopping = threading.Event()
    started = time.monotonic()
    soon(stopping.set, 2.0)
    (run,) = evaluate(behaviour, stopping=stopping)
    assert (run.state, run.attempt, run.lease_token) == ("queued", 0, None)
    assert time.monotonic() - started < 2.0 + 10.0


def test_a_drained_worker_gives_its_runs_back_as_untried_and_goes_on_when_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runners.heartbeat.RENEW_EVERY", 0.2)
    worker = rows.worker()
    soon(lambda: orders.give("drain", worker.name, by="ada"))
    began = time.monotonic()
    runs = evaluate("polite", "arc", "mmlu", worker=worker)
    assert time.monotonic() - began < 60
    assert [(run.state, run.attempt) for run in runs] == [("queued", 0), ("queued", 0)]
    assert runs[0].events.last().why == "ada was drained"
    assert claims.claim_next(worker) is None
    orders.lift(worker.name)
    assert claims.claim_next(worker) is not None


def test_cancelling_one_run_stops_it_and_lets_the_others_end() -> None:
    from django.db import connection

    def cancel() -> None:
        claims.cancel(Run.objects.get(task__name="arc"), by="ada")
        connection.close()

    soon(cancel, 1.5)
    arc, mmlu = evaluate("slow", "arc", "mmlu")
    assert (arc.state, mmlu.state) == ("cancelled", "done")
    assert not arc.results.exists()


def test_a_child_sees_neither_the_workers_environment_nor_its_parents(
    home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_the-workers-own-token")
    settings.HF_TOKEN = "hf_the-workers-own-token"
    monkeypatch.setenv("PLUMBLINE_SECRET_KEY", "the-sites-secret")
    monkeypatch.setattr("runners.execute._tidy", lambda *_: None)
    if sys.platform == "linux":
        prctl.hide_from_peers()
    (run,) = evaluate("spy")
    assert run.state == "done"
    seen = json.loads((home / "journal" / str(run.variant_id) / "seen.json").read_text())
    allowed = {
        *("PATH", "HOME", "LANG", "TMPDIR", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
        "HF_MODULES_CACHE",
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
        *("LD_LIBRARY_PATH", "OMP_NUM_THREADS", "LC_CTYPE"),
    }
    assert set(seen["environment"]) <= allowed
    assert seen["environment"]["HF_HUB_OFFLINE"] == "1"
    assert seen["environment"]["HOME"].startswith(str(home))
    # Of a process table of its own it sees nobody above; of the machine's, nothing of ours.
    assert seen["above"].get(str(os.getpid()), "not there") in ("not there", "PermissionError")
    assert "the-sites-secret" not in json.dumps(seen)
    assert "the-workers-own-token" not in json.dumps(seen)
