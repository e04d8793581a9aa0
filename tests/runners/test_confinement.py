"""How a model's process is confined: what the machine offers, what is shown to it, what code inside
it can reach where a model would run and be fetched, and with a GPU what CUDA's driver needs when it
starts, and nothing beside.

No GPU is here: another device stands for one, and a program does as the driver was seen to do on an
H100. Whatever must fail is first shown to succeed where nothing confines it: an escape that cannot
succeed proves nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

import evalcore
from evalcore.sandbox import confinement, landlock, seccomp
from evalcore.sandbox.confinement import LANDLOCK, LIMITS_ALONE, Needs, Way, why_not
from evalcore.task.transforms.code_sandbox import Isolation
from leaderboard.models import Run, Worker
from runners import sandboxed
from runners.__main__ import compile_engine
from runners.devices import host_memory
from runners.registration import Registration
from runners.sandboxed import confined, limits
from tests.runners import escapes, rows
from tests.runners.conftest import refused
from tests.runners.place import STARTS_WITHIN, printed, wait_until
from tests.runners.programs import SYSTEM_PYTHON, escaped_as_programs

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_a_kernel_does_not_offer_is_said_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def seen_anew() -> Way:
        why_not.cache_clear()
        sandboxed.way_of_machine.cache_clear()
        return sandboxed.way_of_machine()

    try:
        with monkeypatch.context() as machine:
            machine.setattr(shutil, "which", lambda _: None)
            assert not seen_anew().namespaces
            assert "NO NAMESPACES HERE" in caplog.text or "NOT CONFINED" in caplog.text
            machine.setattr(seccomp, "available", lambda: False)
            assert seen_anew() == LIMITS_ALONE
        monkeypatch.setattr(landlock, "abi", lambda: 0)
        assert seen_anew() == LIMITS_ALONE
        assert "MODELS ARE NOT CONFINED HERE" in caplog.text
        assert "lsm=landlock" in str(sandboxed.refusal())
    finally:
        why_not.cache_clear()
        sandboxed.way_of_machine.cache_clear()


def test_where_nothing_confines_models_none_is_run_unless_the_operator_says_so(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    (run,) = rows.queued("arc")
    monkeypatch.setattr(sandboxed, "way_of_machine", lambda: LIMITS_ALONE)
    with pytest.raises(SystemCheckError, match=r"runners\.E001[\s\S]*PLUMBLINE_UNCONFINED=yes"):
        call_command("check")
    assert "nothing here confines a model's process" in str(refused(monkeypatch, "cpu"))
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("queued", 0)
    assert not Worker.objects.exists()
    settings.PLUMBLINE_UNCONFINED = True
    call_command("check")
    assert refused(monkeypatch, "cpu") is None
    assert Registration("a worker", "cpu").announce().confinement == "limits alone"


def started(way: Way, needs: Needs, *words: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a Python program that is confined so."""
    needs.folder.mkdir(exist_ok=True)
    command = confined([sys.executable, "-P", "-s", *words], needs, way)
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(needs.folder)}
    return subprocess.run(
        command, cwd=needs.folder, env=environment, capture_output=True, text=True, check=False
    )


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


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("loopback", [True, False])
def test_with_a_loopback_a_process_reaches_itself_and_nobody_else(
    tmp_path: Path, listeners: dict[str, Any], way: Way, loopback: bool
) -> None:
    """As the process groups of torch do, without which vLLM does not start."""
    work = tmp_path / "work"
    needs = Needs(folder=work, write=[work], loopback=loopback)
    told = started(way, needs, "-c", REACHES, str(listeners["TCP"][1]))
    if told.returncode == 0:
        assert told.stdout.split() == ["reached" if loopback else "refused", "refused"]
    else:  # without a loopback there is not even an address to listen on
        assert not loopback, told.stderr


RESERVES = """
import mmap, sys
NO_RESERVE = 0x4000
try:
    mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | NO_RESERVE)
    print("given")
except (OSError, MemoryError):
    print("refused")
"""


