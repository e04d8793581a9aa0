"""What a machine keeps for itself (work folders, journals, logs, models, names of workers, messages
on files) and what is removed of it: by the chores where they run, and by workers elsewhere, whose
homes no other machine sees.

What all machines share (artifacts, boards) is the business of the chores alone.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic, time
from uuid import UUID

from django.conf import settings
from django.db import connection
from huggingface_hub import CachedRevisionInfo, HFCacheInfo, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from leaderboard.models import Run, Variant
from leaderboard.models.run import WAITING, State
from leaderboard.models.variant import BYTES_PER_PARAMETER
from runners import broker
from runners.folders import Entry, Hidden, entries, remove
from runners.sandboxed import hub_home

logger = logging.getLogger(__name__)

SWEEP_EVERY = 3600.0
"""Seconds from one sweep of a worker's to its next."""
LAST_SWEEP = 20.0
"""Seconds for which a worker that ends by itself waits for its sweep: one that only drains the
queue would else never have finished any."""
KEEP_LOGS = timedelta(days=14)
KEEP_NAMES = timedelta(days=14)
KEEP_JOURNALS = timedelta(days=14)
"""A failed run that is submitted again takes up what was answered before."""


def sweep() -> bool:
    """Remove what nobody on this machine needs any more; False where another process is at it."""
    with ExitStack() as held:
        alone = hold_lock(settings.PLUMBLINE_HOME / "sweep.lock", held)
        if alone:
            remove_leftovers()
            make_room()
            broker.sweep(settings.PLUMBLINE_HOME / "broker")
    return alone


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


def remove_leftovers() -> int:
    """Remove work folders of claims and workers that are gone, and old logs, journals and names of
    workers; how many."""
    removed = 0
    for folder in (settings.PLUMBLINE_HOME / "work").glob("*"):
        if _is_abandoned(folder):
            remove(folder)
            removed += 1
    for journal in _unwanted_journals():
        remove(journal)
        removed += 1
    for log in (settings.PLUMBLINE_HOME / "logs").glob("*.log"):
        with suppress(FileNotFoundError):
            if time() - log.stat().st_mtime > KEEP_LOGS.total_seconds():
                log.unlink()
                removed += 1
    return removed + forget_names(settings.PLUMBLINE_HOME, KEEP_NAMES)


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
    writings = {journal: _written(journal) for journal in journals}
    surplus = sum(size for _, size in writings.values()) - settings.PLUMBLINE_JOURNAL_BYTES
    for journal, (written, size) in sorted(writings.items(), key=lambda pair: pair[1]):
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


# Locks, which the kernel lets go of with the process that holds them


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep `folder` from the sweep as long as this process lives, whatever became of its runs."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        yield
    finally:
        os.close(held)


def hold_lock(file: Path, held: ExitStack) -> bool:
    """Lock a file, which is made here, until `held` ends; False where another process holds it."""
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        # Of a file that was forgotten in between, another could have its own in this place.
        if _lies_there(file, lock):
            break
        os.close(lock)
    os.utime(lock)
    held.callback(os.close, lock)
    return True


def _lies_there(file: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    return False


def forget_names(home: Path, unused_for: timedelta) -> int:
    """Remove the locks that no worker has held for so long; returns how many."""
    removed = 0
    for file in (home / "workers").glob("*.lock"):
        with ExitStack() as held, suppress(FileNotFoundError):
            is_old = time() - file.stat().st_mtime > unused_for.total_seconds()
            if is_old and hold_lock(file, held):
                file.unlink()
                removed += 1
    return removed


# The models that this machine keeps: evicted by age, by size, and when a new one needs the room

DAY = 24 * 3600
RESERVE = 2 * 2**30
"""Bytes that stay free on the disk beside a model that is to be fetched."""


def make_room(variant: Variant | None = None) -> int:
    """Evict the models that are too old or too many, and enough of them to fetch `variant`.

    The number of bytes that were freed.
    """
    folder = hub_home() / "hub"
    _drop_spoiled(folder)
    try:
        cache = scan_cache_dir(folder)
    except CacheNotFound:
        return 0
    oldest_first = sorted(_evictable(cache), key=_last_used)
    too_old = time() - settings.PLUMBLINE_CACHE_DAYS * DAY
    lacking = _lacking(cache, folder, variant) if variant else 0
    surplus = sum(repo.size_on_disk for repo in cache.repos if repo.repo_type == "model")
    surplus -= settings.PLUMBLINE_CACHE_BYTES
    evicted, freed = [], 0
    for revision in oldest_first:
        if _last_used(revision) > too_old and freed >= max(lacking, surplus):
            break
        evicted.append(revision.commit_hash)
        freed += revision.size_on_disk
    if not evicted:
        return 0
    strategy = cache.delete_revisions(*evicted)
    strategy.execute()
    logger.info("evicted %d models, %s", len(evicted), strategy.expected_freed_size_str)
    return strategy.expected_freed_size


def most_to_come(variant: Variant) -> int:
    """Bytes that a download of it may need beside those that a disk is to keep free."""
    return RESERVE + variant.parameters * max(BYTES_PER_PARAMETER.values())


def _lacking(cache: HFCacheInfo, folder: Path, variant: Variant) -> int:
    """Bytes that the disk should have free beside what it has."""
    kept = {revision.commit_hash for repo in cache.repos for revision in repo.revisions}
    if variant.whole[1] in kept:
        return 0
    needed = variant.parameters * BYTES_PER_PARAMETER[variant.dtype]
    return RESERVE + needed - shutil.disk_usage(folder).free


def _drop_spoiled(folder: Path) -> None:
    """Remove what no client of the Hub has written, before one of its tools follows it.

    A download that was taken over can leave a link to the database where a file of its model should
    be: whoever evicts the model then removes what the link names.
    """
    for repo in folder.glob("*--*"):
        if not repo.is_symlink() and _is_spoiled(repo):
            logger.error("%s has links out of it, or what is no file: removed", repo)
            remove(repo)


def _is_spoiled(repo: Path) -> bool:
    try:
        return any(map(partial(_leads_out, repo), entries(repo)))
    except Hidden:
        return True


def _leads_out(repo: Path, entry: Entry) -> bool:
    path, mode = entry.path, entry.status.st_mode
    if not stat.S_ISLNK(mode):
        return not (stat.S_ISDIR(mode) or stat.S_ISREG(mode))
    try:
        target = Path(os.path.normpath(path.parent / path.readlink()))
        return target.is_dir() or repo / "blobs" not in target.parents
    except FileNotFoundError:
        return False  # a download is at work
    except OSError:
        return True  # a name that is too long


def _evictable(cache: HFCacheInfo) -> Iterable[CachedRevisionInfo]:
    """Of repositories that no living run is of: their download may be writing into them.

    By name, and by commit too: that names the content, and a repository may have been renamed.
    """
    alive = Run.objects.filter(state__in=(State.QUEUED, State.RUNNING))
    variants = Variant.objects.filter(runs__in=alive).select_related("hub_model").distinct()
    needed = {part for variant in variants for pin in variant.repositories for part in pin}
    for repo in cache.repos:
        commits = {revision.commit_hash for revision in repo.revisions}
        if repo.repo_type == "model" and needed.isdisjoint({repo.repo_id, *commits}):
            yield from repo.revisions


def _last_used(revision: CachedRevisionInfo) -> float:
    """When its files were written or last read, as far as the file system notes it."""
    read = (file.blob_last_accessed for file in revision.files)
    return max(revision.last_modified, *read) if revision.files else revision.last_modified
