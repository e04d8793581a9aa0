"""Files that stand at their place whole, or not at all: written beside it, then renamed."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evalcore.digest import digest_of_bytes
from evalcore.errors import InfraError

UNFINISHED = ".unfinished"
FORGOTTEN = 24 * 3600.0
"""Seconds after which nobody writes to such a file any more: its process was killed."""

MAX_NAME = 200
"""Bytes of a task's or a model's name in that of a file: a file's own has 255 at most."""


def name_in_file(name: str) -> str:
    """The name as it stands in that of a file: of a longer one its beginning, and a digest."""
    raw = name.encode("utf-8", errors="replace")
    if len(raw) <= MAX_NAME:
        return name
    return f"{raw[: MAX_NAME - 9].decode(errors='ignore')}-{digest_of_bytes(raw)[:8]}"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """In a `with` statement: the path to write to, whose file then takes its place at `path`.

    When the statement ends, a power cut cannot lose the file; where it fails, nothing is left.
    Raises InfraError where it cannot be written.
    """
    unfinished = path.with_name(f".{os.getpid()}-{uuid.uuid4().hex[:8]}{UNFINISHED}")
    try:
        yield unfinished
        _make_durable(unfinished)
        unfinished.replace(path)
        _make_durable(path.parent)
    except OSError as problem:
        raise InfraError(
            f"{path} cannot be written: {problem.strerror or problem}. No part of it is left: make "
            "room (or name another folder), and run the same command again"
        ) from problem
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """The text as UTF-8 at `path`; raises as `whole_file`.

    Half a character, which no encoding has, becomes what JSON writes for it.
    """
    with whole_file(path) as unfinished:
        unfinished.write_bytes(text.encode("utf-8", errors="backslashreplace"))


def remove_forgotten(folder: Path) -> None:
    """Removes what processes that were killed had begun to write."""
    with suppress(OSError):
        for file in folder.glob(f".*{UNFINISHED}"):
            if time.time() - file.stat().st_mtime > FORGOTTEN:
                file.unlink(missing_ok=True)


def _make_durable(path: Path) -> None:
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
