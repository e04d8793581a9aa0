"""The disk that a child takes: all that lies in its folders, and what is left beside them.

Each file has a limit that the kernel keeps; their sum has none without a quota, so it is looked at.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evalcore.errors import DISK_FULL
from runners.folders import Hidden, entries

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
        self._files, self._bytes, _ = _held(folders)
        self._disks = [*folders, *others]
        self._free = _free(self._disks)

    def too_large(self) -> str | None:
        """What the child took too much of, or hides; None where it keeps to its limits."""
        files, held, hides = _held(self._folders, self._files + FILES)
        if hides:
            return "hides files: its folders are closed, or lie too deep in each other"
        if files - self._files > FILES:
            return f"took more than {FILES:,} files of the disk"
        if held - self._bytes > DISK_BYTES:
            return f"took {(held - self._bytes) / 2**30:.1f} GiB of files of the disk"
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
        files, held, _ = _held(self._folders, self._files + FILES)
        files, held = max(files - self._files, 0), max(held - self._bytes, 0)
        if self.free() + held < self._least_free:
            return True
        # A quota and a lack of inodes do not show in what is free.
        modest = held < LEAST_FREE and files < FILES_OF_AN_EVALUATION
        return modest and any(map(_refuses, self._disks))


def _held(folders: Sequence[Path], most: float = math.inf) -> tuple[int, int, bool]:
    """Files and folders, and the bytes that their blocks take; not further than `most` of them.

    And whether there is more that nobody can see.
    """
    files, held, hides = 0, 0, False
    for folder in folders:
        try:
            for entry in entries(folder):
                files += 1
                held += entry.status.st_blocks * 512
                if files > most:
                    return files, held, hides
        except Hidden:
            hides = True
    return files, held, hides


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
