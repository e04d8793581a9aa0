"""A machine on which a model's process finds much that is not its own."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from celery.signals import celeryd_init

from evalcore.sandbox.confinement import Way, why_not
from runners import sandboxed, worker
from runners.celery import EVALUATE, DevicePool
from tests.runners import standin


def works(wanted: Way) -> Way:
    """This way, where the machine has it."""
    if why := why_not(wanted):
        if os.environ.get("CI"):
            pytest.fail(f"{wanted.name}: {why}")
        pytest.skip(f"{wanted.name}: {why}")
    return wanted


@pytest.fixture
def way() -> Way:
    """How models are confined on this machine; `test_every_confinement` has each way in turn."""
    return sandboxed.way_of_machine()


@pytest.fixture
def namespaces(way: Way) -> None:
    """Models are confined by these as well."""
    if not way.namespaces:
        pytest.skip("there are no namespaces here")


def refused(monkeypatch: pytest.MonkeyPatch, devices: str) -> str | None:
    """What a worker with these devices says as it starts, and ends; None where it goes on."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):  # it sets them for good
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    options = {
        **{"queues": [EVALUATE], "devices": devices, "drain": True},
        **{"pool": DevicePool, "concurrency": 1},  # as Celery reads them from its settings
    }
    try:
        celeryd_init.send(
            "test", instance=SimpleNamespace(), conf=SimpleNamespace(), options=options
        )
    except SystemExit as end:
        return str(end)
    assert worker._place is not None
    worker._place.locks.close()
    monkeypatch.setattr(worker, "_place", None)
    return None


def live_in(home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything lie in this folder."""
    settings.PLUMBLINE_HOME = home
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": home / "artifacts"}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    monkeypatch.setenv("HF_HOME", str(home / "hf"))


def keep_to(home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have everything lie in this folder, and the stand-in start in the engine's place."""
    live_in(home, settings, monkeypatch)
    settings.PLUMBLINE_TASKS = standin.TASKS
    monkeypatch.setattr("runners.sandboxed.PYTHON", (sys.executable, standin.__file__))
    return home


@pytest.fixture
def stand_in_home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder of the test's own; no process that the test starts outlives it."""
    before = set(psutil.Process().children(recursive=True))
    yield keep_to(tmp_path, settings, monkeypatch)
    left = set(psutil.Process().children(recursive=True)) - before
    # What an older process begins is its own: the browser of other tests starts helpers any time.
    own = [child for child in left if child.is_running() and not before & set(child.parents())]
    assert own == []


@pytest.fixture
def downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run needs of the Hub is there already: no process is started to download it."""
    monkeypatch.setattr("runners.evaluate._fetch", lambda *_: None)


@pytest.fixture
def full_home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder as a site has it, with everything in it that a model must not have."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for folder in ("artifacts/aa", "hf/hub/models--other--model", "work/another-run"):
        (home / folder).mkdir(parents=True)
    for file in (
        *("secret_key", "hf/token", "hf/hub/models--other--model/weights"),
        *("artifacts/aa/file", "work/another-run/answers"),
    ):
        (home / file).write_text("nobody else's business")
    own = home / "hf/hub/models--standin--prisoner"
    own.mkdir()
    (own / "config.json").write_text("{}")
    with closing(sqlite3.connect(home / "db.sqlite3")) as database:
        database.execute("CREATE TABLE runs (id)")
    monkeypatch.setattr("runners.evaluate._tidy", lambda *_: None)
    return keep_to(home, settings, monkeypatch)


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Servers on this machine: by TCP, at a path and in the abstract, of each kind of socket."""
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.socket())
        udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        for server in (tcp, udp):
            server.bind(("127.0.0.1", 0))
        addresses: dict[str, Any] = {"TCP": tcp.getsockname(), "UDP": udp.getsockname()}
        for name, kind, address in (
            ("a socket with a path", socket.SOCK_STREAM, str(tmp_path / "s")),
            ("an abstract socket", socket.SOCK_STREAM, f"@plumbline-{os.getpid()}"),
            ("packets at a path", socket.SOCK_SEQPACKET, str(tmp_path / "p")),
            ("packets in the abstract", socket.SOCK_SEQPACKET, f"@plumbline-p-{os.getpid()}"),
            ("datagrams", socket.SOCK_DGRAM, str(tmp_path / "d")),
        ):
            server = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            server.bind(address.replace("@", "\0"))
            if kind != socket.SOCK_DGRAM:
                server.listen()
            addresses[name] = address
        tcp.listen()
        yield addresses


@pytest.fixture
def victim() -> Iterator[int]:
    """Another process of this user, in a session of its own."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process.pid
        process.kill()
