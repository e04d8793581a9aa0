"""A comparison as a picture: who is ahead and by how much, and the forest of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.http import Http404, HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from leaderboard.compare import words
from leaderboard.compare.differences import Compared, Found
from leaderboard.compare.differences import compare as differences
from leaderboard.compare.page import FIELDS, JOINED, fields, read
from leaderboard.compare.pair import Difference
from leaderboard.compare.table import Axis
from leaderboard.models import Suite
from leaderboard.models import edition as editions
from leaderboard.templatetags.figures import margin
from leaderboard.web import Address, canvas

ROWS = 10
"""Lines of the forest, the average among them."""
FIRST_ROW, ROW_HEIGHT = 216, 36
NAME, VALUE, PLOT = 330, 470, 600
"""Pixels: room for a name, the right edge of a difference, the left edge of the plot."""


class Line(NamedTuple):
    """A difference of the forest."""

    name: str
    found: Difference
    metric: str
    average: bool


def draw(compared: Compared, suite: Suite | None) -> bytes:
    """A PNG of the verdict and of the largest differences."""
    lines = forest(compared)
    shown, every = len(lines[:ROWS]), len(lines)
    of = f"{shown} largest of {every} differences" if shown < every else "Differences"
    base = compared.lineup.sides[compared.base].name
    told = f"{of} to {base}, in points, with 95% intervals"
    if suite:
        told = f"{suite.title} {suite.version} · {told}"
    sheet = canvas.Canvas.headed(
        words.headline(compared), told, notice=suite.notice if suite else ""
    )
    if lines:
        _draw_forest(sheet, lines[:ROWS], compared)
    return sheet.png()


def forest(compared: Compared) -> list[Line]:
    """The averages first, then the tasks, those with the largest differences in points first."""
    sides = compared.lineup.sides
    several = len(compared.against) > 1
    averages: list[Line] = []
    tasks: list[Line] = []
    for pair in compared.against:
        other = sides[pair.side].name
        averages += _line(other if several else "Average", pair.average, "acc", average=True)
        for task, found in zip(compared.lineup.tasks, pair.by_task, strict=True):
            if task.drawn_to_scale:
                name = f"{task.title}, {other}" if several else task.title
                tasks += _line(name, found, task.metric, average=False)
    tasks.sort(key=lambda line: -abs(line.found.value))
    return [*averages, *tasks]


def _line(name: str, found: Found, metric: str, *, average: bool) -> list[Line]:
    return [Line(name, found, metric, average)] if isinstance(found, Difference) else []


def _draw_forest(sheet: canvas.Canvas, lines: Sequence[Line], compared: Compared) -> None:
    axis = Axis.around([line.found for line in lines])
    zero, bottom = _x(0.0, axis), FIRST_ROW + ROW_HEIGHT * len(lines)
    for number, line in enumerate(lines):
        top = FIRST_ROW + ROW_HEIGHT * number
        base, middle, found = top + 25, top + ROW_HEIGHT // 2, line.found
        sheet.rule(top)
        weight = 650 if line.average else 560
        sheet.text(canvas.LEFT, base, canvas.cut(line.name, 20, weight, NAME), 20, weight=weight)
        sheet.text(VALUE, base, words.signed(found.value, line.metric), 20, weight=600, right=True)
        sheet.text(VALUE + 8, base, margin(found), 16, ink=canvas.INK_3)
        if found.low < found.high:
            low, high = _x(found.low, axis), _x(found.high, axis)
            sheet.pen.rectangle([low, middle - 1, high, middle + 1], canvas.INK_3)
        _mark(sheet, _x(found.value, axis), middle, found)
    sheet.pen.line([(zero, FIRST_ROW), (zero, bottom)], canvas.BRASS, 2)
    sheet.bob(zero, bottom, 1.4)
    if len(compared.against) == 1:
        sides = compared.lineup.sides
        ends = sides[compared.base].name, sides[compared.against[0].side].name
        room = (canvas.RIGHT - PLOT) / 2 - 30
        sheet.text(zero - 16, bottom + 22, canvas.cut(f"{ends[0]} ahead", 16, 400, room), 16,
                   ink=canvas.INK_2, right=True)  # fmt: skip
        sheet.text(
            zero + 16,
            bottom + 22,
            canvas.cut(f"{ends[1]} ahead", 16, 400, room),
            16,
            ink=canvas.INK_2,
        )


def _mark(sheet: canvas.Canvas, x: float, y: int, found: Difference) -> None:
    """Filled where the interval misses zero, hollow where it holds it."""
    box = [x - 7, y - 7, x + 7, y + 7]
    sheet.pen.ellipse(box, canvas.INK if found.clear else canvas.PAPER, outline=canvas.INK, width=2)


def _x(value: float, axis: Axis) -> float:
    return PLOT + (canvas.RIGHT - PLOT) * axis.x(value) / 100


@require_safe
def picture(request: HttpRequest) -> HttpResponseBase:
    """The picture of a comparison; the query is that of its page."""
    address = Address(request, fields(), JOINED)
    asked = read(address)
    if asked.lineup is None:
        raise Http404("a comparison takes two models or more")
    lineup, made_of = asked.lineup, [[address[name] for name in FIELDS], editions.now()]
    return canvas.answer(
        request, made_of, lambda: draw(differences(lineup, asked.base), asked.suite)
    )
