"""What a machine keeps for itself is swept, by the chores where they run and by workers elsewhere.

Workers on machines of their own have a home each, whose leftovers no other machine sees. What all
machines share (artifacts, boards) is the business of the chores alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from django.conf import settings
from django.db import connection

from runners import hub_cache, leftovers

logger = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds from one sweep of a worker's to its next."""
LAST_SWEEP = 20.0
"""Seconds for which a worker that ends by itself waits for its sweep: one that only drains the
queue would else never have finished any."""


def sweep() -> bool:
    """Remove what nobody on this machine needs any more; False where another process is at it."""
    with _alone() as alone:
        if alone:
            leftovers.sweep()
            hub_cache.make_room()
    return alone


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other process sweeps it. The kernel lets go of the lock with the process."""
    lock = os.open(
        settings.PLUMBLINE_HOME / "sweep.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


class Sweeper:
    """Sweeps beside a worker, which looks for runs meanwhile."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._due = monotonic()
        self._thread: threading.Thread | None = None

    def sweep_if_due(self) -> None:
        """Begin a sweep, where the last one is long ago. Returns at once."""
        if monotonic() < self._due or (self._thread and self._thread.is_alive()):
            return
        self._due = monotonic() + EVERY
        # A worker that is asked to stop waits for none: what is left the next sweep removes.
        self._thread = threading.Thread(target=_sweep_quietly, name="sweep", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """For the sweep that goes on, though not for long, nor where the worker has to stop."""
        until = monotonic() + LAST_SWEEP
        while self._thread and self._thread.is_alive() and monotonic() < until:
            if self._stopping.wait(0.1):
                break


def _sweep_quietly() -> None:
    try:
        sweep()
    except Exception:
        # A worker's runs are worth more than its disk's room, which the next sweep makes.
        logger.exception("a sweep came to an end by a fault")
    finally:
        connection.close()
