"""From a claim to stored results, with real child processes that behave and misbehave; and a disk
or a machine that is full, which charges no run and which no model fills."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from django.db import OperationalError
from django.db.models.functions import Now

from evalcore import cli
from evalcore.errors import DISK_IS_FULL, InfraError, ModelError
from evalcore.record import read_samples
from evalcore.sandbox import prctl
from leaderboard import logs
from leaderboard.models import Run, Worker
from leaderboard.models.run import ErrorClass
from leaderboard.queue import claims, orders
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from runners import cleanup
from runners import evaluate as evaluation
from runners.folders import Footprint
from runners.watch import Failed, Watch
from tests.runners import rows, standin
from tests.runners.place import STARTS_WITHIN, printed
from tests.runners.rows import evaluate, evaluate_next

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("stand_in_home", "downloaded"),
]


FETCH = evaluation._fetch


@pytest.fixture
def downloads(downloaded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run needs of the Hub is downloaded all the same."""
    monkeypatch.setattr(evaluation, "_fetch", FETCH)


def once_it_answers(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do this when it is stored for the first time that a child has begun to answer."""
    report, done = claims.report, []

    def reported(*arguments: Any, phase: str, **more: Any) -> bool:
        is_ours = report(*arguments, phase=phase, **more)
        if phase == "evaluate" and not done:
            done.append(act())
        return is_ours

    monkeypatch.setattr(claims, "report", reported)


@pytest.mark.usefixtures("downloads")
def test_every_task_of_a_claim_is_stored_with_its_files_and_the_work_files_go(
    stand_in_home: Path,
) -> None:
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
        assert list((stand_in_home / left).iterdir()) == []


@pytest.mark.usefixtures("downloads")
def test_a_model_that_does_not_exist_fails_before_anything_is_loaded() -> None:
    (run,) = evaluate("unknown")
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert "does not exist" in run.error_message


def test_a_model_error_fails_all_runs_of_the_model_without_telling_secrets_or_questions(
    stand_in_home: Path, settings: Any
) -> None:
    settings.BASE_DIR = stand_in_home.parent  # a home usually lies inside another known folder
    runs = evaluate("chatty-failure", "arc", "mmlu")
    for run in runs:
        assert (run.state, run.error_class) == ("failed", "ModelError")
        assert run.error_message == "no tokenizer in (home)/hf/x"
        assert run.log_tail == "Loading from (home)/hf with hf_(hidden)\nred"
        assert str(stand_in_home) not in run.log_tail
    # Beside questions that stay offline.
    for run in evaluate("chatty-failure", "facts", "gpqa_diamond_cloze", by=Worker.objects.get()):
        assert (run.state, run.error_class) == ("failed", "ModelError")
        assert run.error_message.startswith("the reason is withheld")
        assert run.log_tail == ""
        assert not any("tokenizer" in event.why for event in run.events.all())


@pytest.mark.parametrize(
    ("behaviour", "error_class", "says"),
    [
        ("guilty-task", "TaskError", "the data set has no such column"),
        ("weak-at-mmlu", "ModelError", "its window is too short"),
    ],
)
def test_an_error_in_one_task_leaves_the_others_their_chance(
    behaviour: str, error_class: str, says: str
) -> None:
    arc, mmlu, facts = evaluate(behaviour, "arc", "mmlu", "facts")
    assert (mmlu.state, mmlu.error_class, mmlu.error_message) == ("failed", error_class, says)
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


@pytest.mark.usefixtures("downloads")
def test_the_first_result_of_a_column_asks_what_the_pinned_data_have() -> None:
    """A model's process that asks others would have closed the column to all that come later."""
    (run,) = rows.queued("arc", variant=rows.variant("standin/fewer-questions"))
    column = rows.entry(run)
    worker = rows.worker()
    rows.evaluate_next(worker)
    run.refresh_from_db()
    assert (run.state, run.error_class) == ("queued", "InfraError")
    assert "the pinned data give" in run.error_message
    (honest,) = rows.queued("arc", variant=rows.variant("standin/honest"))
    rows.evaluate_next(worker)
    honest.refresh_from_db()
    column.refresh_from_db()
    assert honest.state == "done"
    assert honest.results.get(subset="").comparability_key == column.comparability_key


@pytest.mark.parametrize(("wrong", "says"), standin.WRONG_RECORDS)
def test_a_record_that_no_engine_writes_is_never_stored_and_is_told_of(
    wrong: str, says: str
) -> None:
    arc, mmlu = evaluate(wrong, "arc", "mmlu")
    assert (arc.state, arc.error_class, arc.attempt) == ("queued", "InfraError", 1)
    assert re.search(f"arc: .*{says}", arc.error_message)
    assert not arc.results.exists()
    assert not arc.artifacts.exists()
    assert mmlu.state == "done"


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        ("infra", "the disk is full"),
        ("killed", "SIGKILL"),
        ("nameless-signal", "signal 40"),
        ("silent-end", "without results for arc"),
        ("mute", "exit status 3 and gave no reason"),
        ("says-that-it-was-stopped", "nobody had asked it"),
    ],
)
def test_what_is_our_fault_goes_back_to_the_queue(behaviour: str, says: str) -> None:
    (run,) = evaluate(behaviour)
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 1)
    assert says in run.error_message
    assert run.not_before is not None


