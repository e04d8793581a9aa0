"""What code inside a child can reach: real escapes, tried where a model would run and be fetched.

Each is first shown to succeed where nothing confines it: one that cannot succeed proves nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

import evalcore
from leaderboard.models import Run
from leaderboard.queue import claims
from runners import confinement
from runners.confinement import WAYS, Way
from runners.execute import evaluate_claim
from tests.runners import escapes, rows
from tests.runners.conftest import (
    OF_ANY_USER,
    SYSTEM_PYTHON,
    let_others_start_the_stand_in,
    works,
)
from tests.runners.test_process import until

pytestmark = pytest.mark.django_db(transaction=True)

Order = tuple[str, str, Any]
LANDLOCK, ANOTHER_USER = WAYS[2:]
OPEN = {
    LANDLOCK: {"processes"} if os.geteuid() == 0 else set(),
    ANOTHER_USER: {"another model"},
}
"""What a way leaves open (docs/sandbox.md)."""
AF_VSOCK = 40
SHARED_MEMORY = 0x706C756D
IPC_CREAT, IPC_RMID = 0o1000, 0


@pytest.fixture
def shared_memory() -> Iterator[int]:
    libc = ctypes.CDLL(None)
    number = libc.shmget(SHARED_MEMORY, 4096, IPC_CREAT | 0o666)
    yield SHARED_MEMORY
    libc.shmctl(number, IPC_RMID, None)


@pytest.fixture
def orders(
    full_home: Path,
    listeners: dict[str, Any],
    victim: int,
    shared_memory: int,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Order]:
    """By name what is tried, and on what; what cannot be undone in the process comes last."""
    home, source = full_home, Path(evalcore.__file__)
    monkeypatch.setenv("PLUMBLINE_SECRET_KEY", "nobody else's business")
    reached = [(name, "connect", listeners[name]) for name in listeners if name != "UDP"]
    return [
        ("the environment", "find_variable", "PLUMBLINE_SECRET_KEY"),
        ("the secret key", "read", str(home / "secret_key")),
        ("the secret key by a link", "follow_a_link", str(home / "secret_key")),
        ("the secret key by a hard link", "make_a_hard_link", str(home / "secret_key")),
        ("a token", "read", str(home / "hf/token")),
        ("the database", "read", str(home / "db.sqlite3")),
        ("writing to the database", "write_transaction", str(home / "db.sqlite3")),
        ("passwords", "read", "/etc/shadow"),
        ("another model", "read", str(home / "hf/hub/models--other--model/weights")),
        ("another model's file", "write", str(home / "hf/hub/models--other--model/weights")),
        ("another run", "read", str(home / "work/another-run/answers")),
        ("artifacts", "make", str(home / "artifacts")),
        ("an artifact", "write", str(home / "artifacts/aa/file")),
        ("the engine", "open_for_writing", str(source)),
        ("tasks", "open_for_writing", str(next(Path(settings.PLUMBLINE_TASKS).rglob("*.yaml")))),
        ("the kernel", "open_for_writing", "/proc/sys/kernel/core_pattern"),
        ("another's environment", "read", f"/proc/{victim}/environ"),
        ("another's memory", "open_for_writing", f"/proc/{victim}/mem"),
        ("another's files", "read", f"/proc/{victim}/root/etc/shadow"),
        ("a signal", "signal", victim),
        ("tracing", "trace", victim),
        ("priorities", "slow_down", victim),
        ("limits of others", "limit_another", victim),
        *reached,
        ("UDP", "send", listeners["UDP"]),
        ("the host of a virtual machine", "open_socket", AF_VSOCK),
        ("shared memory", "attach_shared_memory", shared_memory),
        ("keys of the kernel", "keep_in_the_kernel", None),
        ("the clock", "set_the_clock", None),
        ("a device of its own", "make_a_device", None),
        ("the kernel's log", "read_some", "/dev/kmsg"),
        ("a mount", "mount", None),
        ("a core dump", "dump_core", None),
        ("a large file", "grow", 2),
        ("open files", "open_files", 5000),
        ("addresses", "hold", 1),
        ("processor time", "compute_for_ever", None),
        ("a namespace", "new_namespace", None),
        ("processes", "fork", 1000),
    ]


def prepare(folder: Path, orders: list[Order]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(escapes.__file__, folder)
    (folder / "orders.json").write_text(json.dumps(orders))


def came_of(folder: Path) -> dict[str, str]:
    told: dict[str, str] = json.loads((folder / "answers.json").read_text())
    return told


def take(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have models confined so, where the machine has it."""
    if way.own_user:
        let_others_start_the_stand_in(monkeypatch)
    works(way)
    monkeypatch.setattr(confinement, "here", lambda: way)


