"""What a program that a model wrote can do in its sandbox, and what not."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.errors import InfraError
from evalcore.task.transforms import code_sandbox
from evalcore.task.transforms.code import (
    humaneval_programs,
    humaneval_programs_of_chat,
    humaneval_results,
    mbpp_programs_of_chat,
    mbpp_results,
)
from evalcore.task.transforms.code_sandbox import (
    CHILD,
    Isolation,
    Limits,
    all_pass,
    isolation,
    passes,
)
from tests.hub import ROOT
from tests.services import missing

SHORT = Limits(wall_seconds=3, cpu_seconds=1)

pytestmark = pytest.mark.usefixtures("how")
needs_namespaces = pytest.mark.usefixtures("namespaces")


@pytest.fixture(scope="module")
def how() -> Isolation:
    """The way of confinement that this machine takes."""
    try:
        return isolation()
    except InfraError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def namespaces(how: Isolation) -> None:
    if not how.has_namespaces:
        missing("NO NAMESPACES: this machine allows none")


def are_counted(how: Isolation) -> bool:
    """Whether Linux counts our processes: not those of root of a namespace of one user."""
    return how.change_user or os.geteuid() != 0


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A text in the command of every process of this test's sandboxes, and of no other."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # programs may be another user's
        child = Path(shutil.copy(CHILD, name))
        monkeypatch.setattr(code_sandbox, "CHILD", child)
        yield str(child)


def test_a_program_that_comes_to_its_end_passes() -> None:
    assert passes("import math\nassert math.isclose(0.1 + 0.2, 0.3)")
    assert passes("from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\n"
                  "class A:\n    x: int\nassert A(1) == A(1)")  # fmt: skip
    assert passes('if __name__ == "__main__":\n    raise SystemExit')
    assert passes("print('ü' * 1_000_000)")


def test_a_program_with_an_error_fails() -> None:
    programs = [
        "assert 1 == 2",
        "def f(:",
        "raise KeyboardInterrupt",
        "x = '\ud800'",
        "\0",
        "def f(): f()\nf()",
        "input()",
    ]
    passed = zip(programs, all_pass(programs), strict=True)
    assert [program for program, has_passed in passed if has_passed] == []


def test_an_early_end_or_a_claim_of_success_does_not_pass() -> None:
    programs = [
        "import sys\nsys.exit(0)\nassert False",
        "import os\nos._exit(0)\nassert False",
        "quit()\nassert False",
        "print('passed')\nprint('ready')\nassert False",
        "import os\nfor fd in range(64):\n    try: os.write(fd, b'passed\\nready\\n' * 9)\n"
        "    except OSError: pass\nassert False",
        "import atexit, os\natexit.register(os._exit, 0)\nassert False",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "import builtins\nbuiltins.AssertionError = int\nassert False",
    ]
    passed = zip(programs, all_pass(programs, SHORT), strict=True)
    assert [program for program, has_passed in passed if has_passed] == []


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time\ntime.sleep(600)",
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "import os\nos.setsid()\nwhile True: pass",
    ],
)
def test_a_program_without_end_is_ended(program: str, how: Isolation) -> None:
    assert not passes(program, SHORT, how)


def processes_like(mark: str, *, whole: bool = False) -> list[str]:
    """Those with this text in their command, or with it as their `whole` command."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = place.read_text(errors="replace")
            if command == mark or (mark in command and not whole):
                found.append(place.parent.name)
        except OSError:
            continue
    return found


def all_ended(mark: str) -> bool:
    """Whether all processes go: killed ones take a moment."""
    for _ in range(1200):
        if not processes_like(mark):
            return True
        time.sleep(0.1)
    return False


