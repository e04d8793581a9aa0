"""Rows of a data set whose images and sounds are opened and not decoded: those of a benchmark,
decoded all at once, would fill the memory many times over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.errors import TaskError
from evalcore.model.sounds import Recording

if TYPE_CHECKING:
    from datasets import Audio, Dataset

Doc = dict[str, Any]

_ORIENTATION = 0x0112
"""The EXIF tag by which `datasets` turns an image once it has decoded it."""


class Undecoded(Sequence[Doc]):
    """The rows as they are, but for images and sounds, which are decoded when somebody looks."""

    def __init__(self, rows: Dataset, images: Sequence[str], sounds: Mapping[str, Audio]) -> None:
        """`images`, `sounds`: the columns with one in each row, those of sounds as they are."""
        from datasets import Audio, Image

        self.features = rows.features
        self._images = images
        self._sounds = sounds
        self._raw = rows
        for column in images:
            self._raw = self._raw.cast_column(column, Image(decode=False))
        for column in sounds:
            rows = rows.cast_column(column, Audio(decode=False))  # which wants another library
            self._raw = self._raw.cast_column(column, Audio(decode=False))
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[row] for row in range(*place.indices(len(self)))]
        doc: Doc = self._raw[place]
        for column in self._images:
            if doc[column] is not None:
                opened = _opened(doc[column])
                # What is turned, or lies in an archive, is left to `datasets`.
                doc[column] = self._rows[place][column] if opened is None else opened
        for column, stated in self._sounds.items():
            if doc[column] is not None:
                doc[column] = _recording(column, doc[column], stated.sampling_rate)
        return doc

    def __iter__(self) -> Iterator[Doc]:
        return (self[place] for place in range(len(self)))


def undecoded(rows: Sequence[Doc]) -> Sequence[Doc]:
    """The same rows where no column is an image or a sound.

    Raises TaskError where Pillow, or soundfile, is missing.
    """
    features = getattr(rows, "features", None)
    if features is None:
        return rows
    from datasets import Audio, Dataset, Image

    images = [
        name
        for name, feature in features.items()
        # One that states a mode is converted to it after it was decoded.
        if isinstance(feature, Image) and feature.decode and feature.mode is None
    ]
    sounds = {
        name: feature
        for name, feature in features.items()
        if isinstance(feature, Audio) and feature.decode
    }
    if not (images or sounds) or not isinstance(rows, Dataset):
        return rows
    for columns, noun, module, library in (
        (images, "images", "PIL", "Pillow"),
        (sounds, "sound", "soundfile", "soundfile"),
    ):
        if columns and find_spec(module) is None:
            raise TaskError(
                f"{', '.join(columns)}: {noun}, which {'needs' if noun == 'sound' else 'need'} "
                f"{library}, and it is not installed: pip install 'plumbline[{noun}]'"
            )
    return Undecoded(rows, images, sounds)


def _opened(stored: dict[str, Any]) -> Any:
    from PIL import Image

    encoded, path = stored["bytes"], stored["path"]
    if encoded is None and path is not None and Path(path).is_file():
        encoded = Path(path).read_bytes()
    if encoded is None or _ORIENTATION in Image.open(BytesIO(encoded)).getexif():
        return None
    return Image.open(BytesIO(encoded))


def _recording(column: str, stored: dict[str, Any], rate: int | None) -> Recording:
    file, path = stored["bytes"], stored["path"]
    if file is None and path is not None and Path(path).is_file():
        file = Path(path).read_bytes()
    if file is None:
        raise TaskError(
            f"{column}: the sound {path} is no file on this machine: unpack the archive that has "
            "it, or publish the data set with sounds in its parquet files"
        )
    return Recording(file, path, rate)
