"""The disk that a child takes: all that lies in its folders, and what is left beside them.

Each file has a limit that the kernel keeps; their sum has none without a quota, so it is looked at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

DISK_BYTES = 16 << 30
FILES = 100_000
LEAST_FREE = 512 << 20
"""Bytes of the disk that a child is ended to keep, where it is at work while they go."""


class Footprint:
    """What was added to these folders since now, and what is free on their disks and on others."""

    def __init__(self, folders: Sequence[Path], others: Sequence[Path] = ()) -> None:
        self._folders = folders
        self._files, self._bytes = _held(folders)
        self._disks = [*folders, *others]
        self._free = _free(self._disks)

    def too_large(self) -> str | None:
        """What there is too much of; None where it keeps to its limits."""
        files, held = _held(self._folders, self._files + FILES)
        if files - self._files > FILES:
            return f"more than {FILES:,} files"
        if held - self._bytes > DISK_BYTES:
            return f"{(held - self._bytes) / 2**30:.1f} GiB of files"
        return None

    def fills_the_disk(self) -> bool:
        """Whether hardly anything is free that was so before: by deleted files too, or others'."""
        free = _free(self._disks)
        return free < LEAST_FREE and self._free - free > LEAST_FREE // 2


def _held(folders: Sequence[Path], most: int | None = None) -> tuple[int, int]:
    """Files and folders, and the bytes that their blocks take; not further than `most` of them."""
    files = held = 0
    for entry in _entries(folders):
        files += 1
        held += entry.st_blocks * 512
        if most is not None and files > most:
            break
    return files, held


def _entries(folders: Sequence[Path]) -> Iterator[os.stat_result]:
    for top in folders:
        for folder, inner, names in os.walk(top):
            for name in (*inner, *names):
                with suppress(OSError):  # gone since it was listed
                    yield os.lstat(Path(folder, name))


def _free(folders: Sequence[Path]) -> int:
    return min((shutil.disk_usage(folder).free for folder in folders), default=0)