@pytest.mark.parametrize(("beyond", "said"), [(-2 << 30, "given"), (6 << 30, "refused")])
def test_a_process_is_given_no_more_memory_than_the_machine_has_just_now(
    tmp_path: Path, way: Way, beyond: int, said: str
) -> None:
    """Else it fills the machine between two looks at it, and the system ends whom it likes."""
    here = min(host_memory(), psutil.virtual_memory().available)
    needs = Needs(folder=tmp_path / "work", write=[tmp_path / "work"], limits=limits())
    told = started(way, needs, "-c", RESERVES, str(here + beyond))
    assert told.stdout.strip() == said, told.stderr


WRITES = """
import os, sys
for place in sys.argv[1:]:
    try:
        open(os.path.join(place, "written") if os.path.isdir(place) else place, "ab").close()
        print("wrote", place)
    except OSError as problem:
        print("refused", place, problem)
"""


@pytest.mark.usefixtures("namespaces")
def test_what_is_shown_to_be_read_cannot_be_written(way: Way, tmp_path: Path) -> None:
    own, shown, work = tmp_path / "own", tmp_path / "it's shown", tmp_path / "work"
    for folder in (own, shown, work):
        folder.mkdir()
    (shown / "file").write_text("as it was")
    of_the_system = ["/usr", "/etc/passwd", "/sys/fs/cgroup", "/sys/kernel/profiling"]
    asked = [*of_the_system, str(shown), str(shown / "file")]
    wanted = [sys.executable, "-I", "-c", WRITES, *asked, "/proc/sys/kernel/core_pattern", str(own)]
    command = confined(wanted, Needs(folder=work, read=[shown], write=[own]), way)
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    outcome = [line.split()[0] for line in told.stdout.splitlines()]
    assert outcome == ["refused"] * (len(asked) + 1) + ["wrote"], told.stdout
    assert (shown / "file").read_text() == "as it was"
    assert [entry.name for entry in shown.iterdir()] == ["file"]
    assert (own / "written").exists()


@pytest.mark.usefixtures("namespaces")
def test_a_models_process_finds_the_engine_compiled(way: Way, tmp_path: Path) -> None:
    """It cannot write what it compiles itself, and would do so at each start."""
    source = Path(evalcore.__path__[0], "model", "conformance", "reading.py")
    Path(cache_from_source(str(source))).unlink(missing_ok=True)
    compile_engine()
    needs = Needs(folder=tmp_path / "work")
    told = started(way, needs, "-v", "-c", "import evalcore.model.conformance")
    assert told.returncode == 0, told.stderr[-2000:]
    engine = [line for line in told.stderr.splitlines() if f"{evalcore.__path__[0]}/" in line]
    assert f" matches {source}" in " ".join(engine)
    assert not [line for line in engine if "code object from" in line and ".pyc" not in line]


# What code inside a child can reach

Order = tuple[str, str, Any]
OPEN = {LANDLOCK: {"processes"} if os.geteuid() == 0 else set()}
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
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Order]:
    """By name what is tried, and on what; what cannot be undone in the process comes last."""
    home, source = full_home, Path(evalcore.__file__)
    monkeypatch.setenv("PLUMBLINE_SECRET_KEY", "nobody else's business")
    reached = ("TCP", "a socket with a path", "an abstract socket")
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
        (
            "tasks",
            "open_for_writing",
            str(next(Path(settings.PLUMBLINE_TASKS).rglob("*.yaml"))),
        ),
        ("the kernel", "open_for_writing", "/proc/sys/kernel/core_pattern"),
        ("another's environment", "read", f"/proc/{victim}/environ"),
        ("another's memory", "open_for_writing", f"/proc/{victim}/mem"),
        ("another's files", "read", f"/proc/{victim}/root/etc/shadow"),
        ("a signal", "signal", victim),
        ("tracing", "trace", victim),
        ("priorities", "slow_down", victim),
        ("limits of others", "limit_another", victim),
        *((name, "connect", listeners[name]) for name in reached),
        ("UDP", "send", listeners["UDP"]),
        ("the host of a virtual machine", "open_socket", (AF_VSOCK, socket.SOCK_STREAM)),
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


