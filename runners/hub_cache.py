"""The models that this machine keeps: evicted by age, by size, and when a new one needs the room.

The Hub client's own tools say what is there and remove it. What a queued or a running run is of is
never removed, by whatever name the Hub knows it.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from time import time

from django.conf import settings
from huggingface_hub import CachedRevisionInfo, HFCacheInfo, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from leaderboard.models import Run, Variant
from leaderboard.models.run import State
from leaderboard.models.variant import BYTES_PER_PARAMETER
from runners.folders import Entry, Hidden, entries, remove

logger = logging.getLogger(__name__)

DAY = 24 * 3600
RESERVE = 2 * 2**30
"""Bytes that stay free on the disk beside a model that is to be fetched."""


def home() -> Path:
    """HF_HOME of every child of this worker."""
    return Path(os.environ.get("HF_HOME") or settings.PLUMBLINE_HOME / "hf")


def make_room(variant: Variant | None = None) -> int:
    """Evict the models that are too old or too many, and enough of them to fetch `variant`.

    The number of bytes that were freed.
    """
    folder = home() / "hub"
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
    gone, freed = [], 0
    for revision in oldest_first:
        if _last_used(revision) > too_old and freed >= max(lacking, surplus):
            break
        gone.append(revision.commit_hash)
        freed += revision.size_on_disk
    if not gone:
        return 0
    strategy = cache.delete_revisions(*gone)
    strategy.execute()
    logger.info("evicted %d models, %s", len(gone), strategy.expected_freed_size_str)
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
