"""Folders that a hostile process has written: looked through and removed, whatever they are like.

Python's own ways through a tree (`os.walk`, `rglob`, `rmtree`) end in a RecursionError a thousand
folders deep, see nothing that lies further down than a path is long, and leave what is closed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

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


def empty(folder: Path, *, of: int | None = None) -> None:
    """Remove all that lies in it, or what is `of` this user, through no link in its place."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for entry in list(os.scandir(held)):
                if of is not None and entry.stat(follow_symlinks=False).st_uid != of:
                    continue
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
