"""What a command that was killed had written, once a later one has written the same again.

A command writes the record of each task when it is done, and its results file last. One that was
killed, or stopped, leaves records that no results file names. They are good and stay; but where the
same was evaluated again in the same folder, everything in it would count twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from evalcore.record import RunRecord
from evalcore.whole_file import remove_forgotten

MARK = ".at_work_"
"""Begins the name of the file that a command holds locked while it works; its time follows."""


class AtWork:
    """Where a command writes, with its mark there, which outlives a command that is killed.

    A folder, the stem of the results file, and the time that all files bear.
    """

    def __init__(self, folder: Path, stem: str, stamp: str) -> None:
        self.folder, self.stem, self.stamp = folder, stem, stamp
        self._mark = folder / f"{MARK}{stamp}"
        self._held = _locked(self._mark, os.O_CREAT)
        remove_forgotten(folder)

    def done(self, records: Iterable[RunRecord]) -> None:
        """All is written: what commands that were killed had of the same is removed."""
        self._mark.unlink(missing_ok=True)
        ours = {_identity(record) for record in records}
        for mark in self.folder.glob(f"{MARK}*"):
            held = _locked(mark)
            if held is None:
                continue  # its command still works
            written = self.folder.glob(f"record_*_{mark.name.removeprefix(MARK)}.json")
            left = [file for file in sorted(written) if not _removed(file, ours)]
            if not left:
                mark.unlink(missing_ok=True)
            os.close(held)

    def close(self) -> None:
        if self._held is not None:
            os.close(self._held)


def _locked(mark: Path, flags: int = 0) -> int | None:
    """The open file, locked; None where another process has it, or the disk knows no locks."""
    with suppress(OSError):
        held = os.open(mark, os.O_RDWR | flags, 0o644)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(held)
            return None
        return held
    return None


def _identity(record: RunRecord) -> tuple[str, ...]:
    """What two records share that say the same of the same."""
    model = str(record.model.get("model_key"))
    return record.task, record.run_key, record.docs_digest, model


def _removed(file: Path, ours: set[tuple[str, ...]]) -> bool:
    try:
        record = RunRecord.read(file)
    except (OSError, ValueError):
        return False
    if _identity(record) not in ours:
        return False
    file.unlink(missing_ok=True)
    if record.samples.file and Path(record.samples.file).name == record.samples.file:
        (file.parent / record.samples.file).unlink(missing_ok=True)
    return True
