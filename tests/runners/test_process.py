"""A child and its wrapper: they end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from runners.process import Child

PARENT = """
import sys, time
from pathlib import Path
from runners.process import Child
folder = Path(sys.argv[1])
with Child(sys.argv[2:], environment={}, folder=folder, log=folder / "log"):
    time.sleep(600)
"""
# Starts a process of its own, as a data loader does, and ignores being asked to stop.
FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
open(f"{sys.argv[1]}/{os.getpid()}.pid", "w").close()
time.sleep(600)
"""


def until(happened: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("*.pid")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_takes_the_model_and_all_that_it_started_with_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    worker = subprocess.Popen([*command, sys.executable, "-c", FAMILY, str(tmp_path)])
    assert until(lambda: len(pids_in(tmp_path)) == 2, 120)
    started = [process.pid for process in psutil.Process(worker.pid).children(recursive=True)]
    assert set(pids_in(tmp_path)) < set(started)
    worker.send_signal(number)
    worker.wait()
    assert until(lambda: not any(map(is_alive, started)), 30)


def test_a_killed_wrapper_takes_the_model_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FAMILY, str(tmp_path)]
    with Child(command, environment={}, folder=tmp_path, log=tmp_path / "log") as child:
        assert until(lambda: len(pids_in(tmp_path)) == 2, 120)
        os.kill(child.pid, signal.SIGKILL)
        assert until(lambda: child.next_event(0.05) is None and child.has_ended(), 30)
        assert until(lambda: not any(map(is_alive, pids_in(tmp_path))), 30)
        assert child.kill() == -signal.SIGKILL


def test_a_child_leaves_as_its_command_left(tmp_path: Path) -> None:
    for code, status in (
        ("raise SystemExit(75)", 75),
        ("import os; os.kill(os.getpid(), 11)", -11),
    ):
        command = [sys.executable, "-c", code]
        with Child(command, environment={}, folder=tmp_path, log=tmp_path / "log") as child:
            while not child.has_ended():
                child.next_event(0.1)
            assert child.kill() == status


def test_a_module_in_the_work_folder_is_not_imported(tmp_path: Path) -> None:
    for name in ("runners", "subprocess"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    command = [sys.executable, "-c", "pass"]
    with Child(command, environment={}, folder=tmp_path, log=tmp_path / "log") as child:
        while not child.has_ended():
            child.next_event(0.1)
        # The command itself has `-c`, and the work folder first on its path; the wrapper has not.
        assert child.kill() == 0, (tmp_path / "log").read_text()


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_the_memory_of_all_that_it_started_is_counted(tmp_path: Path, kind: str) -> None:
    held = 100 * 2**20
    made = {
        "private": f"b'x' * {held}",
        "shared": f"mmap.mmap(-1, {held}); held.write(b'x' * {held})",
    }
    # In a session of its own, where a group's limits would not find it.
    code = f"import mmap, os, time; os.fork() or os.setsid(); held = {made[kind]}; time.sleep(600)"
    command = [sys.executable, "-c", code]
    with Child(command, environment={}, folder=tmp_path, log=tmp_path / "log") as child:
        assert until(lambda: child.use().memory_bytes > 2 * held, 120)
