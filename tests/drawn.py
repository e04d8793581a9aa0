"""Images that tests draw themselves: of different sizes, colours, modes and formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

FORMATS = ("PNG", "JPEG")


def drawn(number: int, *, mode: str = "RGB", size: tuple[int, int] | None = None) -> Image.Image:
    """A rectangle, a line and a number of points: no two numbers look alike."""
    size = size or (40 + 7 * (number % 5), 24 + 5 * (number % 3))
    image = Image.new("RGB", size, (30 * number % 256, 90, 255 - 20 * number % 256))
    draw = ImageDraw.Draw(image)
    draw.rectangle((4, 4, 12 + number % 9, 14), fill=(250, 240, 20 * number % 256))
    draw.line((0, size[1], size[0], 0), fill=(0, 0, 0), width=1 + number % 3)
    for place in range(number % 7):
        draw.point((size[0] - 2 - 2 * place, 2), fill=(255, 255, 255))
    return image.convert(mode)


def encoded(image: Image.Image, format: str = "PNG") -> bytes:
    file = BytesIO()
    image.save(file, format)
    return file.getvalue()


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], *columns: str) -> Path:
    """A parquet file with these rows, as the Hub has data sets of images; `columns`: the images."""
    import datasets

    # Files, not images: `datasets` would write them anew, and the test would not say in what form.
    stored = [
        {
            name: {"bytes": value, "path": None} if name in columns and value else value
            for name, value in row.items()
        }
        for row in rows
    ]
    data = datasets.Dataset.from_list(stored)
    for column in columns:
        data = data.cast_column(column, datasets.Image())
    data.to_parquet(str(path))
    return path
