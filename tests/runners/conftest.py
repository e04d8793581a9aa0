"""A machine on which a model's process finds much that is not its own."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

import evalcore
from runners import confinement
from runners.confinement import WAYS, Way
from tests.runners import standin


@cache
def _why_not(way: Way) -> str | None:
    return confinement._why_not(way)


def works(wanted: Way) -> Way:
    """This way, where the machine has it."""
    # Whether another user can be taken is a matter of the home folder, which tests change.
    if why := confinement._why_not(wanted) if wanted.own_user else _why_not(wanted):
        if os.environ.get("CI"):
            pytest.fail(f"{wanted.name}: {why}")
        pytest.skip(f"{wanted.name}: {why}")
    return wanted


OF_ANY_USER = tuple(way for way in WAYS if not way.own_user)
"""Ways that do not take root."""
SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
"""Outside root's home, where the tests' own may lie: other users can start it."""
PACKAGES = [str(Path(package.__file__).parents[1]) for package in (pytest, evalcore)]
FOR_ALL = f"""
import runpy, sys
sys.path[:0] = {PACKAGES}
runpy.run_path({standin.__file__!r}, run_name="__main__")
"""


@pytest.fixture
def way() -> Way:
    """How models are confined on this machine; `test_every_confinement` has each way in turn."""
    return confinement.here()


@pytest.fixture
def namespaces(way: Way) -> None:
    """Models are confined by these as well."""
    if not way.namespaces:
        pytest.skip("there are no namespaces here")


def let_others_start_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.backends.PYTHON", (SYSTEM_PYTHON, "-c", FOR_ALL))


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
    monkeypatch.setattr("runners.backends.PYTHON", (sys.executable, standin.__file__))
    return home


@pytest.fixture
def stand_in_home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder of the test's own; no process that the test starts outlives it."""
    before = set(psutil.Process().children(recursive=True))
    yield keep_to(tmp_path, settings, monkeypatch)
    left = set(psutil.Process().children(recursive=True)) - before
    assert [child for child in left if child.is_running()] == []


@pytest.fixture
def downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run needs of the Hub is there already: no process is started to download it."""
    monkeypatch.setattr("runners.execute._fetch", lambda *_: None)


@pytest.fixture
def passed_folder() -> Iterator[Path]:
    """A folder to which other users find a way, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory(prefix="passed-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def full_home(passed_folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder as a site has it, with everything in it that a model must not have."""
    home = passed_folder / "home"
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
    monkeypatch.setattr("runners.execute._tidy", lambda *_: None)
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
