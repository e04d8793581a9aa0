"""The disk that a child takes: all that lies in its folders, and what is left beside them.

Each file has a limit that the kernel keeps; their sum has none without a quota, so it is looked at.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from evalcore.errors import DISK_FULL

DISK_BYTES = 16 << 30
FILES = 100_000
LEAST_FREE = 512 << 20
"""Bytes of the disk that a child is ended to keep, where it is at work while they go."""
TRIAL = bytes(1 << 20)
FILES_OF_AN_EVALUATION = 1000
"""More than an honest one leaves: a file system that has none left is then not to be blamed."""


class Footprint:
    """What was added to these folders since now, and what is free on their disks and on others.

    `to_come` are bytes that the child is allowed to add to the others.
    """

    def __init__(
        self, folders: Sequence[Path], others: Sequence[Path] = (), to_come: int = 0
    ) -> None:
        self._folders = folders
        self._least_free = LEAST_FREE + to_come
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

    def free(self) -> int:
        """Bytes on the fullest of its disks."""
        return _free(self._disks)

    def is_without_room(self) -> bool:
        """Whether the disks would be full without what this child has left, as we find ourselves.

        To be asked when the child is dead: files that it had deleted and held open are gone then.
        """
        files, held = _held(self._folders, self._files + FILES)
        files, held = max(files - self._files, 0), max(held - self._bytes, 0)
        if self.free() + held < self._least_free:
            return True
        # A quota and a lack of inodes do not show in what is free.
        modest = held < LEAST_FREE and files < FILES_OF_AN_EVALUATION
        return modest and any(map(_refuses, self._disks))


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


def _refuses(folder: Path) -> bool:
    """Whether the system finds no room for a file of ours there."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(TRIAL)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        return problem.errno in DISK_FULL
    return False


def _free(folders: Sequence[Path]) -> int:
    """On the fullest of their disks; a work folder may be removed already."""
    return min((shutil.disk_usage(folder).free for folder in folders if folder.exists()), default=0)
