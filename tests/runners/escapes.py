"""What code inside a model's process would try. Runs in the stand-in, where the model would.

Each attempt returns what it got; an OSError is what it should get.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CLONE_NEWUSER = 0x10000000
TIB = 2**40
NORESERVE = 0x4000  # of Linux; the module does not name it
MARK = "a-model-that-got-away"


def read(path: str) -> str:
    return f"read {Path(path).read_bytes()[:20]!r}"


def write(path: str) -> str:
    with Path(path).open("ab") as file:
        file.write(b"x")
    return "wrote"


def make(path: str) -> str:
    (Path(path) / "planted").write_text("x")
    return "made a file"


def write_transaction(path: str) -> str:
    with sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=1) as database:
        database.execute("BEGIN IMMEDIATE")
    return "wrote to the database"


def connect(address: Any) -> str:
    if isinstance(address, str):
        kind, address = socket.AF_UNIX, address.replace("@", "\0")
    else:
        kind, address = socket.AF_INET, tuple(address)
    with socket.socket(kind) as client:
        client.settimeout(2)
        client.connect(address)
    return "connected"


def signal(pid: int) -> str:
    os.kill(pid, 0)
    return "may signal it"


def fork(times: int) -> str:
    for _ in range(times):
        if not os.fork():
            time.sleep(60)
            os._exit(0)
    return f"forked {times} times"


def grow(gib: int) -> str:
    with Path(os.environ["TMPDIR"], "large").open("wb") as file:
        file.truncate(gib * 2**30)
    return f"made a file of {gib} GiB"


def hold(tib: int) -> str:
    mmap.mmap(-1, tib * TIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    return f"mapped {tib} TiB"


def compute_for_ever(_: object) -> str:
    if resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY:
        raise OSError("its processor time has an end")
    return "may compute for ever"


def new_namespace(_: object) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    return "has all capabilities again"


def leave_a_daemon(_: object) -> str:
    """Twice forked and in a session of its own, with our standard output held open."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", MARK])
        os._exit(0)
    return "left"


ATTEMPTS: dict[str, Callable[[Any], str]] = {
    function.__name__: function
    for function in (
        *(read, write, make, write_transaction, connect, signal, grow, hold),
        *(compute_for_ever, new_namespace, leave_a_daemon, fork),
    )
}


def attempt(orders: list[tuple[str, str, Any]]) -> dict[str, str]:
    """By name what came of each order (name, attempt, on what)."""
    came_of: dict[str, str] = {}
    for name, kind, target in orders:
        try:
            came_of[name] = ATTEMPTS[kind](target)
        except (OSError, sqlite3.Error) as refused:
            came_of[name] = f"refused: {type(refused).__name__}"
    return came_of


def daemons() -> list[str]:
    """Those that were left and live, as the machine sees them."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if line.endswith(MARK)]


def main(folder: Path) -> None:
    orders = json.loads((folder / "orders.json").read_text())
    (folder / "answers.json").write_text(json.dumps(attempt(orders)))
