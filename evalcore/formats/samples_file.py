"""A record's samples: the parquet file beside it that has the digest which the record names.

Who downloads both gets them under names of the site's or the browser's making, such as
`…_samples (1).parquet`; the digest stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evalcore.digest import digest_of_file
from evalcore.record import SampleFile

MOST_HASHED = 200
"""Files of a folder that are read whole for one record, at most; the newest come first."""

_ENDING = ".parquet"
_MAGIC = b"PAR1"
_OF_SAMPLES = "doc_digest"
"""A column that samples have, and other tables hardly."""


class SamplesFinder:
    """Finds the samples of records; reads each file once, however many records ask."""

    def __init__(self) -> None:
        self._digests: dict[Path, str] = {}
        self._rows: dict[Path, int | None] = {}

    def find(self, folder: Path, stated: SampleFile) -> Path | None:
        """The file in `folder` with the stated digest.

        Without one that of the stated name, which is then not what it was; else None.
        """
        named = folder / Path(stated.file).name if stated.file else None
        if named and not named.is_file():
            named = None
        if named and self._digest(named) == stated.sha256:
            return named
        others = [path for path in self._alike(folder, stated) if path != named]
        found = (path for path in others[:MOST_HASHED] if self._digest(path) == stated.sha256)
        return next(found, named)

    def why_none(self, folder: Path, stated: SampleFile) -> str:
        """What to say, and to do, where there is none."""
        alike = [path.name for path in self._alike(folder, stated)]
        others = ""
        if alike:
            shown = ", ".join(alike[:3]) + (", …" if len(alike) > 3 else "")
            looked = f" ({MOST_HASHED} of them were read)" if len(alike) > MOST_HASHED else ""
            others = f"; with as many rows there is {shown}{looked}, which is another file"
        return (
            f"the samples are not beside the record: no file in {folder} has their SHA-256 "
            f"{stated.sha256}{others}. Put {stated.file or 'them'} into that folder, under any name"
        )

    def _alike(self, folder: Path, stated: SampleFile) -> list[Path]:
        """Tables of samples with as many rows, the newest first."""
        return sorted(
            (path for path in _tables(folder) if self._rows_of(path) == stated.rows),
            key=lambda path: path.stat().st_mtime,
            reverse=True,
        )

    def _rows_of(self, path: Path) -> int | None:
        """Rows of a table of samples; None for what is none. Only its end is read."""
        if path not in self._rows:
            try:
                found = pq.read_metadata(path)
                is_of_samples = _OF_SAMPLES in found.schema.names
                self._rows[path] = found.num_rows if is_of_samples else None
            except (OSError, pa.ArrowInvalid):
                self._rows[path] = None
        return self._rows[path]

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = digest_of_file(path)
        return self._digests[path]


def _tables(folder: Path) -> Iterator[Path]:
    """The parquet files in a folder, whatever they are called."""
    for path in folder.iterdir():
        if path.is_file() and (path.suffix.lower() == _ENDING or _begins_as_parquet(path)):
            yield path


def _begins_as_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