def test_a_fork_bomb_is_bounded_and_leaves_no_process(how: Isolation, mark: str) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    most = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            most[0] = max(most[0], len(processes_like(mark)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert not passes(bomb, SHORT, how)
    finally:
        done.set()
        watcher.join()
    # With unshare and the first process.
    assert 1 <= most[0] <= (SHORT.processes if are_counted(how) else 301) + 3
    assert all_ended(mark)


@needs_namespaces
def test_a_process_that_left_its_session_ends_too(mark: str) -> None:
    daemon = "import os, time\nif not os.fork():\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
    assert passes(f"{daemon}    time.sleep(60)\n    os._exit(0)\nos.wait()", SHORT)
    assert all_ended(mark)


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from evalcore.sandbox.confinement import WAYS
from evalcore.task.transforms import code_sandbox
needs = code_sandbox._needs
code_sandbox._needs = lambda *given: replace(needs(*given), seconds=3)
code_sandbox.CHILD = Path(sys.argv[1])
(way,) = (way for way in WAYS if way.name == sys.argv[2])
how = code_sandbox.Isolation(way, bool(sys.argv[3]))
code_sandbox.passes("import time; time.sleep(600)", code_sandbox.Limits(wall_seconds=600), how)
"""


def test_a_program_ends_though_nobody_is_left_to_end_it(how: Isolation, mark: str) -> None:
    words = [mark, how.way.name, "yes" if how.change_user else ""]
    by_our_package = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", KILLED, *words], env=by_our_package) as parent:
        try:
            confined_python = f"{sys.executable}\0-s\0-P\0-B\0{mark}\0"
            while not processes_like(confined_python, whole=True):
                assert parent.poll() is None
                time.sleep(0.05)
        finally:
            parent.kill()
    assert all_ended(mark)


def test_memory_files_and_descriptors_are_limited(how: Isolation) -> None:
    assert not passes("x = bytearray(2 << 30)", how=how)
    assert not passes("open('f', 'wb').write(bytes(32 << 20))", how=how)
    assert not passes("files = [open('/dev/null') for _ in range(100)]", how=how)
    assert passes("open('f', 'wb').write(bytes(1 << 20))", how=how)


@needs_namespaces
def test_all_files_together_are_limited() -> None:
    write = "for n in range(8):\n    open(str(n), 'wb').write(bytes(12 << 20))"
    assert not passes(write, Limits(disk_bytes=32 << 20))


def test_the_environment_is_empty(how: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    program = "import os\nassert not any('TOKEN' in name for name in os.environ), os.environ"
    assert passes(program, how=how)


def test_the_environment_of_the_parent_cannot_be_read(
    how: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    theirs = f"open('/proc/{os.getpid()}/environ', 'rb').read()"
    assert not passes(f"assert {theirs}", how=how)
    assert not passes("import os\nopen(f'/proc/{os.getppid()}/environ', 'rb')", how=how)


def test_nothing_outside_its_folder_can_be_written(how: Isolation, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    target = tmp_path / "written"
    for place in (str(target), "/usr/lib/written", str(Path(sys.prefix) / "written")):
        assert not passes(f"open({place!r}, 'w')", how=how)
    assert not target.exists()
    assert passes("open('written', 'w').write('x')", how=how)
    assert passes("open('/tmp/written', 'w').write('x')", how=how) == how.has_namespaces


def test_nothing_but_the_system_and_python_can_be_read(how: Isolation, tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("42")
    for place in (str(tmp_path / "answers"), "/etc/passwd", "/proc/self/environ"):
        assert not passes(f"open({place!r})", how=how)


def test_there_is_no_network(how: Isolation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            pytest.skip("there is no network outside the sandbox, either")
        connect = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)"
        assert not passes(connect, how=how)


def test_it_cannot_get_privileges_back(how: Isolation) -> None:
    libc = "import ctypes\nlibc = ctypes.CDLL(None)\n"
    new_namespace = f"{libc}assert libc.unshare(0x10000000) == -1"
    assert passes(new_namespace, how=how)
    assert passes(f"{libc}assert libc.mount(b'x', b'/tmp', b'tmpfs', 0, b'') == -1", how=how)
    assert not passes("import os\nos.chroot('/tmp')", how=how)
    by_a_command = "import subprocess\nsubprocess.run(['unshare', '-Ur', 'true'], check=True)"
    assert not passes(by_a_command, how=how)


def test_threads_may_be_started_where_they_can_be_counted(how: Isolation) -> None:
    program = "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()"
    assert passes(program, how=how) == how.has_namespaces


def test_verdicts_come_in_the_order_of_the_programs() -> None:
    programs = ["import time\ntime.sleep(0.2)", "assert False", "pass"] * 3
    assert all_pass(programs) == [True, False, True] * 3


def test_a_sandbox_that_does_not_start_is_our_fault_not_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_sandbox, "CHILD", tmp_path / "is-not-there")
    with pytest.raises(InfraError, match="did not start"):
        passes("pass")


def test_where_neither_way_works_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_sandbox, "why_not", lambda *_: "this kernel has no Landlock")
    with pytest.raises(InfraError, match=r"has no Landlock.*Boot Linux 5\.13 or later with Land"):
        isolation.__wrapped__()


def test_the_order_of_sets_is_the_same_in_every_run() -> None:
    first = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert passes(f"assert hash('a') == {first}")


# HumanEval and MBPP: from responses to programs, and from verdicts to pass@k


ADD: dict[str, Any] = {
    "prompt": 'def add(a, b):\n    """The sum."""\n',
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    "entry_point": "add",
}
RIGHT, WRONG = "    return a + b\n", "    return a - b\n"


def test_a_response_continues_the_prompt_and_a_chat_response_ends_at_its_fence() -> None:
    assert humaneval_programs([[RIGHT, WRONG]], [ADD]) == [
        [ADD["prompt"] + RIGHT, ADD["prompt"] + WRONG]
    ]
    assert humaneval_programs_of_chat([[f"{RIGHT}```\nThis adds."]], [ADD]) == [
        [ADD["prompt"] + RIGHT]
    ]


def test_pass_at_k_is_of_the_programs_that_pass_the_tests() -> None:
    programs = [ADD["prompt"] + body for body in (RIGHT, WRONG, WRONG, WRONG)]
    assert humaneval_results(ADD, [programs]) == {"pass@1": 0.25, "pass@2": 0.5}
    assert humaneval_results(ADD, [[ADD["prompt"] + RIGHT]]) == {"pass@1": 1.0}
    assert humaneval_results(ADD, [[""]]) == {"pass@1": 0.0}


def test_mbpp_needs_all_tests_to_hold() -> None:
    doc = {"test_list": ["assert f(1) == 1", "assert f(2) == 4"]}
    assert mbpp_results(doc, ["def f(x): return x * x"]) == {"pass_at_1": 1.0}
    assert mbpp_results(doc, ["def f(x): return 1"]) == {"pass_at_1": 0.0}
    assert mbpp_results(doc, [["def f(x): return x * x"]]) == {"pass_at_1": 1.0}
    assert mbpp_results(doc, ["def f(x):\r\n\treturn x ** 2\r\n"]) == {"pass_at_1": 1.0}

    full = {"test_list": ["assert f(pair) == 3"], "test_setup_code": "pair = Pair(1, 2)"}
    program = "class Pair:\n    def __init__(self, *p): self.p = p\ndef f(pair): return sum(pair.p)"
    assert mbpp_results(full, [program]) == {"pass_at_1": 1.0}
    sanitized = {"test_list": ["assert math.isclose(f(), 1)"], "test_imports": ["import math"]}
    assert mbpp_results(sanitized, ["def f(): return 1.0"]) == {"pass_at_1": 1.0}

    shots = yaml.safe_load((ROOT / "tasks" / "mbpp" / "_shots").read_text())
    for shot in shots["fewshot_config"]["samples"]:
        assert mbpp_results(shot, [shot["code"]]) == {"pass_at_1": 1.0}


CODE = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    "response",
    [
        CODE,
        f"{CODE}```\nThat returns x. For example:\n```python\nf(1)\n```",
        f"```python\n{CODE}```",
        f"```\n{CODE}```",
        f"Here it is:\n```python\n{CODE}```\nDone.",
        f"Certainly\n\n```py\n{CODE}",
    ],
)
def test_the_block_of_code_is_found(response: str) -> None:
    assert mbpp_programs_of_chat([[response]], [{}]) == [[CODE]]
