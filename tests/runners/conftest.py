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
from pathlib import Path
from typing import Any

import pytest

import evalcore
from runners import confinement
from runners.confinement import WAYS, Way
from tests.runners import standin


def works(wanted: Way) -> Way:
    """This way, where the machine has it."""
    if why := confinement._why_not(wanted):
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


def let_others_start_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.backends.PYTHON", (SYSTEM_PYTHON, "-c", FOR_ALL))


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
    settings.PLUMBLINE_HOME = home
    storage = {**settings.STORAGES["artifacts"], "OPTIONS": {"location": home / "artifacts"}}
    settings.STORAGES = {**settings.STORAGES, "artifacts": storage}
    monkeypatch.setenv("HF_HOME", str(home / "hf"))
    program = (sys.executable, str(Path(standin.__file__)))
    monkeypatch.setattr("runners.backends.PYTHON", program)
    monkeypatch.setattr("runners.execute._tidy", lambda *_: None)
    return home


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Servers on this machine: by TCP, at a path and in the abstract."""
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.socket())
        udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        for server in (tcp, udp):
            server.bind(("127.0.0.1", 0))
        addresses: dict[str, Any] = {"TCP": tcp.getsockname(), "UDP": udp.getsockname()}
        for name, address in (
            ("a socket with a path", str(tmp_path / "s")),
            ("an abstract socket", f"@plumbline-{os.getpid()}"),
        ):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address.replace("@", "\0"))
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
