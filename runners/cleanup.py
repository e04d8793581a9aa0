"""What a machine keeps for itself and what is removed of it: by the chores where they run, and by
workers elsewhere, whose homes no other machine sees.

What all machines share (artifacts, boards) is the business of the chores alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic, time
from uuid import UUID

from django.conf import settings
from django.db import connection

from leaderboard.models import Run
from leaderboard.models.run import WAITING
from runners import hub_cache, registration
from runners.folders import Hidden, entries, remove

KEEP_LOGS = timedelta(days=14)
KEEP_NAMES = timedelta(days=14)
KEEP_JOURNALS = timedelta(days=14)
"""A failed run that is submitted again takes up what was answered before."""


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep `folder` from the sweep as long as this process lives, whatever became of its runs.

    The kernel lets go of the lock with the process, however that ends.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        yield
    finally:
        os.close(held)


def remove_leftovers() -> int:
    """Remove work folders of claims and workers that are gone, and old logs, journals and names of
    workers; how many."""
    gone = 0
    for folder in (settings.PLUMBLINE_HOME / "work").glob("*"):
        if _is_abandoned(folder):
            remove(folder)
            gone += 1
    for journal in _unwanted_journals():
        remove(journal)
        gone += 1
    for log in (settings.PLUMBLINE_HOME / "logs").glob("*.log"):
        with suppress(FileNotFoundError):
            if time() - log.stat().st_mtime > KEEP_LOGS.total_seconds():
                log.unlink()
                gone += 1
    return gone + registration.forget_names(settings.PLUMBLINE_HOME, KEEP_NAMES)


def _is_abandoned(folder: Path) -> bool:
    try:
        token = UUID(folder.name)
    except ValueError:
        return False
    # The engine may still write when the last run of its claim is stored.
    return not Run.objects.filter(lease_token=token).exists() and not _is_in_use(folder)


def _is_in_use(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def journal_folder(run: Run) -> Path:
    """Where its answers are: a folder for its variant, and one for each order to measure it again,
    since answers that are to be replaced must not be taken up."""
    name = f"{run.variant_id}-{run.rerun_id}" if run.rerun_id else str(run.variant_id)
    return Path(settings.PLUMBLINE_HOME / "journal" / name)


def _unwanted_journals() -> Iterator[Path]:
    """Those that no run needs and that are too old, or of those the oldest until the rest fits.

    What a queued or running run will take up is never removed.
    """
    journals = [
        folder
        for folder in (settings.PLUMBLINE_HOME / "journal").glob("*")
        if re.fullmatch(r"\d+(-\d+)?", folder.name)
    ]
    found = {journal: _written(journal) for journal in journals}
    surplus = sum(size for _, size in found.values()) - settings.PLUMBLINE_JOURNAL_BYTES
    for journal, (written, size) in sorted(found.items(), key=lambda pair: pair[1]):
        too_old = time() - written > KEEP_JOURNALS.total_seconds()
        # Asked of each in the moment before it goes: others claim runs while this one sweeps.
        if (too_old or surplus > 0) and not _is_needed(journal):
            surplus -= size
            yield journal


def _is_needed(journal: Path) -> bool:
    variant, _, rerun = journal.name.partition("-")
    runs = Run.objects.filter(variant=int(variant), rerun=int(rerun) if rerun else None)
    return runs.filter(state__in=WAITING).exists()


def _written(folder: Path) -> tuple[float, int]:
    """When something was last written into it, and its bytes."""
    with suppress(FileNotFoundError):
        last, size = folder.stat().st_mtime, 0
        with suppress(Hidden):
            for entry in entries(folder):
                last = max(last, entry.status.st_mtime)
                size += entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0
        return last, size
    return 0.0, 0


logger = logging.getLogger(__name__)

SWEEP_EVERY = 3600.0
"""Seconds from one sweep of a worker's to its next."""
LAST_SWEEP = 20.0
"""Seconds for which a worker that ends by itself waits for its sweep: one that only drains the
queue would else never have finished any."""


def sweep() -> bool:
    """Remove what nobody on this machine needs any more; False where another process is at it."""
    with _only_sweeper() as alone:
        if alone:
            remove_leftovers()
            hub_cache.make_room()
    return alone


@contextmanager
def _only_sweeper() -> Iterator[bool]:
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
        self._due = monotonic() + SWEEP_EVERY
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