def test_a_model_that_takes_more_memory_than_the_worker_has_is_stopped() -> None:
    small = rows.worker("small", memory_bytes=200 * 2**20)
    (run,) = evaluate("hungry", by=small, needed_bytes=1)
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
    monkeypatch.setattr("runners.watch.PRINTED_BYTES", 4 * 2**20)
    monkeypatch.setattr("runners.folders.DISK_BYTES", 8 * 2**20)
    monkeypatch.setattr("runners.folders.FILES", 50)
    (run,) = evaluate(behaviour)
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert re.fullmatch(says, run.error_message)


def test_a_child_answers_for_what_it_adds_to_its_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.folders.DISK_BYTES", 8 * MIB)
    monkeypatch.setattr("runners.folders.FILES", 50)

    def add(name: str, mebibytes: int, files: int) -> None:
        (tmp_path / name).write_bytes(bytes(mebibytes * MIB))
        for number in range(files):
            (tmp_path / f"{name}{number}").touch()

    add("before", 7, 40)
    taken = Footprint([tmp_path])
    add("own", 7, 40)
    assert taken.too_large() is None
    add("more", 2, 5)
    assert taken.too_large() == "took 0.0 GiB of files of the disk"
    add("many", 0, 10)
    assert taken.too_large() == "took more than 50 files of the disk"