def succeeded(folder: Path) -> set[str]:
    return {name for name, what in came_of(folder).items() if not what.startswith("refused")}


def run_of(variant: str) -> Run:
    worker = rows.worker()
    (run,) = rows.queued("arc", variant=rows.variant(variant))
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, threading.Event())
    run.refresh_from_db()
    assert run.state == "done", run.log_tail
    return run


def test_each_escape_succeeds_where_nothing_confines_it(
    orders: list[Order], tmp_path: Path
) -> None:
    folder = tmp_path / "free"
    prepare(folder, orders)
    command = [sys.executable, str(folder / "escapes.py"), str(folder)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    free = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        assert free.wait(300) == 0
    finally:
        os.killpg(free.pid, signal.SIGKILL)
    missed = {name for name, *_ in orders} - succeeded(folder)
    assert not missed, {name: came_of(folder)[name] for name in missed}


@pytest.mark.parametrize("confined", WAYS, ids=lambda way: way.name)
def test_a_models_process_reaches_nothing_that_is_not_its_own(
    full_home: Path, orders: list[Order], confined: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(confined, monkeypatch)
    own = str(full_home / "hf/hub/models--standin--prisoner/config.json")
    folder = full_home / "journal" / str(rows.variant("standin/prisoner").pk)
    allowed = [("its own configuration", "read", own), ("a daemon", "leave_a_daemon", None)]
    prepare(folder, [("its own model", "write", own), *allowed, *orders])
    run = run_of("standin/prisoner")
    assert run.environment["confinement"] == confined.name
    assert run.environment["network"] == "none"
    allowed_here = OPEN.get(confined, set())
    assert succeeded(folder) == {"its own configuration", "a daemon"} | allowed_here
    assert until(lambda: not escapes.daemons(), 5)


@pytest.mark.parametrize("confined", [WAYS[0], LANDLOCK, ANOTHER_USER], ids=lambda way: way.name)
def test_a_download_has_the_network_and_nothing_else(
    full_home: Path, orders: list[Order], confined: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(confined, monkeypatch)
    folder = full_home / "hf/hub/models--standin--captive"
    prepare(folder, [("its own model", "make", str(folder)), *orders])
    run_of("standin/captive")
    of_the_network = {"TCP", "UDP"}
    # A download's largest file is a shard of weights.
    own = {"its own model", "a large file"}
    assert succeeded(folder) == own | of_the_network | OPEN.get(confined, set())


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path(SYSTEM_PYTHON).exists() or not shutil.which("runuser"),
    reason="only root can become an ordinary user, who needs a Python outside root's home",
)
def test_an_ordinary_users_model_is_held_by_each_way_too() -> None:
    """By the number of its processes too, which binds no root."""
    for way in OF_ANY_USER:
        works(way)
    packages = f"{Path(pytest.__file__).parents[1]}:{Path(evalcore.__file__).parents[1]}"
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": packages,
        "PLUMBLINE_DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
    }
    with tempfile.TemporaryDirectory(prefix="ordinary-") as name:
        shutil.chown(name, "nobody")
        script = str(Path(__file__).with_name("ordinary_user.py"))
        told = subprocess.run(
            ["runuser", "-u", "nobody", "--", SYSTEM_PYTHON, script, name],
            env={**variables, "PLUMBLINE_HOME": name},
            capture_output=True,
            text=True,
            check=False,
        )
    assert told.returncode == 0, told.stderr
    outcome = json.loads(told.stdout)
    assert len(outcome.pop("free")) == 10
    assert outcome == {way.name: [] for way in OF_ANY_USER}
