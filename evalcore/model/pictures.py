"""Images as requests carry them: known by their pixels, and decoded anew whenever somebody looks.

Why the digest is of the pixels and not of the file: the pixels are what a model sees. A function of
a task may make an image that has no file, and the same image written anew, by a conversion of the
data set to parquet for one, must have the same key.
"""

from __future__ import annotations

import hashlib
import sys
from io import BytesIO
from typing import Any

from evalcore.digest import digest_of

PLACE = "<image>"
"""Stands in a prompt where an image is, in lm-evaluation-harness, too."""

THUMBNAIL = 192
"""Pixels of the longer side of what samples keep of an image."""
_QUALITY = 70


class Picture:
    """An image: its digest, its size, and the image itself when it is wanted."""

    __slots__ = ("_encoded", "_image", "digest", "height", "thumbnail", "width")

    def __init__(self, image: Any) -> None:
        """`image`: one of Pillow's; of one that was opened and not decoded the file is kept."""
        self._encoded = _file_of(image)
        self._image = None if self._encoded is not None else image
        self.width, self.height = map(int, image.size)
        decoded = self.image
        self.digest = _digest(decoded)
        """SHA-256 of its mode, its size and its pixels."""
        self.thumbnail = _thumbnail(decoded)
        """A JPEG of at most `THUMBNAIL` pixels a side, on white where the image lets it through."""

    @property
    def image(self) -> Any:
        """The image of Pillow, decoded. What was given decoded must not be changed."""
        if self._encoded is None:
            return self._image
        from PIL import Image

        image = Image.open(BytesIO(self._encoded))
        image.load()
        return image

    @property
    def said(self) -> str:
        """Digest and size in one word, for the journal."""
        return f"sha256:{self.digest} {self.width}x{self.height}"

    def as_json(self) -> dict[str, Any]:
        return {"image": self.digest, "width": self.width, "height": self.height}


def is_image(value: object) -> bool:
    """Whether it is an image of Pillow, which is not imported for it."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def image_json(image: Any) -> dict[str, Any]:
    """What stands for an image of Pillow in JSON: its digest and its size."""
    encoded = _file_of(image)
    if encoded is not None:  # so that the one that was given stays undecoded
        from PIL import Image

        image = Image.open(BytesIO(encoded))
    width, height = image.size
    return {"image": _digest(image), "width": width, "height": height}


def _file_of(image: Any) -> bytes | None:
    """The file of an image that was opened from memory and is not decoded yet."""
    file = getattr(image, "fp", None)
    # One of several frames keeps its file open once it is decoded, and may have been changed.
    if not isinstance(file, BytesIO) or getattr(image, "is_animated", False):
        return None
    return file.getvalue()


def _digest(image: Any) -> str:
    """Pixels of a palette are numbers of colours, so the colours count, too."""
    image.load()
    palette = image.palette and [image.palette.mode, image.palette.tobytes().hex()]
    through = image.info.get("transparency")
    said = {
        "mode": image.mode,
        "size": list(image.size),
        "palette": palette or None,
        "transparency": None if through is None else str(through),
    }
    digest = hashlib.sha256(digest_of(said).encode())
    digest.update(image.tobytes())
    return digest.hexdigest()


def _thumbnail(image: Any) -> bytes:
    from PIL import Image

    small = image.convert("RGBA") if _lets_through(image) else image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    if small.mode == "RGBA":
        white = Image.new("RGBA", small.size, "white")
        small = Image.alpha_composite(white, small).convert("RGB")
    file = BytesIO()
    small.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def _lets_through(image: Any) -> bool:
    return "A" in image.getbands() or "transparency" in image.info
