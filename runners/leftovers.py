"""Files that no living evaluation needs any more."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from time import time
from uuid import UUID

from django.conf import settings

from leaderboard.models import Run
from leaderboard.models.run import State

KEEP_LOGS = timedelta(days=14)
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


def sweep() -> int:
    """Remove work folders of claims and workers that are gone, old logs and journals; how many."""
    gone = 0
    for folder in (settings.PLUMBLINE_HOME / "work").glob("*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    for journal in (settings.PLUMBLINE_HOME / "journal").glob("*"):
        if _is_unwanted(journal):
            shutil.rmtree(journal, ignore_errors=True)
            gone += 1
    for log in (settings.PLUMBLINE_HOME / "logs").glob("*.log"):
        with suppress(FileNotFoundError):
            if time() - log.stat().st_mtime > KEEP_LOGS.total_seconds():
                log.unlink()
                gone += 1
    return gone


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


def _is_unwanted(journal: Path) -> bool:
    """Whether no run of its variant is left to be done, and nothing was written for long."""
    if not journal.name.isdecimal():
        return False
    alive = Run.objects.filter(variant=int(journal.name), state__in=(State.QUEUED, State.RUNNING))
    if alive.exists():
        return False
    with suppress(FileNotFoundError):
        written = max(file.stat().st_mtime for file in (journal, *journal.rglob("*")))
        return time() - written > KEEP_JOURNALS.total_seconds()
    return False
