"""Rows of a data set whose images are opened and not decoded: a benchmark's images, decoded all at
once, would fill the memory many times over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.errors import TaskError

if TYPE_CHECKING:
    from datasets import Dataset

Doc = dict[str, Any]

_ORIENTATION = 0x0112
"""The EXIF tag by which `datasets` turns an image once it has decoded it."""


class Undecoded(Sequence[Doc]):
    """The rows as they are, but for images, which Pillow decodes when somebody looks at them."""

    def __init__(self, rows: Dataset, columns: Sequence[str]) -> None:
        """`columns`: those with one image in each row."""
        from datasets import Image

        self.features = rows.features
        self._rows = rows
        self._columns = columns
        self._raw = rows
        for column in columns:
            self._raw = self._raw.cast_column(column, Image(decode=False))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        doc: Doc = self._raw[place]
        for column in self._columns:
            if doc[column] is not None:
                opened = _opened(doc[column])
                # What is turned, or lies in an archive, is left to `datasets`.
                doc[column] = self._rows[place][column] if opened is None else opened
        return doc

    def __iter__(self) -> Iterator[Doc]:
        return (self[place] for place in range(len(self)))


def undecoded(rows: Sequence[Doc]) -> Sequence[Doc]:
    """The same rows where no column is an image. Raises TaskError where Pillow is missing."""
    features = getattr(rows, "features", None)
    if features is None:
        return rows
    from datasets import Dataset, Image

    columns = [
        name
        for name, feature in features.items()
        # One that states a mode is converted to it after it was decoded.
        if isinstance(feature, Image) and feature.decode and feature.mode is None
    ]
    if not columns or not isinstance(rows, Dataset):
        return rows
    if find_spec("PIL") is None:
        raise TaskError(
            f"{', '.join(columns)}: images, which need Pillow, and it is not installed: "
            "pip install 'plumbline[images]'"
        )
    return Undecoded(rows, columns)


def _opened(stored: dict[str, Any]) -> Any:
    from PIL import Image

    encoded, path = stored["bytes"], stored["path"]
    if encoded is None and path is not None and Path(path).is_file():
        encoded = Path(path).read_bytes()
    if encoded is None or _ORIENTATION in Image.open(BytesIO(encoded)).getexif():
        return None
    return Image.open(BytesIO(encoded))
