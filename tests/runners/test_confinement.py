"""What code inside a model's process can reach: real escapes, tried where the model would run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

import evalcore
from leaderboard.models import Worker
from leaderboard.queue import claims
from runners import confinement, jobs, landlock
from runners.confinement import WAYS, Needs, Way
from runners.execute import evaluate_claim
from runners.process import Child
from tests.runners import escapes, rows, standin
from tests.runners.test_process import is_alive, until

pytestmark = pytest.mark.django_db(transaction=True)

NAMESPACES, LANDLOCK = WAYS[0], WAYS[2]
OPEN_TO_LANDLOCK = {"processes"}
"""What Landlock and seccomp leave open (docs/sandbox.md), where the worker is root."""


def way(wanted: Way) -> Way:
    if why := confinement._why_not(wanted):
        if os.environ.get("CI"):
            pytest.fail(f"{wanted.name}: {why}")
        pytest.skip(f"{wanted.name}: {why}")
    return wanted


@pytest.fixture
def site(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder as a site has it, with everything in it that a model must not have."""
    home = tmp_path / "home"
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
        tcp.bind(("127.0.0.1", 0))
        addresses: dict[str, Any] = {"TCP": tcp.getsockname()}
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


@pytest.mark.parametrize("confined", [NAMESPACES, LANDLOCK], ids=lambda way: way.name)
def test_a_models_process_reaches_nothing_that_is_not_its_own(
    site: Path, listeners: dict[str, Any], confined: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "here", lambda: way(confined))
    source = Path(evalcore.__file__)
    orders = [
        (
            "its own configuration",
            "read",
            str(site / "hf/hub/models--standin--prisoner/config.json"),
        ),
        ("the secret key", "read", str(site / "secret_key")),
        ("a token", "read", str(site / "hf/token")),
        ("the database", "read", str(site / "db.sqlite3")),
        ("writing to the database", "write_transaction", str(site / "db.sqlite3")),
        ("passwords", "read", "/etc/shadow"),
        ("another model", "read", str(site / "hf/hub/models--other--model/weights")),
        ("another run", "read", str(site / "work/another-run/answers")),
        ("artifacts", "make", str(site / "artifacts")),
        ("an artifact", "write", str(site / "artifacts/aa/file")),
        ("its own model", "write", str(site / "hf/hub/models--standin--prisoner/config.json")),
        ("the engine", "write", str(source)),
        ("tasks", "make", str(source.parents[1] / "tasks")),
        ("the kernel", "write", "/proc/sys/kernel/core_pattern"),
        ("the worker's environment", "read", f"/proc/{os.getpid()}/environ"),
        ("the worker", "signal", os.getpid()),
        *((name, "connect", address) for name, address in listeners.items()),
        ("a large file", "grow", 2),
        ("addresses", "hold", 1),
        ("processor time", "compute_for_ever", None),
        ("a namespace", "new_namespace", None),
        ("a daemon", "leave_a_daemon", None),
        ("processes", "fork", 1000),
    ]
    worker, variant = rows.worker(), rows.variant("standin/prisoner")
    folder = site / "journal" / str(variant.pk)
    folder.mkdir(parents=True)
    shutil.copy(escapes.__file__, folder)
    (folder / "orders.json").write_text(json.dumps(orders))
    (run,) = rows.queued("arc", variant=variant)
    claim = claims.claim_next(worker)
    assert claim is not None
    evaluate_claim(claim, worker, threading.Event())
    run.refresh_from_db()
    assert run.state == "done", run.log_tail
    assert run.environment["confinement"] == confined.name

    came_of = json.loads((folder / "answers.json").read_text())
    assert came_of.pop("its own configuration") == "read b'{}'"
    assert came_of.pop("a daemon") == "left"
    got = {name for name, what in came_of.items() if not what.startswith("refused")}
    assert got <= (OPEN_TO_LANDLOCK if confined is LANDLOCK else set())
    assert until(lambda: not escapes.daemons(), 5)


def test_what_a_kernel_does_not_offer_is_said_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    confinement.here.cache_clear()
    try:
        assert not confinement.here().namespaces
        assert "NO NAMESPACES HERE" in caplog.text or "NOT CONFINED" in caplog.text
        monkeypatch.setattr(landlock, "abi", lambda: 0)
        confinement.here.cache_clear()
        assert confinement.here().name == "limits alone"
        assert "MODELS ARE NOT CONFINED HERE" in caplog.text
    finally:
        confinement.here.cache_clear()


def test_where_nothing_confines_models_none_is_run_unless_the_operator_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    (run,) = rows.queued("arc")
    monkeypatch.setattr(confinement, "here", lambda: confinement.LIMITS_ALONE)
    with pytest.raises(SystemCheckError, match=r"runners\.E001[\s\S]*PLUMBLINE_UNCONFINED=yes"):
        call_command("check")
    jobs.evaluate_next.apply()
    assert "no model is run here" in caplog.text
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("queued", 0)
    assert not Worker.objects.exists()
    settings.PLUMBLINE_UNCONFINED = True
    call_command("check")
    monkeypatch.setattr(claims, "claim_next", lambda _: None)
    jobs.evaluate_next.apply()
    assert Worker.objects.get().confinement == "limits alone"


HOLDS_THE_PIPE = """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        open(sys.argv[1] + "/left", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1] + "/left"):
    time.sleep(0.01)
"""


def test_a_stray_descendant_neither_lives_on_nor_holds_the_worker(tmp_path: Path) -> None:
    """Also where nothing confines it: with the wrapper alone."""
    command = [sys.executable, "-c", HOLDS_THE_PIPE, str(tmp_path)]
    with Child(command, environment={}, folder=tmp_path, log=tmp_path / "log") as child:
        while not child.has_ended():
            child.next_event(0.1)
        assert child.kill() == 0
    assert not is_alive(int((tmp_path / "left").read_text()))


REACHES = """
import socket, sys
def reach(address):
    with socket.create_connection(address, timeout=5):
        return "reached"
with socket.create_server(("127.0.0.1", 0)) as own:
    for address in (own.getsockname(), ("127.0.0.1", int(sys.argv[1]))):
        try:
            print(reach(address))
        except OSError:
            print("refused")
"""


@pytest.mark.parametrize("confined", [NAMESPACES, WAYS[1]], ids=lambda way: way.name)
@pytest.mark.parametrize("loopback", [True, False])
def test_with_a_loopback_a_process_reaches_itself_and_nobody_else(
    tmp_path: Path, listeners: dict[str, Any], confined: Way, loopback: bool
) -> None:
    """As the process groups of torch do, without which vLLM does not start."""
    needs = Needs(folder=tmp_path / "work", write=[tmp_path / "work"], loopback=loopback)
    needs.folder.mkdir()
    program = [sys.executable, "-P", "-s", "-c", REACHES, str(listeners["TCP"][1])]
    told = subprocess.run(
        confinement.command(program, needs, way(confined)),
        cwd=needs.folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    itself, others = ("reached" if loopback else "refused"), "refused"
    if told.returncode == 0:
        assert told.stdout.split() == [itself, others]
    else:  # without a loopback there is not even an address to listen on
        assert not loopback, told.stderr
