"""The sheet that pictures of pages are drawn on, for places that show a link as one.

Drawn with the site's own typeface, in the colours and the geometry of the page's light look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Self
from unicodedata import category

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from PIL import Image, ImageDraw, ImageFont

from evalcore.digest import digest_of
from leaderboard.web import kept, throttle

SIZE = WIDTH, HEIGHT = 1200, 630
PAPER, INK, INK_2, INK_3 = "#fcfcfa", "#15181c", "#464c54", "#636a73"
RULE, BRASS, FAIL = "#e3e3dd", "#8a5f00", "#ac2a22"
LEFT, RIGHT = 64, WIDTH - 64
FONT = settings.BASE_DIR / "static" / "fonts" / "inter-latin-opsz-normal.woff2"
_SPELLED = str.maketrans({"≤": "<=", "≥": ">="})
"""What the typeface does not have."""

KEPT = 3600
"""Seconds; a picture is kept by the digest of all that it is made of, so it is never wrong."""


class Canvas:
    """A sheet of 1200 × 630 with the site's name on it."""

    def __init__(self) -> None:
        self._image = Image.new("RGB", SIZE, PAPER)
        self.pen = ImageDraw.Draw(self._image)

    @classmethod
    def headed(cls, title: str, told: str, *, after: str = "", notice: str = "") -> Self:
        """With a title, what stands behind it in grey, a line below, and a warning beside the name.

        A title that is too long for its line is written smaller, then on two lines, then cut.
        """
        title, told, after, notice = (spelled(words) for words in (title, told, after, notice))
        sheet = cls()
        sheet.pen.line([(LEFT + 8, 0), (LEFT + 8, 38)], BRASS, 2)
        sheet.bob(LEFT + 8, 38, 2.0)
        end = sheet.text(LEFT + 30, 62, "Plumbline", 28, weight=650)
        if notice:
            room = RIGHT - end - 40
            size = _largest(notice, (20, 18, 16), 600, room)
            sheet.text(RIGHT, 62, cut(notice, size, 600, room), size,
                       weight=600, ink=FAIL, right=True)  # fmt: skip
        room = 900 if after else RIGHT - LEFT
        size, (*above, last) = title_lines(title, room)
        for line in above:
            sheet.text(LEFT, 138 - size - 4, line, size, weight=600)
        end = sheet.text(LEFT, 138, last, size, weight=600)
        after = cut(after, 26, 500, RIGHT - end - 14)
        sheet.text(end + 14, 138, after, 26, weight=500, ink=INK_3)
        sheet.text(LEFT, 178, cut(told, 22, 400, RIGHT - LEFT), 22, ink=INK_2)
        return sheet

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int,
        *,
        weight: int = 400,
        ink: str = INK,
        right: bool = False,
    ) -> float:
        """Writes on the base line `y`; where the text ends (begins, if it ends at `x`)."""
        text = spelled(text)
        self.pen.text((x, y), text, ink, font(size, weight), anchor="rs" if right else "ls")
        long = length(text, size, weight)
        return x - long if right else x + long

    def number(self, x: float, y: float, text: str) -> None:
        """Writes a number that ends at `x`, every digit as wide as a 0."""
        width = length("0", 22, 600)
        for sign in reversed(text):
            own = length(sign, 22, 600)
            taken = width if sign.isdigit() else own
            self.text(x - taken + (taken - own) / 2, y, sign, 22, weight=600)
            x -= taken

    def rule(self, y: float) -> None:
        self.pen.line([(LEFT, y), (RIGHT, y)], RULE, 1)

    def interval(self, low: float, at: float, high: float, y: float) -> None:
        """A whisker from `low` to `high` with its estimate, all in pixels."""
        self.pen.rectangle([low, y - 1, high, y + 1], INK_3)
        self.pen.rectangle([at - 1.5, y - 9, at + 1.5, y + 9], INK)

    def plumb(self, x: float, top: int, bottom: int, label: str = "") -> None:
        """The plumb line, dashed, with its bob and what it stands for."""
        for y in range(top, bottom, 7):
            self.pen.line([(x, y), (x, min(y + 3, bottom))], BRASS, 2)
        self.bob(x, bottom, 1.4)
        self.text(x + 14, bottom + 16, label, 16, ink=INK_2)

    def bob(self, x: float, y: float, size: float) -> None:
        """The plumb line's end, hanging at (x, y)."""
        outline = [(-3.5, 0), (3.5, 0), (3.5, 4), (0, 13), (-3.5, 4)]
        self.pen.polygon([(x + size * dx, y + size * dy) for dx, dy in outline], BRASS)

    def png(self) -> bytes:
        file = BytesIO()
        self._image.save(file, "PNG", optimize=True)
        return file.getvalue()


