"""A model's portrait as a picture: its rank with its range, and its ranks on the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.model_pages.field import Position, positions_of
from leaderboard.model_pages.known import Known, known
from leaderboard.model_pages.places import Place, place
from leaderboard.models import edition as editions
from leaderboard.templatetags.figures import margin, percent
from leaderboard.web import Address, canvas, short_address

FIELDS = {"variant": "", "suite": ""}
ROWS = 10
FIRST_ROW, ROW_HEIGHT = 222, 36
NAME, RANK, PLOT = 330, 470, 660
"""Pixels: room for a title, the right edge of a rank, the left edge of the plot."""


def picture_url(found: Known) -> str:
    """Of the commit and the suite that the page shows."""
    path = reverse("model-picture", args=[found.model.repo_id])
    variant = str(found.variant.pk) if found.variant else ""
    suite = found.suite.name if found.suite else ""
    return short_address(path, {"variant": variant, "suite": suite}, FIELDS)


def headline(found: Known) -> str:
    """Name, rank with its range, and average with its interval, as far as there are any."""
    own, name = _place(found), found.model.name or found.model.repo_id
    if own is None or own.average is None:
        return f"{name}: not ranked"
    average = f"average {percent(own.average.value)} {margin(own.average)}"
    if not own.rank:
        return f"{name}: {average}, no rank"
    return f"{name}: rank {own.rank:,} ({own.span}) of {own.board.ranked:,}, {average}"


def draw(found: Known) -> bytes:
    """A PNG; of the name and the reason alone where it has no place in the field."""
    own, suite = _place(found), found.suite
    _, _, told = headline(found).rpartition(": ")
    told = f"{told[0].upper()}{told[1:]}"
    if suite:
        told += f" · {suite.title} {suite.version}"
    shown = positions_of(own.board, own.row) if own else []
    if len(shown) > ROWS:
        told += f" · highest and lowest ranks of {len(shown)} benchmarks"
    sheet = canvas.Canvas.headed(found.model.repo_id, told, notice=suite.notice if suite else "")
    if shown:
        _profile(sheet, chosen(shown))
    return sheet.png()


def chosen(shown: Sequence[Position]) -> list[Position]:
    """The strongest benchmark first; of many the strongest half and the weakest half."""
    ordered = sorted(shown, key=lambda one: -one.at)
    if len(ordered) <= ROWS:
        return ordered
    return [*ordered[: ROWS // 2], *ordered[-(ROWS // 2) :]]


def _profile(sheet: canvas.Canvas, rows: Sequence[Position]) -> None:
    bottom, middle = FIRST_ROW + ROW_HEIGHT * len(rows), _x(0.5)
    sheet.text(PLOT, FIRST_ROW - 8, "last of the field", 15, ink=canvas.INK_3)
    sheet.text(canvas.RIGHT, FIRST_ROW - 8, "first", 15, ink=canvas.INK_3, right=True)
    sheet.pen.line([(middle, FIRST_ROW), (middle, bottom)], canvas.BRASS, 2)
    sheet.bob(middle, bottom, 1.4)
    for number, one in enumerate(rows):
        top = FIRST_ROW + ROW_HEIGHT * number
        base, y = top + 25, top + ROW_HEIGHT // 2
        sheet.rule(top)
        sheet.text(canvas.LEFT, base, canvas.cut(one.column.title, 20, 560, NAME), 20, weight=560)
        sheet.number(RANK, base, f"{one.rank:,}")
        sheet.text(RANK + 8, base, f"({one.span}) of {one.of:,}", 16, ink=canvas.INK_3)
        low, high = (_x(bound) for bound in one.bounds)
        sheet.pen.rectangle([low, y - 1, high, y + 1], canvas.INK_3)
        at = _x(one.at)
        sheet.pen.ellipse([at - 7, y - 7, at + 7, y + 7], canvas.INK)


def _x(share: float) -> float:
    return PLOT + 10 + (canvas.RIGHT - PLOT - 20) * share


def _place(found: Known) -> Place | None:
    return place(found.boards.own, found.variant.pk) if found.variant else None


@require_safe
def picture(request: HttpRequest, repo_id: str) -> HttpResponseBase:
    """The portrait of a model as a PNG of 1200 × 630. Raises Http404 for one not known."""
    found = known(repo_id, Address(request, FIELDS))
    made_of = [repo_id, found.variant and found.variant.pk, found.suite and found.suite.pk]
    return canvas.answer(request, [*made_of, editions.now()], lambda: draw(found))
