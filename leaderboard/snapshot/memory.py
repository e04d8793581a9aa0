"""Boards that a process of the site has at hand, by the digest of their file.

Each is mapped from a folder that is unpacked once a machine: by who builds the board, else by the
first who asks for it. What is mapped stays whole when its folder goes.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Container
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from django.core.files.storage import storages

from leaderboard.samples import store as artifacts
from leaderboard.snapshot import file as snapshot_file
from leaderboard.snapshot.data import Board

MOST = 24
PAST = 12
"""Unpacked folders beside those of the boards that are shown: who asks for one day after the other
fills no disk. The one asked for longest ago makes room."""
UNUSED = timedelta(hours=6)
"""After so long the folder of a past board is removed."""

_boards: OrderedDict[str, Board] = OrderedDict()
_reading = threading.Lock()
_read_beside: set[str] = set()


def holds(sha256: str) -> bool:
    """Whether the board is mapped already."""
    return sha256 in _boards


def board(sha256: str) -> Board:
    """The board in the file with this digest, unpacked if need be."""
    if found := _boards.get(sha256):
        with suppress(KeyError):  # another thread may have just let it go
            _boards.move_to_end(sha256)
        return found
    with _reading:  # two requests at once would unpack the same file twice
        if found := _boards.get(sha256):
            return found
        found = _boards[sha256] = _mapped(sha256)
        while len(_boards) > MOST:
            _boards.popitem(last=False)
        return found


def unpack(sha256: str) -> None:
    """Make the board ready for every process of this machine."""
    if not folder_of(sha256).is_dir():
        snapshot_file.unpack(artifacts.path_of(sha256), folder_of(sha256))


def read_beside(sha256: str) -> None:
    """Map the board in a thread of its own, while requests go on being answered."""
    if sha256 not in _read_beside:
        _read_beside.add(sha256)
        threading.Thread(target=_read, args=(sha256,), daemon=True).start()


def past(sha256: str, shown: Container[str]) -> Board:
    """A board for a reader who asks how it stood; those with a digest among `shown` are left."""
    found = board(sha256)
    others = [one for one in _folder().iterdir() if one.name not in shown]
    for folder in sorted(others, key=_asked, reverse=True)[PAST:]:
        _remove(folder)
    return found


def clear(current: Container[str]) -> None:
    """Remove the folders of boards that are not current and that nobody asked for of late."""
    with suppress(FileNotFoundError):
        for folder in _folder().iterdir():
            idle = time.time() - _asked(folder)
            if folder.name not in current and idle > UNUSED.total_seconds():
                _remove(folder)


def _asked(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(folder: Path) -> None:
    """Under its name it is whole or gone, whenever we are stopped."""
    going = folder.with_name(f"going-{uuid4().hex}")
    with suppress(FileNotFoundError):  # another process was quicker
        folder.rename(going)
        shutil.rmtree(going, ignore_errors=True)


def _mapped(sha256: str) -> Board:
    """Made again where its folder is damaged, as half a deletion or a full disk leaves it."""
    folder = folder_of(sha256)
    for _ in range(2):  # it may be cleared away between the two steps
        unpack(sha256)
        try:
            os.utime(folder)
            return snapshot_file.mapped(folder)
        except (OSError, KeyError, ValueError, EOFError):
            _remove(folder)
    raise FileNotFoundError(f"board {sha256}: its unpacked folder vanished or broke twice")


def _read(sha256: str) -> None:
    try:
        board(sha256)
    finally:
        _read_beside.discard(sha256)


def folder_of(sha256: str) -> Path:
    """Where the board is, or would be, unpacked."""
    return _folder() / sha256


def _folder() -> Path:
    return Path(storages["artifacts"].path("boards"))
