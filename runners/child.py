"""`python -m runners.child ORDERS COMMAND…`: run a command that ends when our parent does.

ORDERS is the number of the descriptor that the command reads as its standard input.

The parent starts us in a session of our own and holds the other end of our standard input. When it
dies, however it dies, the kernel closes that end, and we kill the model, whatever it has started,
also in sessions of its own, and ourselves. A model otherwise outlives its worker and keeps the GPU.

The functions below `main` reach all processes below one, whatever session or group they made.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import psutil

from evalcore.sandbox.confined_child import SIGNALLED
from evalcore.sandbox.prctl import adopt_orphans, die_with_parent


def main(command: list[str]) -> int:
    """Run `command` to its end and leave as it left: with its exit status, or by its signal."""
    # A handler, and not SIG_IGN, which the command would inherit: signals to the group are for it.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, lambda *_: None)
    adopt_orphans()
    # A core dump would put the model's memory, and whatever was read into it, on disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    orders = int(command.pop(0))
    process = subprocess.Popen(command, stdin=orders, preexec_fn=die_with_parent)
    os.close(orders)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    status = process.wait()
    kill(os.getpid())
    if status > SIGNALLED:  # the first process of a namespace cannot be ended by a signal itself
        status = SIGNALLED - status
    if status < 0:
        _leave_by_signal(-status)
    return status


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    kill(os.getpid())
    os.killpg(0, signal.SIGKILL)


def _leave_by_signal(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


PATIENCE = 5.0
"""Seconds for killed processes to go; what the kernel holds for longer is not waited for."""


def living(pid: int) -> list[psutil.Process]:
    """Those below `pid` that run; the processes of a namespace are among them."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if _runs(process)]


def kill(pid: int) -> None:
    """Kill all below `pid`, which must adopt orphans (prctl.py), or those get away.

    What is killed may have children that are then the reaper's: so again, until none is left.
    """
    until = monotonic() + PATIENCE
    while (left := living(pid)) and monotonic() < until:
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        sleep(0.02)


def freeze(pid: int) -> set[psutil.Process] | None:
    """Stop all below `pid`, so that none of them does anything more; None where one goes on."""
    until = monotonic() + PATIENCE
    while monotonic() < until:
        processes = living(pid)
        awake = [process for process in processes if not _is_stopped(process)]
        if not awake:
            return set(processes)
        for process in awake:
            with suppress(psutil.Error):
                process.suspend()
        sleep(0.02)
    return None


def thaw(pid: int) -> None:
    """Have all below `pid` go on, the inner ones first: unshare stops where its child does."""
    for process in reversed(living(pid)):
        with suppress(psutil.Error):
            process.resume()


def processor_seconds(pid: int) -> float:
    """Of that one below `pid` which has used most."""
    used = [0.0]
    for process in living(pid):
        with suppress(psutil.Error):
            times = process.cpu_times()
            used.append(times.user + times.system)
    return max(used)


def own_memory(process: psutil.Process) -> int:
    """Bytes that the process holds and the kernel cannot take back.

    Pages of mapped files (weights as they are read) are none; memory that it shares with its own
    children is. Raises psutil.Error.
    """
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        held = process.memory_info()
        return int(held.rss - getattr(held, "shared", 0))
    kibibytes = (line.split()[1] for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 1024 * sum(map(int, kibibytes))


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return True  # it has ended


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
