"""The artifact store: files addressed by the SHA-256 of their bytes, written once."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.core.files.storage import storages

from evalcore.digest import digest_of_file


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file that lies in the store; becomes an Artifact row."""

    kind: str
    sha256: str
    bytes: int
    rows: int | None


def store(file: Path, *, kind: str, rows: int | None = None) -> StoredFile:
    """Put a copy of `file` into the store; see `store_open`."""
    with file.open("rb") as source:
        return store_open(source, kind=kind, rows=rows)


def store_open(source: BinaryIO, *, kind: str, rows: int | None = None) -> StoredFile:
    """Put the rest of `source` into the store: whole and on disk under its digest, or not there.

    What is stored is what was read, whatever becomes of the file or of its name.
    """
    folder = Path(storages["artifacts"].path(""))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="incoming-", delete=False) as copy:
        try:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
            # The digest is of what lies here, not of what the file was when somebody else read it.
            sha256 = digest_of_file(Path(copy.name))
            target = path_of(sha256)
            target.parent.mkdir(exist_ok=True)
            Path(copy.name).chmod(0o644)
            Path(copy.name).rename(target)
        except BaseException:
            Path(copy.name).unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)
    return StoredFile(kind=kind, sha256=sha256, bytes=target.stat().st_size, rows=rows)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def path_of(sha256: str) -> Path:
    """Where the file with this digest lies. Raises ValueError for what is no digest."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(f"artifact: expected 64 hexadecimal digits, got {sha256!r}")
    return Path(storages["artifacts"].path(f"{sha256[:2]}/{sha256}"))


def open(sha256: str) -> BinaryIO:
    """The stored file, for reading. Raises FileNotFoundError where the store has none."""
    return path_of(sha256).open("rb")
