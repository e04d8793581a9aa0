"""Stored files in a bucket of S3: the other Django storage that `STORAGES["artifacts"]` may name.

What reads parquet at random places wants a file on this machine, so one is fetched once and kept
for a while. Imported only where it is chosen: Amazon's client takes most of a second.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import File
from s3transfer.exceptions import RetriesExceededError
from storages.backends.s3 import S3Storage

from evalcore.digest import digest_of_file
from leaderboard.samples.store import Unavailable

logger = logging.getLogger(__name__)

PIECE = 256 * 1024
"""Bytes of a download that are read at once."""
LONGEST_FETCH = 86_400.0
"""Seconds after which a copy that is not whole is nobody's any more."""


class Bucket(S3Storage):  # type: ignore[misc]
    """A bucket of S3, or of what speaks like it, with a bounded copy of what was read of late."""

    copies = True

    def __init__(
        self, *, here: Path, most_bytes: int, addressing_style: str, **settings: Any
    ) -> None:
        # A bucket that does not answer must not hold a thread of the site for minutes.
        patience = Config(
            s3={"addressing_style": addressing_style},
            signature_version="s3v4",
            connect_timeout=5,
            read_timeout=30,
            retries={"mode": "standard", "total_max_attempts": 3},
        )
        super().__init__(client_config=patience, file_overwrite=True, **settings)
        self.here, self._most = Path(here), most_bytes

    def put(self, file: Path, name: str) -> None:
        with file.open("rb") as content:
            self.save(name, File(content))
        self._keep(file, name)

    def local(self, name: str) -> Path:
        target = self.here / name
        try:
            os.utime(target)  # what was asked for last goes last
        except FileNotFoundError:
            self._fetch(name)
        return target

    def part(self, name: str, start: int, end: int) -> Iterator[bytes] | None:
        """These bytes as they come from the bucket; None where the file is on this machine."""
        if (self.here / name).is_file():
            return None
        return self._pieces(name, start, end)

    def set_aside(self, name: str) -> str:
        aside = f"collected-{uuid4().hex}"
        self._rename(name, aside)
        (self.here / name).unlink(missing_ok=True)
        return aside

    def put_back(self, aside: str, name: str) -> None:
        self._rename(aside, name)

    def shown(self, name: str) -> str:
        return f"s3://{self.bucket_name}/{self._key(name)}"

    def check(self) -> None:
        self.here.mkdir(parents=True, exist_ok=True)
        self.exists("ready")

    # What django-storages does, with failures that the callers of any storage know.

    def _open(self, name: str, mode: str = "rb") -> Any:
        with _told():
            return super()._open(name, mode)

    def _save(self, name: str, content: File[bytes]) -> str:
        with _told():
            return str(super()._save(name, content))

    def exists(self, name: str) -> bool:
        with _told():
            return bool(super().exists(name))

    def delete(self, name: str) -> None:
        (self.here / name).unlink(missing_ok=True)
        with _told():
            super().delete(name)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        with _told():
            folders, files = super().listdir(path)
            return folders, files

    def size(self, name: str) -> int:
        with _told():
            return int(super().size(name))

    def get_modified_time(self, name: str) -> Any:
        with _told():
            return super().get_modified_time(name)

    def _fetch(self, name: str) -> None:
        self.here.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.here, prefix="incoming-", delete=False) as copy:
            incoming = Path(copy.name)
            try:
                with _told(), self.open(name) as content:
                    shutil.copyfileobj(content, copy)
                copy.flush()
            except FileNotFoundError:
                incoming.unlink()
                return
            except BaseException:
                incoming.unlink(missing_ok=True)
                raise
        if digest_of_file(incoming) != Path(name).name:
            incoming.unlink()
            logger.error("%s in the bucket is not what was stored: it counts as missing", name)
            return
        self._keep(incoming, name)

    def _keep(self, file: Path, name: str) -> None:
        target = self.here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
        self._make_room(but=target)

    def _make_room(self, but: Path) -> None:
        """Remove copies, those asked for longest ago first; who reads one goes on reading it."""
        for file in self.here.glob("incoming-*"):  # of processes that were killed
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > LONGEST_FETCH:
                    file.unlink()
        kept = []
        for file in self.here.glob("??/*"):
            try:
                facts = file.stat()
            except FileNotFoundError:
                continue
            kept.append((facts.st_mtime, facts.st_size, file))
        total = sum(size for _, size, _ in kept)
        for _, size, file in sorted(kept):
            if total <= self._most:
                return
            if file != but:
                file.unlink(missing_ok=True)
                total -= size

    def _pieces(self, name: str, start: int, end: int) -> Iterator[bytes]:
        with _told():
            asked = self.bucket.Object(self._key(name)).get(Range=f"bytes={start}-{end - 1}")
            yield from asked["Body"].iter_chunks(PIECE)

    def _rename(self, old: str, new: str) -> None:
        with _told():
            source = {"Bucket": self.bucket_name, "Key": self._key(old)}
            self.bucket.Object(self._key(new)).copy(source)
            self.bucket.Object(self._key(old)).delete()

    def _key(self, name: str) -> str:
        return str(self._normalize_name(name))


@contextmanager
def _told() -> Iterator[None]:
    """Failures of a bucket as those of a disk: missing is missing, all else is our trouble."""
    try:
        yield
    except ClientError as problem:
        status = problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status == 404:
            raise FileNotFoundError(str(problem)) from problem
        raise Unavailable(f"the bucket refused: {problem}") from problem
    except (BotoCoreError, RetriesExceededError) as problem:
        raise Unavailable(f"the bucket does not answer: {problem}") from problem
