"""What code inside a model's process can reach: real escapes, tried where the model would run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

import evalcore
from leaderboard.models import Worker
from leaderboard.queue import claims
from runners import confinement, landlock, prepare, worker
from runners.confinement import WAYS, Needs, Way
from runners.process import Child
from tests.runners import rows
from tests.runners.conftest import works
from tests.runners.test_process import is_alive

pytestmark = pytest.mark.django_db(transaction=True)

NAMESPACES = WAYS[0]


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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    (run,) = rows.queued("arc")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    # Done already. Again, it closes the streams of handlers such as absl's, which are pytest's.
    monkeypatch.setattr("django.setup", lambda: None)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):  # the worker sets them for good
        monkeypatch.setenv(name, "")
    once = Namespace(devices="cpu", drain=True, until_idle=None, launch=None)
    monkeypatch.setattr(confinement, "here", lambda: confinement.LIMITS_ALONE)
    with pytest.raises(SystemCheckError, match=r"runners\.E001[\s\S]*PLUMBLINE_UNCONFINED=yes"):
        call_command("check")
    assert worker.main(once) == 1
    assert "nothing here confines a model's process" in capsys.readouterr().err
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("queued", 0)
    assert not Worker.objects.exists()
    settings.PLUMBLINE_UNCONFINED = True
    call_command("check")
    monkeypatch.setattr(claims, "claim_next", lambda _: None)
    assert worker.main(once) == 0
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
        confinement.command(program, needs, works(confined)),
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


WRITES = """
import os, sys
for place in sys.argv[1:]:
    try:
        open(os.path.join(place, "written") if os.path.isdir(place) else place, "ab").close()
        print("wrote", place)
    except OSError as problem:
        print("refused", place, problem)
"""


@pytest.mark.parametrize("kernel", ["this kernel", "Linux before 5.12"])
@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.name)
def test_what_is_shown_to_be_read_cannot_be_written_whatever_the_kernel(
    way: Way, kernel: str, tmp_path: Path
) -> None:
    """Where mount_setattr(2) is missing, each mount is made read-only by itself."""
    works(way)
    own, shown, work = tmp_path / "own", tmp_path / "it's shown", tmp_path / "work"
    for folder in (own, shown, work):
        folder.mkdir()
    (shown / "file").write_text("as it was")
    of_the_system = ["/usr", "/etc/passwd", "/sys/fs/cgroup", "/sys/kernel/profiling"]
    asked = [*of_the_system, str(shown), str(shown / "file")]
    wanted = [sys.executable, "-I", "-c", WRITES, *asked, "/proc/sys/kernel/core_pattern", str(own)]
    command = confinement.command(wanted, Needs(folder=work, read=[shown], write=[own]), way)
    before = [] if kernel == "this kernel" else [sys.executable, "-m", "tests.runners.old_kernel"]
    told = subprocess.run([*before, *command], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    outcome = [line.split()[0] for line in told.stdout.splitlines()]
    assert outcome == ["refused"] * (len(asked) + 1) + ["wrote"], told.stdout
    assert (shown / "file").read_text() == "as it was"
    assert [entry.name for entry in shown.iterdir()] == ["file"]
    assert (own / "written").exists()


@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.name)
def test_a_models_process_finds_the_engine_compiled(way: Way, tmp_path: Path) -> None:
    """It cannot write what it compiles itself, and would do so at each start."""
    works(way)
    source = Path(evalcore.__path__[0], "model", "conformance", "reading.py")
    Path(cache_from_source(str(source))).unlink(missing_ok=True)
    prepare.compile_engine()
    program = [sys.executable, "-P", "-s", "-v", "-c", "import evalcore.model.conformance"]
    told = subprocess.run(
        confinement.command(program, Needs(folder=tmp_path), way),
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-2000:]
    engine = [line for line in told.stderr.splitlines() if f"{evalcore.__path__[0]}/" in line]
    assert f" matches {source}" in " ".join(engine)
    assert not [line for line in engine if "code object from" in line and ".pyc" not in line]
