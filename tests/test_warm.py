"""A program that is forked has what a started one has, and says the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment

TOLD = """
import json, os, random, sys
import numpy, torch
from huggingface_hub import constants
print(json.dumps({
    "pid": os.getpid(), "arguments": sys.argv, "folder": os.getcwd(), "read": sys.stdin.read(),
    "variables": sorted(os.environ.items()), "main": __name__,
    "hub": constants.ENDPOINT, "threads": torch.get_num_threads(),
    "paths": sys.path[:1] + [path for path in sys.path if path == "/somewhere"],
    "encodings": [sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors],
    "signals": [str(__import__("signal").getsignal(number)) for number in (2, 13, 15, 17)],
    "drawn": [random.random(), numpy.random.random()],
    "open": len(os.listdir("/proc/self/fd")),
}))
"""


def told(said: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return client_environment("http://127.0.0.1:9", tmp_path, PYTHONPATH="/somewhere")


def test_it_has_its_own_process_arguments_folder_and_environment(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["-c", TOLD, "--one", "two words"]
    started = subprocess.run(
        [sys.executable, *arguments],
        **{"env": environment, "cwd": tmp_path, "input": "asked"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    forked = [
        warm.run(arguments, env=environment, cwd=tmp_path, input="asked", timeout=300)
        for _ in range(2)
    ]
    assert [(program.returncode, program.stderr) for program in forked] == [(0, "")] * 2
    real, first, second = (told(program.stdout) for program in (started, *forked))
    assert len({real["pid"], first["pid"], second["pid"], os.getpid()}) == 4
    for drawn in zip(first.pop("drawn"), second["drawn"], real.pop("drawn"), strict=True):
        assert len({*drawn}) == 3
    assert {**first, "pid": 0} == {**real, "pid": 0}
    assert first["hub"] == "http://127.0.0.1:9"


THREAD = """
import threading, time
threading.Thread(target=lambda: (time.sleep(0.2), print("said by a thread"))).start()
print("said")
"""


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os; os._exit(75)", 75),
        ("import sys; sys.exit('a reason')", 1),
        ("raise ValueError('wrong')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import atexit; atexit.register(print, 'at the end'); print('said')", 0),
        ("import atexit; atexit.register(lambda: 1 / 0); print('said')", 0),
        ("import sys; print('said', end=''); sys.exit()", 0),
        ("import sys; sys.stderr.write('told'); sys.exit(300)", 300 - 256),
        (THREAD, 0),
    ],
)
def test_it_ends_as_a_started_one(code: str, status: int) -> None:
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    forked = warm.run(["-c", code], timeout=300)
    assert forked.returncode == started.returncode == status
    assert forked.stdout == started.stdout
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_a_command_says_and_writes_what_a_started_one_does(tmp_path: Path) -> None:
    toys = write_toys(tmp_path / "toys")
    asked = ["-m", "evalcore", "--model", "dummy", "--include_path", str(toys), "--limit", "4"]
    asked += ["--tasks", "toy_likely,toy_choice", "--bootstrap_iters", "100", "--output_path"]
    started = subprocess.run(
        [sys.executable, *asked, str(tmp_path / "started")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    forked = warm.run([*asked, str(tmp_path / "forked")], cwd=ROOT, timeout=300)
    assert (forked.returncode, started.returncode) == (0, 0)
    tables = [
        [line for line in program.stdout.splitlines() if line.startswith("|")]
        for program in (started, forked)
    ]
    assert tables[0] == tables[1]
    assert len(tables[0]) > 4
    numbers = []
    for way in ("started", "forked"):
        records = [json.loads(file.read_text()) for file in (tmp_path / way).rglob("record_*")]
        numbers.append({record["task"]: record["results"] for record in records})
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 2


def test_what_lasts_too_long_is_killed(tmp_path: Path) -> None:
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run(["-c", code + "time.sleep(600)"], timeout=5)
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


WAITS = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("long")
"""


def test_the_next_program_does_not_wait_for_one_that_runs(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        may_end = tmp_path / "may end"
        long = pool.submit(warm.run, ["-c", WAITS, str(may_end)], timeout=600)
        assert warm.run(["-c", "print('short')"], timeout=300).stdout == "short\n"
        assert not long.done()
        may_end.touch()
        assert long.result().stdout == "long\n"


def test_what_only_counts_at_a_start_is_refused() -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED: counts when a program starts"):
        warm.run(["-c", "pass"], env={**os.environ, "PYTHONHASHSEED": "7"}, timeout=300)


def test_the_server_has_imported_nothing_that_is_under_test() -> None:
    code = (
        f"import sys; print(sorted({{*{warm.NEVER!r}}} & {{*sys.modules}}), 'torch' in sys.modules)"
    )
    assert warm.run(["-c", code], timeout=300).stdout == "[] True\n"
