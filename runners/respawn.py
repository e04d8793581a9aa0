"""`python -m runners.respawn COMMAND…`: run a part of the tree, and again when it dies.

A worker that is killed (kill -9, out of memory) must not take the site with it: it comes back
within a second, and its runs with it when their lease has run out. A part that dies again and again
as soon as it has started is given up, and the tree ends and says which part it was.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from time import monotonic, sleep

from evalcore.sandbox.prctl import die_with_parent

QUICK = 10.0
"""Seconds: a part that lived no longer has not started well."""
QUICK_ENDS = 5
PAUSE = 1.0


def main(command: list[str]) -> int:
    """Run `command` until somebody asks us to stop; its exit status where it is given up."""
    signals: list[int] = []  # no Event: two signals at once could lock each other out
    for number in (signal.SIGTERM, signal.SIGINT):
        # The supervisor signals the whole session, so the command hears it without us.
        signal.signal(number, lambda number, _: signals.append(number))
    quick_ends = 0
    while not signals:
        started = monotonic()
        process = subprocess.Popen(command, preexec_fn=die_with_parent)
        if signals:
            process.terminate()  # the signal may have come before there was anybody to hear it
        status = process.wait()
        if signals:
            return max(status, 0)
        quick_ends = quick_ends + 1 if monotonic() - started < QUICK else 0
        if quick_ends == QUICK_ENDS:
            sys.stderr.write(f"ended {QUICK_ENDS} times just after its start: given up\n")
            return max(status, 1)
        sys.stderr.write(f"ended with status {status}; starting it again\n")
        sleep(PAUSE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