def test_folders_too_deep_to_be_seen_stop_their_model_and_no_worker(
    stand_in_home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", stand_in_home], check=True))
    worker = rows.worker()
    (run,) = evaluate("digger", by=worker)
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert run.error_message.startswith("the model's process hides files")
    monkeypatch.setattr("runners.watch.STORE_EVERY", math.inf)  # these end before a look
    for task in ("arc", "mmlu"):  # the second with the journal that the first has left
        (run,) = evaluate("digger-that-ends", task, by=worker)
        assert (run.state, run.error_message) == ("failed", "its weights are spoilt")
    assert list((stand_in_home / "work").iterdir()) == []
    monkeypatch.setattr(cleanup, "KEEP_JOURNALS", timedelta(seconds=-1))
    cleanup.remove_leftovers()
    assert list((stand_in_home / "journal").iterdir()) == []


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
    (run,) = evaluate("dawdles-at-arc")
    assert (run.state, run.error_class) == ("failed", "ModelError")
    assert re.fullmatch(
        r"arc took longer than the 0\.0 hours that a model of 1,000,000 parameters is given for it",
        run.error_message,
    )


def test_an_engine_that_dies_takes_no_run_with_it_that_it_had_not_begun() -> None:
    """The last attempt is one run to a child, which may die before it says what it begins."""
    arc, mmlu, facts = evaluate("killer", "arc", "mmlu", "facts")
    assert (mmlu.state, mmlu.error_class, mmlu.attempt) == ("queued", "InfraError", 1)
    assert (arc.state, facts.state) == ("done", "done")
    runs = rows.queued(
        "arc", "mmlu", "facts", shots=5, variant=rows.variant("standin/killer-as-it-loads")
    )
    Run.objects.filter(shots=5).update(attempt=claims.MAX_ATTEMPTS - 1)
    evaluate_next(Worker.objects.get())
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

    monkeypatch.setattr("runners.evaluate._fetch", die_over_one)
    runs = rows.queued("arc", "mmlu", "facts", variant=rows.variant("standin/polite"))
    with pytest.raises(Died):
        evaluate_next(rows.worker())
    Run.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert claims.release_stalled() == 3
    for run in runs:
        run.refresh_from_db()
    states = [(run.state, run.attempt) for run in runs]
    assert states == [("queued", 1), ("queued", 0), ("queued", 0)]


def renew_often(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[int], object], after: Callable[[int], object]
) -> None:
    """Have the heartbeat renew its lease again and again; it counts before and after it does."""
    renew, times = claims.renew, []

    def counted(token: Any) -> Any:
        if threading.current_thread().name != "heartbeat":
            return renew(token)
        times.append(token)
        before(len(times))
        ours = renew(token)
        after(len(times))
        return ours

    monkeypatch.setattr("runners.watch.RENEW_EVERY", 0.1)
    monkeypatch.setattr("runners.watch.TRY_AGAIN", 0.1)
    monkeypatch.setattr(claims, "renew", counted)


def cut_off(_: int) -> None:
    raise OperationalError("cut off")


def test_a_worker_that_cannot_renew_its_lease_stops_its_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    renew_often(monkeypatch, before=cut_off, after=lambda _: None)
    monkeypatch.setattr(claims, "LEASE", timedelta(seconds=3))
    caplog.handler.setFormatter(logs.Json())
    (run,) = evaluate("polite")
    assert (run.state, run.attempt, run.lease_token) == ("queued", 0, None)
    assert run.events.last().why == "ada could not renew its lease on the run"
    (said,) = [
        line for line in caplog.text.splitlines() if "the lease has run out: the work" in line
    ]
    assert json.loads(said)["runs"] == [str(run.pk)]  # logged by the heartbeat's own thread


def test_a_lease_outlives_a_shorter_database_error_and_a_worker_that_stops_gives_its_runs_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopping = threading.Event()
    renew_often(
        monkeypatch,
        before=lambda times: cut_off(times) if times < 4 else None,
        after=lambda _: stopping.set(),
    )
    (run,) = evaluate("polite", stopping=stopping)
    assert run.events.last().why == "ada was stopped"
    assert (run.state, run.attempt, run.lease_token) == ("queued", 0, None)


def test_a_slow_store_does_not_let_the_lease_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    storing, renewed = threading.Event(), threading.Event()
    begun_while_storing: list[bool] = []
    renew_often(
        monkeypatch,
        before=lambda _: begun_while_storing.append(storing.is_set()),
        after=lambda _: renewed.set() if begun_while_storing[-1] else None,
    )

    def slowly(*arguments: Any, **more: Any) -> None:
        Run.objects.update(lease_until=Now() + timedelta(seconds=1))
        storing.set()  # renewals that begin from now on find that lease
        assert renewed.wait(STARTS_WITHIN)
        assert Run.objects.filter(lease_until__gt=Now() + claims.LEASE / 2).exists()
        complete(*arguments, **more)

    complete = claims.complete
    monkeypatch.setattr(claims, "complete", slowly)
    (run,) = evaluate("garbage")
    assert run.state == "done"


