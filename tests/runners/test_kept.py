"""An engine is kept for the next claim of the same variant, and for nothing else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from leaderboard.models import Run, Variant, Worker
from leaderboard.queue import claims
from runners import descendants
from runners.execute import evaluate_claim
from runners.kept import Keeper
from tests.runners import rows, standin

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.PLUMBLINE_HOME = tmp_path
    settings.PLUMBLINE_KEEP_MODEL = 60
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": tmp_path / "artifacts"}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "hf" / "hub").mkdir(parents=True)
    program = (sys.executable, str(Path(standin.__file__)))
    monkeypatch.setattr("runners.backends.PYTHON", program)
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_survives() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    left = set(psutil.Process().children(recursive=True)) - before
    assert [child for child in left if child.is_running()] == []


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    with Keeper() as keeper:
        yield keeper


@pytest.fixture
def worker() -> Worker:
    return rows.worker()


def evaluate(keeper: Keeper, worker: Worker, variant: Variant, shots: int = 0) -> Run:
    """Queue one run, and evaluate it as a claim of its own."""
    (run,) = rows.queued("arc", variant=variant, shots=shots)
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, threading.Event(), keeper)
    run.refresh_from_db()
    return run


def engines() -> list[psutil.Process]:
    """Processes below us, but for those that only wrap others."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "standin.py" in " ".join(process.cmdline()) and "unshare" not in process.cmdline()[0]
        and "runners.child" not in process.cmdline() and "runners.confined" not in process.cmdline()
    ]  # fmt: skip


def test_a_second_claim_of_a_variant_is_the_work_of_the_same_process(
    keeper: Keeper, worker: Worker, home: Path
) -> None:
    model = rows.variant("standin/stays")
    assert evaluate(keeper, worker, model).state == "done"
    assert keeper.holds_a_model
    (engine,) = engines()
    assert evaluate(keeper, worker, model, shots=5).state == "done"
    assert engines() == [engine]
    assert list((home / "logs").iterdir()) != [], "it goes on writing there"
    keeper.release()
    assert engines() == []
    for left in ("work", "logs", "journal"):
        assert list((home / left).iterdir()) == []


def test_what_an_earlier_claim_wrote_is_gone_before_the_next(
    keeper: Keeper, worker: Worker, home: Path
) -> None:
    model = rows.variant("standin/stays")
    evaluate(keeper, worker, model)
    (folder,) = (home / "work").iterdir()
    assert list((folder / "results").iterdir()) == []
    (journal,) = (home / "journal").iterdir()
    assert list(journal.iterdir()) == []


def test_a_kept_engine_does_nothing_at_all(keeper: Keeper, worker: Worker) -> None:
    evaluate(keeper, worker, rows.variant("standin/stays"))
    (engine,) = engines()
    assert engine.status() == psutil.STATUS_STOPPED


def test_another_variant_has_a_process_of_its_own_and_the_memory_of_the_first(
    keeper: Keeper, worker: Worker
) -> None:
    evaluate(keeper, worker, rows.variant("standin/stays"))
    (first,) = engines()
    evaluate(keeper, worker, rows.variant("other/stays"))
    assert not first.is_running()
    assert len(engines()) == 1


@pytest.mark.parametrize(
    "remade", ["hf/hub/datasets--new", "hf/hub/models--standin--stays", "journal"]
)
def test_where_a_fresh_one_would_see_other_files_a_fresh_one_is_begun(
    keeper: Keeper, worker: Worker, home: Path, remade: str
) -> None:
    model = rows.variant("standin/stays")
    evaluate(keeper, worker, model)
    (first,) = engines()
    place = home / remade
    if remade == "journal":
        (place,) = place.iterdir()
    if place.exists():
        place.rename(home / "elsewhere")
    place.mkdir(parents=True)
    assert evaluate(keeper, worker, model, shots=5).state == "done"
    assert not first.is_running()


@pytest.mark.parametrize("fields", [{"code": "standin/stays"}, {"quantisation": "8bit"}])
def test_neither_own_code_nor_packed_weights_are_kept(
    keeper: Keeper, fields: dict[str, str]
) -> None:
    model = rows.variant("standin/stays")
    assert keeper.can_keep(model)
    for name, value in fields.items():
        setattr(model, name, value)
    assert not keeper.can_keep(model)


def test_an_operator_who_wants_no_model_kept_has_none(
    keeper: Keeper, worker: Worker, settings: Any
) -> None:
    settings.PLUMBLINE_KEEP_MODEL = 0
    assert evaluate(keeper, worker, rows.variant("standin/stays")).state == "done"
    assert (keeper.holds_a_model, engines()) == (False, [])


def test_it_goes_when_nobody_has_wanted_it_for_long_enough(
    keeper: Keeper, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(keeper, worker, rows.variant("standin/stays"))
    keeper.release_idle()
    assert keeper.holds_a_model
    now = time.monotonic()
    monkeypatch.setattr("runners.kept.monotonic", lambda: now + 61)
    keeper.release_idle()
    assert (keeper.holds_a_model, engines()) == (False, [])


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [("stays-and-breaks", "SIGKILL"), ("stays-and-lies", "without results for arc")],
)
def test_one_that_failed_is_never_used_again(
    keeper: Keeper, worker: Worker, behaviour: str, says: str
) -> None:
    model = rows.variant(f"standin/{behaviour}")
    assert evaluate(keeper, worker, model).state == "done"
    second = evaluate(keeper, worker, model, shots=5)
    assert (second.state, second.error_class) == ("queued", "InfraError")
    assert says in second.error_message
    assert (keeper.holds_a_model, engines()) == (False, [])
    Run.objects.filter(pk=second.pk).update(not_before=None)
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, threading.Event(), keeper)
    second.refresh_from_db()
    assert second.state == "done"


def test_one_that_was_killed_while_it_was_kept_is_replaced(keeper: Keeper, worker: Worker) -> None:
    model = rows.variant("standin/stays")
    evaluate(keeper, worker, model)
    for engine in engines():
        engine.kill()
        psutil.wait_procs([engine], 5)
    assert evaluate(keeper, worker, model, shots=5).state == "done"


BEAT = "import sys\nwhile True: open(sys.argv[1], 'a').write('.')"
FAMILY = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
"""


def test_frozen_processes_do_nothing_and_go_on_where_they_were(tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    top = psutil.Popen([sys.executable, "-c", FAMILY, str(beats), BEAT])
    try:
        wait_for(beats.exists)
        assert len(descendants.freeze(top.pid) or ()) == 1
        before = beats.stat().st_size
        time.sleep(0.3)
        assert beats.stat().st_size == before
        descendants.thaw(top.pid)
        wait_for(lambda: beats.stat().st_size > before)
    finally:
        descendants.kill(top.pid)
        top.kill()
        top.wait()


def wait_for(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)
