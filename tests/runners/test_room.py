"""A machine that is full is ours to mend: it charges no run, and the run goes elsewhere."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now

from evalcore import cli
from evalcore.errors import DISK_IS_FULL, InfraError, ModelError
from leaderboard.models import Run, Worker
from leaderboard.queue import claims, room
from runners.execute import evaluate_claim
from tests.runners import rows, standin

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "the worker's disk is full: no space left on device"
PAST = timedelta(seconds=1)


def found_full(worker: Worker) -> None:
    claim = claims.claim_next(worker)
    assert claim is not None
    assert room.set_aside(claim.token, worker, message=WHY) == len(claim.runs)


def rest_of_runs_is_over() -> None:
    Run.objects.update(not_before=Now() - PAST)


def rest_of_workers_is_over() -> None:
    Worker.objects.update(full_until=Now() - PAST)


def test_a_run_goes_from_a_full_machine_to_another_and_the_full_one_takes_nothing_at_first() -> (
    None
):
    runs = rows.queued("arc", "mmlu")
    rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    ada, bo = rows.worker("ada"), rows.worker("bo")
    found_full(ada)
    assert {
        (run.state, run.attempt) for run in Run.objects.filter(pk__in=[r.pk for r in runs])
    } == {("queued", 0)}
    assert claims.claim_next(ada) is None
    rest_of_workers_is_over()
    rest_of_runs_is_over()
    other = claims.claim_next(ada)
    assert other is not None
    assert other.runs[0].variant.hub_model.repo_id == "tiny/gpt2", "the same goes elsewhere"
    taken = claims.claim_next(bo)
    assert taken is not None
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
    for number in range(room.MOST_TIMES):
        found_full(rows.worker(f"worker{number}"))
        run.refresh_from_db()
        if run.state == "queued":
            rests.append(run.not_before - run.started)
            rest_of_runs_is_over()
    assert (run.state, run.error_class, run.times_full) == ("failed", "InfraError", room.MOST_TIMES)
    assert "make room on the workers" in run.error_message
    assert rests == sorted(rests)
    assert rests[-1] > 100 * room.FIRST_REST
    assert claims.retry(run, by="the operator")
    run.refresh_from_db()
    assert (run.times_full, run.full_on) == (0, "")


def test_only_who_holds_the_run_may_put_it_off() -> None:
    (run,) = rows.queued("arc")
    ada = rows.worker("ada")
    old = claims.claim_next(ada)
    assert old is not None
    claims.give_back(old.token, why="a test")
    claims.claim_next(rows.worker("bo"))
    assert room.set_aside(old.token, ada, message=WHY) == 0
    run.refresh_from_db()
    assert (run.state, run.times_full) == ("running", 0)


@pytest.fixture
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.PLUMBLINE_HOME = tmp_path
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": tmp_path / "artifacts"}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    program = (sys.executable, str(Path(standin.__file__)))
    monkeypatch.setattr("runners.backends.PYTHON", program)
    return tmp_path


def evaluated(behaviour: str) -> Run:
    (run,) = rows.queued("arc", variant=rows.variant(f"standin/{behaviour}"))
    worker = rows.worker()
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, threading.Event())
    run.refresh_from_db()
    return run


def nothing_is_free_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: what is free, whatever it is, is less than has to be."""
    monkeypatch.setattr("runners.footprint.LEAST_FREE", 2**60)


@pytest.mark.usefixtures("home")
def test_an_engine_whose_disk_is_full_charges_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_is_free_enough(monkeypatch)
    run = evaluated("disk-full")
    assert (run.state, run.attempt, run.times_full) == ("queued", 0, 1)
    assert run.error_message.startswith("the worker's disk is full")
    assert Worker.objects.get().is_full()


@pytest.mark.usefixtures("home")
def test_a_model_that_only_says_that_the_disk_is_full_is_charged_and_stops_nobody() -> None:
    run = evaluated("disk-full")
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 1)
    assert (run.times_full, run.full_on) == (0, "")
    assert re.search(r"has [\d,]+\.\d GiB free", run.error_message)
    assert not Worker.objects.get().is_full()
    rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    assert claims.claim_next(Worker.objects.get()) is not None


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_store_whose_disk_is_full_charges_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_is_free_enough(monkeypatch)
    monkeypatch.setattr(shutil, "copyfileobj", refuse)
    run = evaluated("garbage")
    assert (run.state, run.attempt, run.times_full) == ("queued", 0, 1)
    assert "No space left on device" in run.error_message
    assert not list((home / "artifacts").glob("incoming-*"))


@pytest.mark.usefixtures("home")
def test_a_store_without_room_for_as_long_as_the_child_filled_the_disk_is_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "copyfileobj", refuse)
    run = evaluated("garbage")
    assert (run.state, run.attempt, run.times_full) == ("queued", 1, 0)


def test_a_full_disk_is_told_by_its_cause_and_by_no_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(error: Exception, cause: Exception | None) -> int:
        def raise_it(_: object) -> int:
            raise error from cause

        monkeypatch.setattr("evalcore.command.fetch.fetch", raise_it)
        return cli.main(["fetch", "--tasks", "none"])

    full = OSError(errno.EDQUOT, "Disk quota exceeded")
    assert failing(InfraError("it could not be stored"), full) == DISK_IS_FULL
    assert failing(InfraError("No space left on device"), None) == InfraError.exit_code
    assert failing(ModelError("its weights"), full) == ModelError.exit_code


def test_a_journal_on_a_full_disk_ends_the_engine_with_that_status(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from evalcore import cli, journal\n"
        "import evalcore.command.fetch as command\n"
        "def fill(options):\n"
        "    log = journal.Journal(Path(sys.argv[1]), 'key')\n"
        "    log._segment = open('/dev/full', 'wb', buffering=0)\n"
        "    log._write(b'answer')\n"
        "command.fetch = fill\n"
        "sys.exit(cli.main(['fetch', '--tasks', 'none']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == DISK_IS_FULL, ended.stderr
    assert "cannot be written" in ended.stderr
