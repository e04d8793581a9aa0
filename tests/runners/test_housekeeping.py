"""Each machine is swept by whoever works there, one at a time, and nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners import housekeeping, hub_cache, leftovers
from runners.housekeeping import Sweeper

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.PLUMBLINE_HOME = tmp_path
    monkeypatch.setattr(hub_cache, "make_room", lambda: 0)
    return tmp_path


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Have each sweep do this."""
    return lambda does: monkeypatch.setattr(leftovers, "sweep", does)


def let_end(sweeper: Sweeper) -> None:
    assert sweeper._thread is not None
    sweeper._thread.join(PATIENCE)
    assert not sweeper._thread.is_alive()


def test_two_processes_of_a_machine_never_sweep_at_once(sweeps: Any) -> None:
    others: list[bool] = []
    sweeps(lambda: others.append(housekeeping.sweep()) if not others else None)
    assert housekeeping.sweep()
    assert others == [False]
    assert housekeeping.sweep(), "the one before has ended"


def test_a_worker_does_not_wait_for_its_sweep_and_begins_no_second_one(sweeps: Any) -> None:
    begun, may_end = [], threading.Event()
    sweeps(lambda: (begun.append(1), may_end.wait(PATIENCE)))
    stopping = threading.Event()
    with Sweeper(stopping) as sweeper:
        sweeper.sweep_if_due()
        sweeper._due = 0.0
        sweeper.sweep_if_due()
        stopping.set()
    assert sweeper._thread is not None
    assert sweeper._thread.is_alive(), "nor does one that is asked to stop"
    may_end.set()
    let_end(sweeper)
    assert begun == [1]


def test_a_worker_sweeps_at_its_start_and_then_seldom(
    sweeps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    sweeps(lambda: begun.append(1))
    now = 1000.0
    monkeypatch.setattr(housekeeping, "monotonic", lambda: now)
    sweeper = Sweeper(threading.Event())
    for later, swept in ((0.0, 1), (5.0, 1), (housekeeping.EVERY, 2), (5.0, 2)):
        now += later
        sweeper.sweep_if_due()
        let_end(sweeper)
        assert len(begun) == swept


def test_a_fault_in_a_sweep_is_told_and_ends_no_worker(
    sweeps: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise PermissionError("the journal is somebody else's")

    sweeps(fail)
    with Sweeper(threading.Event()) as sweeper:
        sweeper.sweep_if_due()
        let_end(sweeper)
        sweeper._due = 0.0
        sweeper.sweep_if_due()
        let_end(sweeper)
    assert caplog.text.count("PermissionError: the journal") == 2
