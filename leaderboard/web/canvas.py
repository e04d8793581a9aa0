"""The sheet that pictures of pages are drawn on, for places that show a link as one.

Drawn with the site's own typeface, in the colours and the geometry of the page's light look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from math import ceil, hypot
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
RULE, AXIS, BAR, BIN = "#e6e6e0", "#c9cac3", "#c2c3c2", "#dcdeda"
BRASS, FAIL = "#a97708", "#ac2a22"
MONOGRAMS = (
    *(("#dfe9f5", "#1a4777"), ("#f6e3d9", "#84390f"), ("#e0efe6", "#19573a")),
    *(("#ece4f5", "#573a86"), ("#f7e1ea", "#8a2655"), ("#dff0f1", "#0c5a60")),
    *(("#f3ecd2", "#6c5200"), ("#e6e8eb", "#3c4650")),
)
"""Ground and ink of the makers' monograms, as the stylesheet's mk1 to mk8."""
LEFT, RIGHT = 64, WIDTH - 64
HEAD, FOOT = 77, 578
"""Base lines of the words above and below every picture."""
STYLE_INKS = {"cloze": "#1d5fa6", "mmlu": "#a04a12", "hybrid": "#6a4a9c"}
RECOUNTABLE = "Every number can be counted again"
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
    def framed(cls, note: str, day: str, *, notice: str = "", foot: str = RECOUNTABLE) -> Self:
        """With the plumb line, the site's name, a note to its right, and a line below with a day.

        A notice (that everything is made up) stands in the place of the line below, in red.
        """
        sheet = cls()
        sheet.pen.rectangle([LEFT + 11, 0, LEFT + 12, 46], BRASS)
        sheet.shape([(-8, 44), (8, 44), (8, 55), (0, 72), (-8, 55)], BRASS, x=LEFT + 12)
        end = sheet.text(LEFT + 36, HEAD, "Plumbline", 24, weight=660)
        note = cut(spelled(note), 20, 450, RIGHT - end - 40)
        sheet.text(RIGHT, HEAD, note, 20, weight=450, ink=INK_3, right=True)
        start = sheet.text(RIGHT, FOOT, day, 20, ink=INK_2, right=True) if day else RIGHT
        words, ink, weight = (notice, FAIL, 600) if notice else (foot, INK_2, 400)
        words, room = spelled(words), start - LEFT - 40
        size = _largest(words, (20, 18, 16), weight, room)
        sheet.text(LEFT, FOOT, cut(words, size, weight, room), size, weight=weight, ink=ink)
        return sheet

    def shape(
        self, outline: Sequence[tuple[float, float]], ink: str, *, x: float = 0, y: float = 0
    ) -> None:
        """Fills an outline, given relative to (x, y), with smooth edges."""
        points = [(x + dx, y + dy) for dx, dy in outline]
        self._smoothly(points, ink, lambda pen, moved: pen.polygon(moved, 255))

    def disc(self, x: float, y: float, radius: float, ink: str) -> None:
        box = [(x - radius, y - radius), (x + radius, y + radius)]
        self._smoothly(box, ink, lambda pen, moved: pen.ellipse(moved, 255))

    def tile(self, x: float, y: float, wide: float, high: float, ink: str, radius: float) -> None:
        """A filled rectangle with round corners; (x, y) is its upper left one."""
        box = [(x, y), (x + wide, y + high)]
        self._smoothly(box, ink, lambda pen, moved: pen.rounded_rectangle(
            moved, radius * _FINER, 255))  # fmt: skip

    def wash(self, x: float, y: float, wide: float, high: float) -> None:
        """A thin coat of brass over what is drawn already."""
        size = max(round(wide), 1), max(round(high), 1)
        self._image.paste(BRASS, (round(x), round(y)), Image.new("L", size, 61))

    def line(
        self, ends: Sequence[tuple[float, float]], ink: str, width: float, dash: float = 0
    ) -> None:
        """A straight line in any direction, of dashes so many pixels long unless that is 0."""

        def draw(pen: ImageDraw.ImageDraw, moved: list[tuple[float, float]]) -> None:
            (x, y), (end_x, end_y) = moved
            pieces = max(hypot(end_x - x, end_y - y) / (dash * _FINER), 1) if dash else 1
            for start in range(0, ceil(pieces), 2):
                shares = start / pieces, min((start + 1) / pieces, 1)
                dashed = [(x + (end_x - x) * at, y + (end_y - y) * at) for at in shares]
                pen.line(dashed, 255, round(width * _FINER))

        self._smoothly(ends, ink, draw, around=width)

    def _smoothly(
        self,
        points: Sequence[tuple[float, float]],
        ink: str,
        draw: Callable[[ImageDraw.ImageDraw, list[tuple[float, float]]], None],
        around: float = 1,
    ) -> None:
        """Draws on a finer sheet of the points' own size, and lays that down in this ink."""
        xs, ys = zip(*points, strict=True)
        left, top = int(min(xs) - around) - 1, int(min(ys) - around) - 1
        size = int(max(xs) + around) + 2 - left, int(max(ys) + around) + 2 - top
        mask = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
        moved = [((x - left) * _FINER, (y - top) * _FINER) for x, y in points]
        draw(ImageDraw.Draw(mask), moved)
        self._image.paste(ink, (left, top), mask.reduce(_FINER))

    def monogram(self, x: float, y: float, size: int, letters: str, colour: int) -> None:
        """A maker's letters on its colour, 1 to 8."""
        ground, ink = MONOGRAMS[colour - 1]
        self.tile(x, y, size, size, ground, 0.21 * size)
        tall = round(0.39 * size)
        wide = length(letters, tall, 680)
        self.text(x + (size - wide) / 2, y + size / 2 + 0.36 * tall, letters, tall, weight=680,
                  ink=ink)  # fmt: skip

    def paragraph(
        self,
        x: float,
        middle: float,
        pieces: Sequence[tuple[str, str]],
        sizes: Sequence[int],
        *,
        room: float,
        high: float,
    ) -> None:
        """Text in several inks, broken between words and centred at `middle`, in the first of the
        sizes at which no word is cut and the lines are no higher than `high`."""
        words = [word for text, _ in pieces for word in spelled(text).split(" ")]
        for size in sizes:
            lines = _broken(pieces, size, room)
            fits = all(length(word, size, 620) <= room for word in words)
            if fits and 1.13 * size * len(lines) <= high:
                break
        y = middle - 1.13 * size * (len(lines) / 2 - 0.78)
        for line in lines:
            left = x
            for word, ink in line:
                left = self.text(left, y, word, size, weight=620, ink=ink) + _space(size)
            y += 1.13 * size

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

    def number(self, x: float, y: float, text: str, size: int = 22, weight: int = 600) -> None:
        """Writes a number that ends at `x`, every digit as wide as a 0."""
        width = length("0", size, weight)
        for sign in reversed(text):
            own = length(sign, size, weight)
            taken = width if sign.isdigit() else own
            self.text(x - taken + (taken - own) / 2, y, sign, size, weight=weight)
            x -= taken

    def rule(self, y: float) -> None:
        self.pen.line([(LEFT, y), (RIGHT, y)], RULE, 1)

    def png(self) -> bytes:
        file = BytesIO()
        self._image.save(file, "PNG", optimize=True)
        return file.getvalue()


