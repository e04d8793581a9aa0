"""A part that dies comes back; one that cannot start is given up; one that is stopped stays so."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

COUNT = "import sys; open(sys.argv[1], 'a').write('x'); sys.exit(3)"
SLEEP = "import sys, time; open(sys.argv[1], 'a').write('x'); time.sleep(60)"


def respawn(program: str, file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runners.respawn", sys.executable, "-c", program, str(file)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


ASKED_AS_IT_STARTS = """
import os, signal, subprocess, sys
from runners import respawn

start = subprocess.Popen

def asked_meanwhile(*words, **named):
    os.kill(os.getpid(), signal.SIGTERM)
    return start(*words, **named)

subprocess.Popen = asked_meanwhile
sys.exit(respawn.main(["sleep", "600"]))
"""


def starts(file: Path, expected: int) -> None:
    deadline = time.monotonic() + 120
    while not file.exists() or len(file.read_text()) < expected:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_part_that_never_starts_well_is_given_up_with_its_status(tmp_path: Path) -> None:
    process = respawn(COUNT, tmp_path / "starts")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    assert (tmp_path / "starts").read_text() == "xxxxx"
    assert "given up" in said


def test_a_killed_part_comes_back_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "starts"
    process = respawn(SLEEP, file)
    starts(file, 1)
    subprocess.run(["pkill", "-9", "-P", str(process.pid)], check=True)
    starts(file, 2)
    # As the supervisor does it: to the whole session.
    subprocess.run(["kill", "-TERM", "--", f"-{process.pid}"], check=True)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert file.read_text() == "xx"
    assert f"ended with status {-signal.SIGKILL}" in said


def test_a_part_that_was_not_there_yet_to_be_asked_to_stop_is_asked_again() -> None:
    ended = subprocess.run([sys.executable, "-c", ASKED_AS_IT_STARTS], timeout=120, check=False)
    assert ended.returncode == 0