@lru_cache
def font(size: int, weight: int) -> ImageFont.FreeTypeFont:
    # The basic layout is in every build of Pillow, so that the picture is the same everywhere.
    found = ImageFont.truetype(FONT, size, layout_engine=ImageFont.Layout.BASIC)
    optical_size = min(max(size, 14), 32)
    found.set_variation_by_axes([optical_size, weight])
    return found


def spelled(text: str) -> str:
    """On one line, without signs that only turn, join or hide others: they have no glyph."""
    seen = (sign for sign in text if category(sign) != "Cf")
    kept = "".join(" " if category(sign) == "Cc" else sign for sign in seen)
    return " ".join(kept.translate(_SPELLED).split())


def length(text: str, size: int, weight: int) -> float:
    """Pixels."""
    return font(size, weight).getlength(text)


def title_lines(title: str, room: float) -> tuple[int, list[str]]:
    """The largest size at which a title fits on one line, or else on two; cut if it never does."""
    for size in (48, 40, 34):
        if length(title, size, 600) <= room:
            return size, [title]
    for size in (34, 30, 26, 22):
        lines = in_lines(title, size, 600, room)
        if " ".join(lines) == title:
            return size, lines
    return 34, in_lines(title, 34, 600, room)


def _largest(text: str, sizes: Sequence[int], weight: int, room: float) -> int:
    """The first of the sizes at which the text fits; the last where it fits at none."""
    return next((size for size in sizes if length(text, size, weight) <= room), sizes[-1])


def in_lines(text: str, size: int, weight: int, room: float) -> list[str]:
    """On one line where it fits, else broken between words into two, of which the second is cut."""
    if length(text, size, weight) <= room:
        return [text]
    words = text.split()
    fitting = [n for n in range(1, len(words)) if length(" ".join(words[:n]), size, weight) <= room]
    if not fitting:
        return [cut(text, size, weight, room)]
    first, second = " ".join(words[: fitting[-1]]), " ".join(words[fitting[-1] :])
    return [first, cut(second, size, weight, room)]


def cut(text: str, size: int, weight: int, room: float) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    if length(text, size, weight) <= room:
        return text
    while text and length(text + "…", size, weight) > room:
        text = text[:-1]
    return text + "…" if text else ""


def answer(request: HttpRequest, made_of: object, draw: Callable[[], bytes]) -> HttpResponseBase:
    """The picture that `draw` makes, kept by the digest of what it is made of; 304 if known.

    Raises TooOften where it has to be drawn, for a query, and its reader asked for too many.
    """
    digest = digest_of([kept.release(), repr(made_of)])
    etag = f'"{digest}"'
    response = get_conditional_response(request, etag)
    if response is None:
        pictures, key = caches["local"], f"picture-{digest}"
        png = pictures.get(key)
        if png is None:
            if request.GET:
                throttle.count_page(request)
            png = draw()
            pictures.set(key, png, KEPT)
        response = HttpResponse(png, content_type="image/png")
    response["ETag"] = etag
    response["Cache-Control"] = "public, max-age=3600"
    return response
