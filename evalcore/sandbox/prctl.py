"""What a Linux process can ask of its kernel about itself; no-ops on other systems."""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def hide_from_peers() -> None:
    """Make `/proc/<this process>/` unreadable to other processes of the same user.

    A model's process runs under the worker's user; it must not read the worker's environment.
    The kernel forgets this at exec, so every program says it for itself.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every process below us that loses its own, however it left."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")
