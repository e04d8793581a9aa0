"""Boards that a process of the site keeps decoded, by the digest of their file."""

from __future__ import annotations

import atexit
import gc
import threading
from collections import OrderedDict
from contextlib import suppress

from leaderboard import artifacts, snapshot_file
from leaderboard.board_data import Board

MOST = 12
"""A board of ten thousand models takes some hundred megabytes."""

_boards: OrderedDict[str, Board] = OrderedDict()
_reading = threading.Lock()
_read_beside: set[str] = set()


def holds(sha256: str) -> bool:
    return sha256 in _boards


def board(sha256: str) -> Board:
    """The board in the file with this digest, read if need be."""
    if found := _boards.get(sha256):
        with suppress(KeyError):  # another thread may have just let it go
            _boards.move_to_end(sha256)
        return found
    with _reading:  # two requests at once would read the same file twice
        if found := _boards.get(sha256):
            return found
        found = _boards[sha256] = snapshot_file.read(artifacts.path_of(sha256))
        while len(_boards) > MOST:
            _boards.popitem(last=False)
        _set_apart()
        return found


def read_beside(sha256: str) -> None:
    """Read the file in a thread of its own, while requests go on being answered."""
    if sha256 not in _read_beside:
        _read_beside.add(sha256)
        threading.Thread(target=_read, args=(sha256,), daemon=True).start()


def _read(sha256: str) -> None:
    try:
        board(sha256)
    finally:
        _read_beside.discard(sha256)


def _set_apart() -> None:
    """Take what stays in memory out of the collector's sight.

    Else a full pass over a large board holds up a request for a tenth of a second now and then.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


# What is out of its sight would not be cleared away at the end of the process.
atexit.register(gc.unfreeze)