def test_a_drained_worker_gives_its_runs_back_as_untried_and_goes_on_when_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runners.watch.RENEW_EVERY", 0.2)
    worker = rows.worker()
    once_it_answers(monkeypatch, lambda: orders.give("drain", worker.name, by="ada"))
    runs = evaluate("polite", "arc", "mmlu", by=worker)
    assert [(run.state, run.attempt) for run in runs] == [("queued", 0), ("queued", 0)]
    assert runs[0].events.last().why == "ada was drained"
    assert claims.claim_next(worker) is None
    orders.lift(worker.name)
    assert claims.claim_next(worker) is not None


def test_cancelling_one_run_stops_it_and_lets_the_others_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    once_it_answers(monkeypatch, lambda: claims.cancel(Run.objects.get(task__name="arc"), by="ada"))
    arc, mmlu = evaluate("dawdles-at-arc", "arc", "mmlu")
    assert (arc.state, mmlu.state) == ("cancelled", "done")
    assert not arc.results.exists()


@pytest.mark.usefixtures("downloads")
def test_a_child_sees_neither_the_workers_environment_nor_its_parents(
    stand_in_home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_the-workers-own-token")
    settings.HF_TOKEN = "hf_the-workers-own-token"
    monkeypatch.setenv("PLUMBLINE_SECRET_KEY", "the-sites-secret")
    monkeypatch.setattr("runners.evaluate._tidy", lambda *_: None)
    if sys.platform == "linux":
        prctl.hide_from_peers()
    (run,) = evaluate("spy")
    assert run.state == "done"
    seen = json.loads((stand_in_home / "journal" / str(run.variant_id) / "seen.json").read_text())
    allowed = {
        *("PATH", "HOME", "LANG", "TMPDIR", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
        "HF_MODULES_CACHE",
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
        *("LD_LIBRARY_PATH", "OMP_NUM_THREADS", "LC_CTYPE"),
    }
    assert set(seen["environment"]) <= allowed
    assert seen["environment"]["HF_HUB_OFFLINE"] == "1"
    assert seen["environment"]["HOME"].startswith(str(stand_in_home))
    # Of a process table of its own it sees nobody above; of the machine's, nothing of ours.
    assert seen["above"].get(str(os.getpid()), "not there") in ("not there", "PermissionError")
    assert "the-sites-secret" not in json.dumps(seen)
    assert "the-workers-own-token" not in json.dumps(seen)


MIB = 2**20
PROGRAM = """
import json, os, sys
from pathlib import Path
from runners import folders

folders.LEAST_FREE = 8 * 2**20
others, own = Path(sys.argv[1], "others"), Path(sys.argv[1], "own")
others.mkdir()
own.mkdir()

def fill(folder, mebibytes):
    (folder / "ballast").write_bytes(bytes(mebibytes * 2**20))

{before}
taken = folders.Footprint([own], [others], {to_come})
{after}
print(json.dumps([taken.is_without_room(), taken.free()]))
"""


def on_a_small_disk(place: Path, after: str, *, before: str = "", to_come: int = 0) -> bool:
    """What a footprint finds on a file system of its own after this was done there."""
    program = PROGRAM.format(before=before, after=after, to_come=to_come)
    mounted = 'mount -t tmpfs -o size=40m,nr_inodes=3000 none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-Urm", "sh", "-c", mounted, "sh", str(place), sys.executable, program]
    found: bool = json.loads(printed(command))[0]
    return found


FILL_TO_THE_LAST = """
with (own / "ballast").open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(2**16))
    except OSError:
        pass
"""
MAKE_FILES = """
try:
    for number in range(9000):
        ({folder} / str(number)).touch()
except OSError:
    pass
"""


@pytest.mark.parametrize(
    ("before", "after", "full"),
    [
        ("", "fill(others, 10)", False),
        ("", "fill(others, 36)", True),
        ("fill(others, 34)", "fill(own, 3)", True),
        ("", FILL_TO_THE_LAST, False),
        ("", MAKE_FILES.format(folder="others"), True),
        ("", MAKE_FILES.format(folder="own"), False),
    ],
    ids=[
        *("room", "others filled it", "it was full before", "only the child filled it"),
        *("others made all files", "only the child made them"),
    ],
)
def test_a_disk_is_full_unless_the_child_alone_filled_it(
    before: str, after: str, full: bool, tmp_path: Path
) -> None:
    assert on_a_small_disk(tmp_path, after, before=before) is full


def test_a_download_needs_room_for_what_is_to_come(tmp_path: Path) -> None:
    assert on_a_small_disk(tmp_path, "", to_come=40 * MIB)
    assert not on_a_small_disk(tmp_path, "", to_come=20 * MIB)


def nothing_is_free_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: what is free, whatever it is, is less than has to be."""
    monkeypatch.setattr("runners.folders.LEAST_FREE", 2**60)


def test_an_engine_whose_disk_is_full_charges_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_is_free_enough(monkeypatch)
    (run,) = evaluate("disk-full")
    assert (run.state, run.attempt, run.times_full) == ("queued", 0, 1)
    assert run.error_message.startswith("the worker's disk is full")
    assert Worker.objects.get().is_full()


def test_a_model_that_only_says_that_the_disk_is_full_is_charged_and_stops_nobody() -> None:
    (run,) = evaluate("disk-full")
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 1)
    assert (run.times_full, run.full_on) == (0, "")
    assert re.search(r"has [\d,]+\.\d GiB free", run.error_message)
    assert not Worker.objects.get().is_full()
    rows.queued("arc", variant=rows.variant("tiny/gpt2"))
    assert claims.claim_next(Worker.objects.get()) is not None


@pytest.mark.parametrize(("others_filled_it", "charged"), [(True, 0), (False, 1)])
def test_a_store_whose_disk_is_full_charges_nobody_unless_the_child_filled_it(
    stand_in_home: Path, monkeypatch: pytest.MonkeyPatch, others_filled_it: bool, charged: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if others_filled_it:
        nothing_is_free_enough(monkeypatch)
    monkeypatch.setattr(shutil, "copyfileobj", refuse)
    (run,) = evaluate("garbage")
    assert (run.state, run.attempt, run.times_full) == ("queued", charged, 1 - charged)
    assert "No space left on device" in run.error_message
    assert not list((stand_in_home / "artifacts").glob("incoming-*"))


def test_a_child_that_is_at_work_as_the_disk_runs_full_is_ended_and_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = itertools.chain([2**30], itertools.repeat(2**20))
    monkeypatch.setattr("runners.folders._free_bytes", lambda disks: next(free) if disks else 0)
    (run,) = evaluate("stubborn")
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 0)
    assert run.error_message == "the worker's disk is full"


def test_a_machine_that_others_have_filled_is_not_the_models_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total = psutil.virtual_memory().total
    full = SimpleNamespace(available=total // 100, total=total)
    monkeypatch.setattr("runners.watch.psutil.virtual_memory", lambda: full)
    (run,) = evaluate("killed")
    assert (run.state, run.error_class, run.attempt) == ("queued", "InfraError", 0)
    assert "the worker's machine ran out of memory" in run.error_message


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


def test_a_full_disk_is_told_by_its_cause_and_by_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.EDQUOT, "Disk quota exceeded")
    for error, cause, status in (
        (InfraError("it could not be stored"), full, DISK_IS_FULL),
        (InfraError("No space left on device"), None, InfraError.exit_code),
        (ModelError("its weights"), full, ModelError.exit_code),
    ):
        error.__cause__ = cause
        monkeypatch.setattr("evalcore.command.fetch.fetch", Mock(side_effect=error))
        assert cli.main(["fetch", "--tasks", "none"]) == status
