"""A comparison as a picture for places that show a link as one: who leads, and every average."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from leaderboard.compare.differences import Comparison, compare
from leaderboard.compare.pair import headline
from leaderboard.compare.query import JOINED, WHO, Query, fields, read
from leaderboard.compare.six import six
from leaderboard.models import edition as editions
from leaderboard.templatetags.figures import bounds_in, day_of, in_unit
from leaderboard.web import Address, canvas

COLOURS = ("#0c6a70", "#a6316a", "#475463", "#77801b", "#6a4a9c", "#a04a12")
"""Of the sides by letter, as the stylesheet has them in the light."""
COLUMN, GAP = 504, 64
"""Pixels: the width of a side of two, and the room between them."""
FIRST_ROW, ROW = 226, 52
NAME, VALUE, PLOT = 112, 700, 760
"""Pixels: where names begin, averages end and intervals begin."""


def draw(query: Query, comparison: Comparison) -> bytes:
    """A PNG of the verdict over the scores of all sides."""
    notice = query.suite.notice if query.suite else ""
    day = day_of(query.board.built if query.board else now())
    if len(comparison.lineup.sides) == 2:
        title = headline(comparison)
        about = ": ".join(filter(None, (title.words.bounds, title.words.verdict)))
        sheet = canvas.Canvas.framed(about, day, notice=notice)
        sentence = title.sentence
        _draw_pair(sheet, comparison)
    else:
        page = six(comparison, query)
        sheet = canvas.Canvas.framed("averages with their 95% intervals", day, notice=notice)
        sentence = page.sentence
        _draw_six(sheet, comparison, page.order)
    size, lines = canvas.title_lines(sentence, canvas.RIGHT - canvas.LEFT)
    for place, line in enumerate(reversed(lines)):
        sheet.text(canvas.LEFT, 200 - place * (size + 6), line, size, weight=620)
    return sheet.png()


def _draw_pair(sheet: canvas.Canvas, comparison: Comparison) -> None:
    """Two columns: a rule in the side's colour, its name, its score over the interval."""
    metric = comparison.lineup.metric
    for place, side in enumerate(comparison.lineup.sides):
        left = canvas.LEFT + place * (COLUMN + GAP)
        sheet.pen.rectangle([left, 238, left + COLUMN, 241], COLOURS[place])
        sheet.text(left, 290, canvas.cut(side.model, 28, 600, COLUMN), 28, weight=600)
        if side.score:
            value = in_unit(side.score.value, metric)
            sheet.text(left, 420, value, 128, weight=640, ink=COLOURS[place])
            sheet.text(left, 470, bounds_in(side.score, metric), 26, ink=canvas.INK_3)
        else:
            sheet.text(left, 420, "no average", 44, weight=500, ink=canvas.INK_3)


def _draw_six(sheet: canvas.Canvas, comparison: Comparison, order: list[int]) -> None:
    """A row for each side, the best first, all intervals on one scale."""
    lineup = comparison.lineup
    known = [side.score for side in lineup.sides if side.score]
    low = min((score.low for score in known), default=0.0)
    high = max((score.high for score in known), default=1.0)

    def x(value: float) -> float:
        return PLOT + (canvas.RIGHT - 20 - PLOT) * (value - low) / ((high - low) or 1.0)

    for number, place in enumerate(order):
        side, middle = lineup.sides[place], FIRST_ROW + ROW * number + ROW // 2
        sheet.rule(FIRST_ROW + ROW * (number + 1))
        disc = [canvas.LEFT, middle - 15, canvas.LEFT + 30, middle + 15]
        sheet.pen.ellipse(disc, COLOURS[place])
        half = canvas.length(side.letter, 18, 650) / 2
        sheet.text(
            canvas.LEFT + 15 - half, middle + 7, side.letter, 18, weight=650, ink=canvas.PAPER
        )
        sheet.text(NAME, middle + 9, canvas.cut(side.name, 25, 580, 490), 25, weight=580)
        if side.score is None:
            sheet.text(VALUE, middle + 9, "no average", 22, ink=canvas.INK_3, right=True)
            continue
        value = in_unit(side.score.value, lineup.metric)
        sheet.text(VALUE, middle + 9, value, 28, weight=650, right=True)
        ends = [x(side.score.low), middle - 5, x(side.score.high), middle + 5]
        sheet.pen.rounded_rectangle(ends, 4, canvas.BAR)
        at = x(side.score.value)
        sheet.pen.ellipse([at - 8, middle - 8, at + 8, middle + 8], COLOURS[place])


@require_safe
def picture(request: HttpRequest) -> HttpResponseBase:
    """The picture of a comparison; the query is that of its page."""
    address = Address(request, fields(), JOINED)
    query = read(address)
    lineup = query.lineup
    if lineup is None:
        raise Http404("a comparison takes two models or more")
    made_of = [[address[name] for name in WHO], editions.now(), now().date()]
    return canvas.answer(request, made_of, lambda: draw(query, compare(lineup)))
