"""`python ordinary_user.py FOLDER`: escapes by whoever runs this, free and in each way, as JSON.

Run as another user than the tests' own, where those are root's: some limits do not bind root.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import django
import psutil

django.setup()

from evalcore.sandbox.confinement import WAYS, Needs, Way  # noqa: E402
from evalcore.task.transforms.code_sandbox import Isolation  # noqa: E402
from runners.sandboxed import confined, limits  # noqa: E402 - it imports tables
from tests.runners import escapes  # noqa: E402
from tests.runners.programs import escaped_as_programs  # noqa: E402

FEW = 20
"""Processes of this user, its own among them."""


def main(home: Path) -> None:
    secret = home / "secret_key"
    secret.write_text("nobody else's business")
    with (
        subprocess.Popen(["sleep", "600"], start_new_session=True) as victim,
        socket.socket(socket.AF_UNIX) as server,
    ):
        server.bind(str(home / "socket"))
        server.listen()
        orders = [
            ("the secret key", "read", str(secret)),
            ("writing to it", "open_for_writing", str(secret)),
            ("another's environment", "read", f"/proc/{victim.pid}/environ"),
            ("a signal", "signal", victim.pid),
            ("tracing", "trace", victim.pid),
            ("priorities", "slow_down", victim.pid),
            ("limits of others", "limit_another", victim.pid),
            ("a socket with a path", "connect", str(home / "socket")),
            ("a namespace", "new_namespace", None),
            ("processes", "fork", 1000),
        ]
        try:
            outcome = {"free": tried(home, orders, None)}
            for way in WAYS:
                outcome[f"a model, {way.name}"] = tried(home, orders, way)
                how = Isolation(way, change_user=False)
                outcome[f"a program, {way.name}"] = escaped_as_programs(orders, how)
        finally:
            victim.kill()
    print(json.dumps(outcome))


def tried(home: Path, orders: list[tuple[str, str, object]], way: Way | None) -> list[str] | str:
    """Which of them succeeded; or how the attempt ended."""
    folder = home / (way.name.replace(" ", "-") if way else "free")
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "orders.json").write_text(json.dumps(orders))
    command = [sys.executable, str(escapes.__file__), str(work)]
    if way:
        needs = Needs(folder=folder, write=[work], limits=limits())
        command = confined(command, needs, way)
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(work), "HOME": str(work)}
    with subprocess.Popen(command, env=environment, cwd=folder, start_new_session=True) as free:
        status = free.wait(300)
        with suppress(ProcessLookupError):
            os.killpg(free.pid, signal.SIGKILL)
    wait_for_the_dead()
    if status:
        return f"status {status}"
    came_of = json.loads((work / "answers.json").read_text())
    return sorted(name for name, what in came_of.items() if not what.startswith("refused"))


def wait_for_the_dead() -> None:
    """A thousand processes that were killed count as this user's until somebody has reaped them."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        users = (process.info["uids"] for process in psutil.process_iter(["uids"]))
        if sum(uids is not None and uids.real == os.getuid() for uids in users) < FEW:
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
