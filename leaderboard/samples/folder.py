"""Stored files in a folder that all machines share, as a Django storage."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from django.core.files.storage import FileSystemStorage


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
