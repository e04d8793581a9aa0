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
    hidden: list[object] = []
    own_depth = len(Path(top).parts)
    with suppress(FileNotFoundError, NotADirectoryError):
        for folder, inner, names, here in os.fwalk(top, onerror=hidden.append):
            for name in (*inner, *names):
                with suppress(OSError):
                    status = os.stat(name, dir_fd=here, follow_symlinks=False)
                    yield Entry(Path(folder, name), status)
            if inner and len(Path(folder).parts) - own_depth >= DEEPEST:
                hidden.append(folder)
                inner.clear()
    if any(not isinstance(reason, FileNotFoundError) for reason in hidden):
        raise Hidden(str(top))


def hides_files(top: str | Path) -> bool:
    """Whether something lies below it that nobody can see."""
    try:
        deque(entries(top), maxlen=0)
    except Hidden:
        return True
    return False


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
