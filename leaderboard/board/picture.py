"""A board as a picture, for places that show a link as one: its first rows with their intervals.

Drawn with the site's own typeface, in the colours and the geometry of the page's light look.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe
from PIL import Image, ImageDraw, ImageFont

from evalcore.digest import digest_of
from leaderboard.catalogue import find_suite
from leaderboard.snapshot import OWN, Board, Score, published
from leaderboard.templatetags.figures import day_of, margin, percent
from leaderboard.web import Scale, kept

SIZE = WIDTH, HEIGHT = 1200, 630
ROWS = 10
PAPER, INK, INK_2, INK_3 = "#fcfcfa", "#15181c", "#464c54", "#636a73"
RULE, BRASS = "#e3e3dd", "#8a5f00"
FONT = settings.BASE_DIR / "static" / "fonts" / "inter-latin-opsz-normal.woff2"

LEFT, RIGHT = 64, WIDTH - 64
FIRST_ROW, ROW_HEIGHT = 206, 38
RANK, RANGE, MODEL, AVERAGE, PLOT = LEFT + 34, LEFT + 44, LEFT + 150, 770, 860
"""Right edge of the rank, left edges of its range and the model, right edge of the average, left
edge of the plot."""


def draw_board(board: Board | None, title: str, version: str) -> bytes:
    """A PNG of the suite's first rows; of its name alone where no model has an average."""
    image = Image.new("RGB", SIZE, PAPER)
    picture = _Picture(ImageDraw.Draw(image))
    picture.head(title, version, _told(board))
    if board is not None and board.averaged:
        picture.rows(board)
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _told(board: Board | None) -> str:
    if board is None or not board.averaged:
        return "No model has been measured on all benchmarks yet."
    counted = sum(column.counts for column in board.columns)
    mean = f"mean of {counted} benchmarks" if counted > 1 else board.columns[0].title
    if board.by_chance:
        mean += ", taken from chance"
    models = f"{board.ranked:,} model{'' if board.ranked == 1 else 's'} ranked"
    return f"{mean[0].upper()}{mean[1:]}, with 95% intervals · {models} · {day_of(board.built)}"


@lru_cache
def _font(size: int, weight: int) -> ImageFont.FreeTypeFont:
    # The basic layout is in every build of Pillow, so that the picture is the same everywhere.
    font = ImageFont.truetype(FONT, size, layout_engine=ImageFont.Layout.BASIC)
    optical_size = min(max(size, 14), 32)
    font.set_variation_by_axes([optical_size, weight])
    return font