_FINER = 4
"""How much finer shapes are drawn than they are shown."""


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


def shorten(text: str, most: int) -> str:
    """At most so many characters, the last of them an ellipsis where there were more."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _space(size: int) -> float:
    return length(" ", size, 620)


def _broken(
    pieces: Sequence[tuple[str, str]], size: int, room: float
) -> list[list[tuple[str, str]]]:
    """Lines of words with their inks; a word that is longer than a line is cut."""
    lines: list[list[tuple[str, str]]] = [[]]
    taken = 0.0
    for text, ink in pieces:
        for whole in spelled(text).split(" "):
            word = cut(whole, size, 620, room)
            long = length(word, size, 620)
            if lines[-1] and taken + long > room:
                lines.append([])
                taken = 0.0
            lines[-1].append((word, ink))
            taken += long + _space(size)
    return lines


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


def answer(
    request: HttpRequest,
    made_of: object,
    draw: Callable[[], bytes],
    content_type: str = "image/png",
) -> HttpResponseBase:
    """The picture that `draw` makes, kept by the digest of what it is made of; 304 if known.

    Raises TooOften where it has to be drawn, for a query, and its reader asked for too many.
    """
    digest = digest_of([kept.release(), content_type, repr(made_of)])
    etag = f'"{digest}"'
    response = get_conditional_response(request, etag)
    if response is None:
        pictures, key = caches["local"], f"picture-{digest}"
        file = pictures.get(key)
        if file is None:
            if request.GET:
                throttle.count_page(request)
            file = draw()
            pictures.set(key, file, KEPT)
        response = HttpResponse(file, content_type=content_type)
    response["ETag"] = etag
    response["Cache-Control"] = "public, max-age=3600"
    return response
