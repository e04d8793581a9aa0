"""A sandbox for programs that models wrote: does one come to its end without an error?

What it protects against, and what not, is in docs/sandbox.md. One program is one process (see
code_child.py) with its own session, environment and folder, confined as a model's process is
(evalcore/sandbox/); at the end everything in it is killed.
"""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from evalcore.errors import InfraError
from evalcore.sandbox.confinement import REMEDY, WAYS, Needs, Way, confined, why_not

CHILD = Path(__file__).with_name("code_child.py")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the order of a set is the same in every run
    "OPENBLAS_NUM_THREADS": "1",  # else NumPy asks for memory for each core
}
USERS = range(50_000, 60_000)
"""Numbers that belong to nobody: of the programs, where we are root."""
READY = b"ready\n"
START_SECONDS = 60.0
"""For the child to get ready, on a busy machine."""
PROBE = "import array, colorsys, tempfile; tempfile.TemporaryFile()"
"""Needs files of Python that nothing else has loaded, and a folder to write to."""
CROWD = """
import os, time
try:
    for _ in range(400):
        if not os.fork():
            time.sleep(30)
            os._exit(0)
except OSError:
    pass
else:
    raise SystemExit
"""
"""Comes to its end only where something bounds the number of processes."""
NO_BOUND = "the number of processes has no limit, as for root before Linux 6.14"
NO_NAMESPACES = (
    "No namespaces here, so programs that models wrote are confined by Landlock and seccomp alone "
    "(docs/sandbox.md): %s"
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one program may use."""

    wall_seconds: float = 10.0
    cpu_seconds: int = 4
    """Of each of its processes, the start of Python included."""
    memory_bytes: int = 1 << 30
    """Address space of each of its processes."""
    file_bytes: int = 16 << 20
    disk_bytes: int = 64 << 20
    """Of all its files; enforced where it has a file system of its own."""
    processes: int = 16
    """With their threads; where it has no process table of its own, none but itself."""


LIMITS = Limits()


@dataclass(frozen=True)
class Isolation:
    """How a program is kept apart: in which way, and whether as a user that nobody else is."""

    way: Way
    change_user: bool

    @property
    def has_namespaces(self) -> bool:
        return self.way.namespaces


def all_pass(programs: Sequence[str], limits: Limits = LIMITS) -> list[bool]:
    """For each program whether it comes to its end; as many at a time as there are cores.

    Raises InfraError if a program cannot even be started.
    """
    how = isolation()
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda program: passes(program, limits, how), programs))


def passes(program: str, limits: Limits = LIMITS, how: Isolation | None = None) -> bool:
    """Whether the program comes to its end without an exception, within its limits.

    Raises InfraError if it cannot even be started.
    """
    how = how or isolation()
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="program-") as folder:
        command = [sys.executable, "-s", "-P", "-B", str(CHILD)]
        process = subprocess.Popen(
            confined(command, _needs(Path(folder), limits, how), how.way),
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        order = json.dumps({"program": program, "token": token}).encode()
        with process:
            try:
                return _verdict(process, order, token, limits)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _needs(folder: Path, limits: Limits, how: Isolation) -> Needs:
    return Needs(
        folder=folder,
        bare=True,
        user=random.choice(USERS) if how.change_user else None,  # noqa: S311 - no secret
        memory_files_bytes=limits.disk_bytes,
        # What leaves its session is ended with its process table, or there must be none.
        processes=limits.processes if how.has_namespaces else 0,
        limits={
            "RLIMIT_CPU": limits.cpu_seconds,
            "RLIMIT_AS": limits.memory_bytes,
            "RLIMIT_FSIZE": limits.file_bytes,
            "RLIMIT_NOFILE": 64,
        },
        seconds=int(START_SECONDS + limits.wall_seconds),
    )


def _verdict(process: subprocess.Popen[bytes], order: bytes, token: str, limits: Limits) -> bool:
    """Whether the child writes the token before its time is up."""
    stdin, stdout, stderr = _pipes(process)
    with suppress(BrokenPipeError):
        stdin.write(order)
        stdin.close()
    said = _read(stdout, len(READY), START_SECONDS)
    if said != READY:
        os.killpg(process.pid, signal.SIGKILL)
        why = stderr.read().decode(errors="replace").strip() or "it did not get ready in time"
        raise InfraError(f"a program's sandbox did not start: {why[-500:]}")
    return _read(stdout, len(token), limits.wall_seconds) == token.encode()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if not (process.stdin and process.stdout and process.stderr):
        raise InfraError("a process was started without pipes")
    return process.stdin, process.stdout, process.stderr


def _read(pipe: IO[bytes], size: int, seconds: float) -> bytes:
    """The next `size` bytes; fewer where the pipe ends or the time is up."""
    said, until = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(said) < size and selector.select(max(0.0, until - time.monotonic())):
            more = os.read(pipe.fileno(), size - len(said))
            if not more:
                break
            said += more
    return said


@cache
def isolation() -> Isolation:
    """The strictest way that works here.

    Raises InfraError if none does.
    """
    users = (True, False) if _can_become_anybody() else (False,)
    reasons: list[str] = []
    for how in (Isolation(way, change_user) for way in WAYS for change_user in users):
        if (why := _unfit(how)) is None:
            if not how.has_namespaces:
                logger.warning(NO_NAMESPACES, "; ".join(reasons))
            return how
        reasons.append(f"{how.way.name}: {why}")
    raise InfraError(
        f"programs that models wrote cannot be run safely here ({'; '.join(reasons)}). {REMEDY}: "
        "see docs/sandbox.md"
    )


def _unfit(how: Isolation) -> str | None:
    """What stands against it; None where a harmless program passes, and no crowd of processes."""
    if why := why_not(how.way, USERS.start if how.change_user else None):
        return why
    try:
        if not passes(PROBE, how=how):
            return "a harmless program fails"
        return None if passes(CROWD, how=how) else NO_BOUND
    except InfraError as error:
        return error.reason
    except OSError as error:
        return str(error)


def _can_become_anybody() -> bool:
    """Whether we are root, and not merely of a user namespace that knows few users."""
    if os.geteuid() != 0:
        return False
    table = Path("/proc/self/uid_map")
    if not table.exists():
        return True
    ranges = [tuple(map(int, line.split())) for line in table.read_text().splitlines()]
    return any(first <= USERS.start and first + n >= USERS.stop for first, _, n in ranges)
