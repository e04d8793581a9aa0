"""Folders that a hostile process has written: looked through and removed, whatever they are like.

Python's own ways through a tree (`os.walk`, `rglob`, `rmtree`) end in a RecursionError a thousand
folders deep, see nothing that lies further down than a path is long, and leave what is closed.

Each file that a child writes has a limit that the kernel keeps; their sum has none without a quota,
so it is looked at (`Footprint`).
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from evalcore.errors import DISK_FULL

DEEPEST = 64
"""Folders in each other, more than any honest program nests."""


class Hidden(Exception):
    """A folder in which nobody can see what lies there: too deep, or closed to its owner."""


class Entry(NamedTuple):
    path: Path
    """Too long to be used where it is deep down."""
    status: os.stat_result


def entries(top: str | Path) -> Iterator[Entry]:
    """All below a folder, through no link; what goes meanwhile is left out.

    Raises Hidden once all that can be seen was told.
    """
    problems: list[OSError] = []
    own_depth, too_deep = len(Path(top).parts), False
    try:
        for folder, inner, names, here in os.fwalk(top, onerror=problems.append):
            for name in (*inner, *names):
                with suppress(OSError):
                    status = os.stat(name, dir_fd=here, follow_symlinks=False)
                    yield Entry(Path(folder, name), status)
            if inner and len(Path(folder).parts) - own_depth >= DEEPEST:
                too_deep = True
                inner.clear()
    except OSError as problem:
        problems.append(problem)
    # Nobody's fault are folders that go meanwhile, and a machine that lets us open no more files.
    if too_deep or any(isinstance(problem, PermissionError) for problem in problems):
        raise Hidden(str(top))


def hides_files(top: str | Path) -> bool:
    """Whether something lies below it that nobody can see."""
    try:
        deque(entries(top), maxlen=0)
    except Hidden:
        return True
    return False


def empty(folder: Path) -> None:
    """Remove all that lies in it, through no link in its place."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for entry in list(os.scandir(held)):
                if entry.is_dir(follow_symlinks=False):
                    remove(entry.name, below=held)
                else:
                    os.unlink(entry.name, dir_fd=held)
        finally:
            os.close(held)


def remove(folder: str | Path, *, below: int | None = None) -> None:
    """Remove a folder with all in it, as far as the system lets us; a link in its place stays.

    `below` is the descriptor of the folder that a name is looked for in.
    """
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True, dir_fd=below)
    path = Path(folder) if below is None else Path(f"/proc/self/fd/{below}", folder)
    if path.is_symlink() or not path.is_dir():
        return
    # Neither calls itself for a folder in a folder, and neither follows a link in there.
    for words in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        subprocess.run(
            [*words, "--", path],
            stderr=subprocess.DEVNULL,
            check=False,
            pass_fds=() if below is None else (below,),
        )


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
        self._files, self._bytes, _ = _disk_use(folders)
        self._disks = [*folders, *others]
        self._free = _free_bytes(self._disks)

    def too_large(self) -> str | None:
        """What the child took too much of, or hides; None where it keeps to its limits."""
        files, held, hides = _disk_use(self._folders, self._files + FILES)
        if hides:
            return "hides files: its folders are closed, or lie too deep in each other"
        if files - self._files > FILES:
            return f"took more than {FILES:,} files of the disk"
        if held - self._bytes > DISK_BYTES:
            return f"took {(held - self._bytes) / 2**30:.1f} GiB of files of the disk"
        return None

    def fills_the_disk(self) -> bool:
        """Whether hardly anything is free that was so before: by deleted files too, or others'."""
        free = _free_bytes(self._disks)
        return free < LEAST_FREE and self._free - free > LEAST_FREE // 2

    def free(self) -> int:
        """Bytes on the fullest of its disks."""
        return _free_bytes(self._disks)

    def is_without_room(self) -> bool:
        """Whether the disks would be full without what this child has left, as we find ourselves.

        To be asked when the child is dead: files that it had deleted and held open are gone then.
        """
        files, held, _ = _disk_use(self._folders, self._files + FILES)
        files, held = max(files - self._files, 0), max(held - self._bytes, 0)
        if self.free() + held < self._least_free:
            return True
        # A quota and a lack of inodes do not show in what is free.
        modest = held < LEAST_FREE and files < FILES_OF_AN_EVALUATION
        return modest and any(map(_refuses, self._disks))


def _disk_use(folders: Sequence[Path], most: float = math.inf) -> tuple[int, int, bool]:
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


def _free_bytes(folders: Sequence[Path]) -> int:
    """On the fullest of their disks; a work folder may be removed already."""
    return min((shutil.disk_usage(folder).free for folder in folders if folder.exists()), default=0)
