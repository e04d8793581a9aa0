"""`python -m runners.child ORDERS COMMAND…`: run a command that ends when our parent does.

ORDERS is the number of the descriptor that the command reads as its standard input.

The parent starts us in a session of our own and holds the other end of our standard input. When it
dies, however it dies, the kernel closes that end, and we kill the model, whatever it has started,
also in sessions of its own, and ourselves. A model otherwise outlives its worker and keeps the GPU.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading

from runners import descendants
from runners.confined import SIGNALLED
from runners.prctl import adopt_orphans, die_with_parent


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
    descendants.kill(os.getpid())
    if status > SIGNALLED:  # the first process of a namespace cannot be ended by a signal itself
        status = SIGNALLED - status
    if status < 0:
        _leave_by_signal(-status)
    return status


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    descendants.kill(os.getpid())
    os.killpg(0, signal.SIGKILL)


def _leave_by_signal(number: int) -> None:
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