@dataclass(frozen=True)
class _Picture:
    pen: ImageDraw.ImageDraw

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
        font = _font(size, weight)
        self.pen.text((x, y), text, ink, font, anchor="rs" if right else "ls")
        return x - font.getlength(text) if right else x + font.getlength(text)

    def head(self, title: str, version: str, told: str) -> None:
        self.pen.line([(LEFT + 8, 0), (LEFT + 8, 38)], BRASS, 2)
        self.bob(LEFT + 8, 38, 2.0)
        self.text(LEFT + 30, 62, "Plumbline", 28, weight=650)
        end = self.text(LEFT, 138, _cut(title, 48, 600, 900), 48, weight=600)
        self.text(end + 14, 138, version, 26, weight=500, ink=INK_3)
        self.text(LEFT, 178, _cut(told, 22, 400, RIGHT - LEFT), 22, ink=INK_2)

    def rows(self, board: Board) -> None:
        shown = range(min(board.averaged, ROWS))
        averages = [score for row in shown if (score := board.average_of(row))]
        chance = _chance(board)
        bounds = [bound for score in averages for bound in (score.low, score.high)]
        low = min(bounds) if chance is None else min(chance, *bounds)
        scale = Scale.around(low, max(bounds), start=0, end=100)
        for edge, label, right in zip((PLOT, RIGHT), scale.ends, (False, True), strict=True):
            self.text(edge, FIRST_ROW - 8, label, 15, ink=INK_3, right=right)
        bottom = FIRST_ROW + ROW_HEIGHT * len(averages)
        for row, average in zip(shown, averages, strict=True):
            self.row(board, row, average, scale)
        if chance is not None:
            x = _x(chance, scale)
            for y in range(FIRST_ROW, bottom, 7):
                self.pen.line([(x, y), (x, min(y + 3, bottom))], BRASS, 2)
            self.bob(x, bottom, 1.4)
            self.text(x + 14, bottom + 16, "Chance", 16, ink=INK_2)

    def row(self, board: Board, row: int, average: Score, scale: Scale) -> None:
        top = FIRST_ROW + ROW_HEIGHT * row
        base, middle = top + 27, top + ROW_HEIGHT // 2
        self.pen.line([(LEFT, top), (RIGHT, top)], RULE, 1)
        rank = int(board.ranks.rank[row])
        self.number(RANK, base, str(rank) if rank else "–")
        if rank:
            low, high = int(board.ranks.low[row]), int(board.ranks.high[row])
            on = "+" if board.ranks.cut_high[row] else ""  # the typeface has no ≥
            self.text(RANGE, base, f"({low}–{high}{on})", 17, ink=INK_3)
        owner, slash, name = board.models[row].repo_id.rpartition("/")
        room = AVERAGE - 110
        end = self.text(MODEL, base, _cut(owner + slash, 21, 400, room - MODEL), 21, ink=INK_3)
        named = _cut(name, 21, 560, room - end)
        self.text(end, base, named, 21, weight=560, ink=INK if rank else INK_3)
        self.number(AVERAGE, base, percent(average.value))
        self.text(AVERAGE + 8, base, margin(average), 17, ink=INK_3)
        low_x, high_x, at = (_x(v, scale) for v in (average.low, average.high, average.value))
        self.pen.rectangle([low_x, middle - 1, high_x, middle + 1], INK_3)
        self.pen.rectangle([at - 1.5, middle - 9, at + 1.5, middle + 9], INK)

    def number(self, x: float, y: float, text: str) -> None:
        """Writes a number that ends at `x`, every digit as wide as a 0."""
        width = _font(22, 600).getlength("0")
        for sign in reversed(text):
            taken = width if sign.isdigit() else _font(22, 600).getlength(sign)
            spare = taken - _font(22, 600).getlength(sign)
            self.text(x - taken + spare / 2, y, sign, 22, weight=600)
            x -= taken

    def bob(self, x: float, y: float, size: float) -> None:
        """The plumb line's end, hanging at (x, y)."""
        outline = [(-3.5, 0), (3.5, 0), (3.5, 4), (0, 13), (-3.5, 4)]
        self.pen.polygon([(x + size * dx, y + size * dy) for dx, dy in outline], BRASS)


def _x(value: float, scale: Scale) -> float:
    return PLOT + (RIGHT - PLOT) * scale.x(value) / 100


def _chance(board: Board) -> float | None:
    """The average of a random guesser, where every column that counts knows its own."""
    if board.by_chance:
        return 0.0
    counted = [column.chance for column in board.columns if column.counts]
    known = [chance for chance in counted if chance is not None]
    return sum(known) / len(known) if known and len(known) == len(counted) else None


def _cut(text: str, size: int, weight: int, room: float) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    font = _font(size, weight)
    if font.getlength(text) <= room:
        return text
    while text and font.getlength(text + "…") > room:
        text = text[:-1]
    return text + "…" if text else ""


KEPT = 24 * 3600
"""Seconds; a picture is kept by the digest of all that it is made of, so it is never wrong."""


@require_safe
def picture(request: HttpRequest, reference: str) -> HttpResponseBase:
    """The first rows of a suite's board as a PNG of 1200 × 630."""
    suite = find_suite(reference)
    board = published.newest(suite, OWN)
    data = board.data_version if board else ""
    digest = digest_of([kept.release(), suite.title, suite.version, data])
    etag = f'"{digest}"'
    response = get_conditional_response(request, etag)
    if response is None:
        png = cache.get_or_set(
            f"picture-{digest}", lambda: draw_board(board, suite.title, suite.version), KEPT
        )
        response = HttpResponse(png, content_type="image/png")
    response["ETag"] = etag
    response["Cache-Control"] = "public, max-age=3600"
    return response
