"""A program that is forked has what a started one has, and says the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from tests.hub import client_environment

TOLD = """
import json, os, random, sys
import numpy, torch
from huggingface_hub import constants
print(json.dumps({
    "pid": os.getpid(), "arguments": sys.argv, "folder": os.getcwd(),
    "variables": sorted(os.environ.items()), "main": __name__,
    "hub": constants.ENDPOINT, "threads": torch.get_num_threads(),
    "paths": sys.path[:1] + [path for path in sys.path if path == "/somewhere"],
    "encodings": [sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors],
    "signals": [str(__import__("signal").getsignal(number)) for number in (2, 13, 15, 17)],
    "drawn": [random.random(), numpy.random.random()],
    "open": len(os.listdir("/proc/self/fd")),
}))
"""


def test_it_has_its_own_process_arguments_folder_and_environment(tmp_path: Path) -> None:
    environment = client_environment("http://127.0.0.1:9", tmp_path, PYTHONPATH="/somewhere")
    arguments = ["-c", TOLD, "--one", "two words"]
    started = subprocess.run(
        [sys.executable, *arguments],
        env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    forked = [warm.run(arguments, env=environment, cwd=tmp_path, timeout=300) for _ in range(2)]
    assert [(program.returncode, program.stderr) for program in forked] == [(0, "")] * 2
    real, first, second = (json.loads(program.stdout) for program in (started, *forked))
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
        ("raise ValueError('wrong')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import atexit; atexit.register(print, 'at the end'); print('said')", 0),
        (THREAD, 0),
    ],
)
def test_it_ends_as_a_started_one(code: str, status: int) -> None:
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    forked = warm.run(["-c", code], timeout=300)
    assert forked.returncode == started.returncode == status
    assert forked.stdout == started.stdout
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_what_lasts_too_long_is_killed(tmp_path: Path) -> None:
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run(["-c", code + "time.sleep(600)"], timeout=5)
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_only_counts_at_a_start_is_refused() -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED: counts when a program starts"):
        warm.run(["-c", "pass"], env={**os.environ, "PYTHONHASHSEED": "7"}, timeout=300)
