"""An engine is kept for the next claim of the same variant, and for nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from evalcore.sandbox.confinement import BOOT
from leaderboard.models import Run, Variant, Worker
from runners.engine import Keeper, may_stay
from tests.runners import rows
from tests.runners.place import STARTS_WITHIN, are_gone, wait_until
from tests.runners.rows import evaluate_next

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def home(stand_in_home: Path, settings: Any, downloaded: None) -> Path:
    """Where models are kept."""
    settings.PLUMBLINE_KEEP_MODEL = 60
    (stand_in_home / "hf" / "hub").mkdir(parents=True)
    return stand_in_home


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
    evaluate_next(worker, keeper=keeper)
    run.refresh_from_db()
    return run


def engines() -> list[psutil.Process]:
    """Processes below us, but for those that only wrap others."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "standin.py" in " ".join(process.cmdline()) and "unshare" not in process.cmdline()[0]
        and "runners.child" not in process.cmdline() and BOOT not in process.cmdline()
    ]  # fmt: skip


def test_a_second_claim_of_a_variant_is_the_work_of_the_same_process_without_the_firsts_files(
    keeper: Keeper, worker: Worker, home: Path
) -> None:
    model = rows.variant("standin/stays")
    assert evaluate(keeper, worker, model).state == "done"
    assert keeper.holds_a_model
    (engine,) = engines()
    assert engine.status() == psutil.STATUS_STOPPED
    (folder,), (journal,) = (home / "work").iterdir(), (home / "journal").iterdir()
    assert [*(folder / "results").iterdir(), *journal.iterdir()] == []
    assert evaluate(keeper, worker, model, shots=5).state == "done"
    assert engines() == [engine]
    (log,) = (home / "logs").iterdir()
    assert log.read_bytes() == b"", "it goes on writing there, and what worked needs no log"
    # Another variant has a process of its own and the memory of the first.
    evaluate(keeper, worker, rows.variant("other/stays"))
    assert not engine.is_running()
    assert len(engines()) == 1
    keeper.release()
    assert engines() == []
    for left in ("work", "logs", "journal"):
        assert list((home / left).iterdir()) == []


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


def test_none_is_kept_with_own_code_or_packed_weights_or_where_the_operator_wants_none(
    keeper: Keeper, worker: Worker, settings: Any
) -> None:
    model = rows.variant("standin/stays")
    assert may_stay(model)
    for name, value in (("code", "standin/stays"), ("quantisation", "8bit")):
        setattr(model, name, value)
        assert not may_stay(model)
        setattr(model, name, "")
    settings.PLUMBLINE_KEEP_MODEL = 0
    assert evaluate(keeper, worker, model).state == "done"
    assert (keeper.holds_a_model, engines()) == (False, [])


def test_it_goes_when_nobody_has_wanted_it_for_long_enough_and_one_that_was_killed_is_replaced(
    keeper: Keeper, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = rows.variant("standin/stays")
    evaluate(keeper, worker, model)
    (engine,) = engines()
    engine.kill()
    wait_until(lambda: are_gone([engine]), STARTS_WITHIN, lambda: f"it is {engine.status()}")
    assert evaluate(keeper, worker, model, shots=5).state == "done"
    keeper.release_idle()
    assert keeper.holds_a_model
    now = time.monotonic()
    monkeypatch.setattr("runners.engine.monotonic", lambda: now + 61)
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
    evaluate_next(worker, keeper=keeper)
    second.refresh_from_db()
    assert second.state == "done"