def give_orders(folder: Path, orders: list[Order]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(escapes.__file__, folder)
    (folder / "orders.json").write_text(json.dumps(orders))


def came_of(folder: Path) -> dict[str, str]:
    told: dict[str, str] = json.loads((folder / "answers.json").read_text())
    return told


def escaped(folder: Path) -> set[str]:
    return {name for name, what in came_of(folder).items() if not what.startswith("refused")}


def done(behaviour: str) -> Run:
    (run,) = rows.evaluate(behaviour)
    assert run.state == "done", run.log_tail
    return run


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user may do little of it unconfined")
def test_each_escape_succeeds_where_nothing_confines_it(
    orders: list[Order], tmp_path: Path
) -> None:
    folder = tmp_path / "free"
    give_orders(folder, orders)
    command = [sys.executable, str(folder / "escapes.py"), str(folder)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    free = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        assert free.wait() == 0
    finally:
        os.killpg(free.pid, signal.SIGKILL)
    missed = {name for name, *_ in orders} - escaped(folder)
    assert not missed, {name: came_of(folder)[name] for name in missed}


def test_a_models_process_reaches_nothing_that_is_not_its_own(
    full_home: Path, orders: list[Order], way: Way
) -> None:
    own = str(full_home / "hf/hub/models--standin--prisoner/config.json")
    folder = full_home / "journal" / str(rows.variant("standin/prisoner").pk)
    allowed = [("its own configuration", "read", own), ("a daemon", "leave_a_daemon", None)]
    give_orders(folder, [("its own model", "write", own), *allowed, *orders])
    run = done("prisoner")
    assert run.environment["confinement"] == way.name
    assert run.environment["network"] == "none"
    assert escaped(folder) == {"its own configuration", "a daemon"} | OPEN.get(way, set())
    wait_until(lambda: not escapes.daemons(), STARTS_WITHIN, lambda: str(escapes.daemons()))


def test_a_download_has_the_network_and_nothing_else(
    full_home: Path, orders: list[Order], way: Way
) -> None:
    folder = full_home / "hf/hub/models--standin--captive"
    give_orders(folder, [("its own model", "make", str(folder)), *orders])
    done("captive")
    of_the_network = {"TCP", "UDP"}
    # A download's largest file is a shard of weights.
    own = {"its own model", "a large file"}
    assert escaped(folder) == own | of_the_network | OPEN.get(way, set())


def test_a_function_of_the_operators_may_download_any_data_set(
    full_home: Path, tmp_path: Path, settings: Any
) -> None:
    settings.PLUMBLINE_TASKS = tmp_path / "tasks"
    settings.PLUMBLINE_TASKS.mkdir()
    (settings.PLUMBLINE_TASKS / "made.yaml").write_text(
        "{task: made, custom_dataset: !function code.make, test_split: test,"
        " output_type: multiple_choice, doc_to_text: question, doc_to_choice: choices,"
        " doc_to_target: answer, metadata: {version: 1}}"
    )
    (settings.PLUMBLINE_TASKS / "code.py").write_text("def make(**_): ...\n")
    hub = full_home / "hf/hub"
    folder = hub / "models--standin--captive"
    loaded = [
        ("files of the Hub", "make", str(hub)),
        ("prepared data", "make", str(full_home / "hf/datasets")),
    ]
    give_orders(folder, [*loaded, ("the database", "read", str(full_home / "db.sqlite3"))])
    rows.evaluate("captive", "made")
    assert escaped(folder) == {name for name, *_ in loaded}


USERS = (False, True) if os.geteuid() == 0 else (False,)


@pytest.mark.parametrize("change_user", USERS, ids=["as this user", "as nobody"][: len(USERS)])
def test_a_program_that_a_model_wrote_reaches_nothing(
    orders: list[Order], way: Way, change_user: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likewise, though it is no model's process: the code benchmarks run it where they score."""
    if change_user:
        if not Path(SYSTEM_PYTHON).exists():
            pytest.skip("nobody needs a Python outside root's home")
        monkeypatch.setattr(sys, "executable", SYSTEM_PYTHON)
    open_to_it = set() if change_user else OPEN.get(way, set())
    assert set(escaped_as_programs(orders, Isolation(way, change_user))) == open_to_it


# What CUDA's driver needs

START = {"its thread's name", "listening"}
OPENED = {"a socket of the internet", "a socket for streams", "a socket for datagrams"}
"""Where the network, and what lies at paths, is the process's own."""
FILES = {"the kernel", "another's place in the queue"}
"""All that this user may write is open where limits stand alone."""


@pytest.fixture
def like_cuda(listeners: dict[str, Any], victim: int) -> list[Order]:
    """What the driver was seen to do, and what would come of its means in other hands."""
    packets, datagrams = listeners["packets at a path"], listeners["datagrams"]
    return [
        ("its thread's name", "name_a_thread", None),
        ("a descendant's", "name_a_descendants_thread", None),
        ("listening", "listen", None),
        ("a connection by a path", "connect_by", (socket.SOCK_SEQPACKET, packets)),
        (
            "a connection in the abstract",
            "connect_by",
            (socket.SOCK_SEQPACKET, listeners["packets in the abstract"]),
        ),
        ("a stream", "connect", listeners["a socket with a path"]),
        ("a datagram", "connect_by", (socket.SOCK_DGRAM, datagrams)),
        ("a datagram of a pair", "send_by_a_pair", datagrams),
        ("a socket of the internet", "open_socket", (socket.AF_INET, socket.SOCK_STREAM)),
        ("a socket for streams", "open_socket", (socket.AF_UNIX, socket.SOCK_STREAM)),
        ("a socket for datagrams", "open_socket", (socket.AF_UNIX, socket.SOCK_DGRAM)),
        ("the kernel", "open_for_writing", "/proc/sys/kernel/core_pattern"),
        ("another's place in the queue", "open_for_writing", f"/proc/{victim}/oom_score_adj"),
    ]


TRY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import escapes
escapes.main(Path(sys.argv[1]))
"""


def tried(way: Way, folder: Path, orders: list[Order], *, network: bool = False) -> set[str]:
    own = folder / way.name.replace(" ", "-")
    give_orders(own, orders)
    needs = Needs(folder=folder / "work", write=[own], network=network, limits=limits())
    # By no name of its file: that alone would be shown to it.
    told = started(way, needs, "-c", TRY, str(own))
    assert told.returncode == 0, told.stderr
    return escaped(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot write to the kernel at all")
def test_all_that_is_tried_succeeds_where_nothing_confines_it(
    tmp_path: Path, like_cuda: list[Order]
) -> None:
    give_orders(tmp_path, like_cuda)
    printed([sys.executable, str(tmp_path / "escapes.py"), str(tmp_path)])
    assert escaped(tmp_path) == {name for name, *_ in like_cuda}


def test_cudas_driver_may_start_where_there_is_a_gpu_and_nothing_of_others_is_reached(
    tmp_path: Path, like_cuda: list[Order], way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as with_gpu:
        with_gpu.setattr(confinement, "OF_CUDA", "full")
        opened = OPENED | {"a descendant's"} if way.namespaces else set()
        assert tried(way, tmp_path, like_cuda) == START | opened
        assert tried(LIMITS_ALONE, tmp_path, like_cuda) - FILES == START | {"a descendant's"}
        if seccomp.available():  # nor may a download
            network = {"a socket of the internet"}
            assert tried(way, tmp_path, like_cuda, network=True) - network == set()
    if confinement.has_cuda():
        pytest.skip("this machine has GPUs")
    assert tried(way, tmp_path, like_cuda) == (OPENED | {"listening"} if way.namespaces else set())
    own = {"its thread's name", "a descendant's"}
    assert tried(LIMITS_ALONE, tmp_path, like_cuda) - FILES == own
