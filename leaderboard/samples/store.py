"""The artifact store: files addressed by the SHA-256 of their bytes, written once.

`STORAGES["artifacts"]` says where they lie: in a folder that all machines share, or in a bucket
(`bucket.py`). A file may be out of reach for the moment, or be none that an engine wrote.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast
from uuid import uuid4

import pyarrow as pa
from django.core.files.storage import FileSystemStorage, storages

from evalcore.digest import digest_of_file

logger = logging.getLogger(__name__)


class Unavailable(OSError):
    """The bucket does not answer, or refuses: what is in it is as it was."""


class Damaged(Unavailable):
    """The file is there, and is not what an engine writes: nobody can read it."""


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Raises Damaged where the file at `path`, which is read meanwhile, has another form."""
    try:
        yield
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as problem:
        logger.error(
            "the samples in %s cannot be read: %s: %s", path.name, type(problem).__name__, problem
        )
        raise Damaged(f"{path.name} is not what an engine writes") from problem


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


def store_open(
    source: BinaryIO,
    *,
    kind: str,
    rows: int | None = None,
    check: Callable[[Path], None] | None = None,
) -> StoredFile:
    """Put the rest of `source` into the store: whole and on disk under its digest, or not there.

    What is stored is what was read, whatever becomes of the file or of its name. `check` sees that
    copy first; what it raises keeps the file out.
    """
    here = storage().here
    here.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=here, prefix="incoming-", delete=False) as copy:
        try:
            shutil.copyfileobj(source, copy)
            copy.flush()
            if check is not None:
                check(Path(copy.name))
            os.fsync(copy.fileno())
            # The digest is of what lies here, not of what the file was when somebody else read it.
            sha256, size = digest_of_file(Path(copy.name)), copy.tell()
            storage().put(Path(copy.name), name_of(sha256))
        except BaseException:
            Path(copy.name).unlink(missing_ok=True)
            raise
    return StoredFile(kind=kind, sha256=sha256, bytes=size, rows=rows)


def storage() -> Folder:
    """What the settings choose; a Bucket has all the methods of a Folder."""
    return cast("Folder", storages["artifacts"])


def name_of(sha256: str) -> str:
    """What the file with this digest is called in the store. Raises ValueError for no digest."""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(f"artifact: expected 64 hexadecimal digits, got {sha256!r}")
    return f"{sha256[:2]}/{sha256}"


def path_of(sha256: str) -> Path:
    """Where the file can be read on this machine, brought here first from a bucket.

    No file is there where the store has none. Raises Unavailable where a bucket does not answer.
    """
    return storage().local(name_of(sha256))


def open(sha256: str) -> BinaryIO:
    """The stored file, for reading. Raises FileNotFoundError where the store has none."""
    return path_of(sha256).open("rb")


def part(sha256: str, start: int, end: int) -> Iterator[bytes] | None:
    """The bytes from `start` to before `end` from a bucket; None where the file is here to read."""
    return storage().part(name_of(sha256), start, end)


def holds(sha256: str) -> bool:
    """Whether the store has the file; nothing of it is read."""
    return bool(storage().exists(name_of(sha256)))


def size(sha256: str) -> int:
    """Raises FileNotFoundError where the store has no such file."""
    return int(storage().size(name_of(sha256)))


def digest(sha256: str) -> str:
    """Of what lies under this name in the store, all of which is read."""
    found = hashlib.sha256()
    with storage().open(name_of(sha256)) as file:
        for piece in file.chunks():
            found.update(piece)
    return found.hexdigest()


def remove(sha256: str) -> None:
    """Of a file that is not there nothing is said."""
    storage().delete(name_of(sha256))


def folder_beside(name: str) -> Path:
    """A folder of this machine beside the stored files, for what can be made of them again."""
    return storage().here / name


class Folder(FileSystemStorage):
    """A folder; a file is there whole, and on its disk, or not at all."""

    copies = False
    """Whether a file that is set aside is as old as it is set aside."""

    @property
    def here(self) -> Path:
        """Where this machine keeps files of its own beside what is stored."""
        return Path(self.location)

    def put(self, file: Path, name: str) -> None:
        """Store this file of `here`, which goes."""
        target = Path(self.path(name))
        target.parent.mkdir(exist_ok=True)
        file.chmod(0o644)
        file.rename(target)
        _sync(target.parent)

    def local(self, name: str) -> Path:
        """The file on this machine; none is there where none is stored."""
        return Path(self.path(name))

    def part(self, name: str, start: int, end: int) -> Iterator[bytes] | None:  # noqa: ARG002
        """None: whoever wants a part of a file reads it on this machine."""
        return None

    def set_aside(self, name: str) -> str:
        """Give a file another name, by which nobody will find it. Raises FileNotFoundError."""
        aside = f"collected-{uuid4().hex}"
        Path(self.path(name)).rename(self.path(aside))
        return aside

    def put_back(self, aside: str, name: str) -> None:
        Path(self.path(aside)).rename(self.path(name))

    def shown(self, name: str) -> str:
        """For whoever looks for it."""
        return str(self.path(name))

    def check(self) -> None:
        """Raises OSError where nothing can be stored."""
        self.here.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.here) as file:
            file.write(b"x")
            file.flush()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
