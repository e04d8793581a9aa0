"""A board as a picture, for places that show a link as one: who is first, and the first rows.

Its address has the fields of the board's own, so that a filtered board is shown as filtered.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.formats import date_format
from django.views.decorators.http import require_safe

from leaderboard.board.query import BoardQuery, chosen_board
from leaderboard.board.view import View, view_of
from leaderboard.catalogue import find_suite
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import OWN, Score
from leaderboard.templatetags.design import monogram_of
from leaderboard.templatetags.figures import bounds_in, day_of, percent, plural
from leaderboard.web import Scale, canvas

ROWS = 5
FIRST_ROW, ROW_HEIGHT = 211, 60
DAY = timedelta(days=1)
MONOGRAM, MODEL, AVERAGE, PLOT = (canvas.LEFT + x for x in (120, 182, 642, 742))
"""Left edges of a row's parts, behind its rank with the range."""
NOT_DRAWN: dict[str, Any] = {"page": 1, "m": "", "pin": "", "at_model": "", "rows": BoardQuery.rows}
"""Fields of a board that change nothing in its picture, and what they become."""
NUMBERS = ("", "", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
GRID_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
MAX_LINES = 7


def picture_url(suite: Suite, query: BoardQuery) -> str:
    """Of this version of the suite, as the reader filters and orders it."""
    reference = f"{suite.name}@{suite.version}"
    _, _, fields = query.url(suite=BoardQuery().suite, **NOT_DRAWN).partition("?")
    return reverse("picture", args=[reference]) + (f"?{fields}" if fields else "")


def headline(view: View) -> str:
    """Which model is first in the reader's order, with its range; empty where ranks say nothing."""
    shown = _shown(view) if view.bands else []
    ranked = [(row, average) for row, average in shown if view.board.ranks.rank[row]]
    if not ranked:
        return ""
    row, average = ranked[0]
    board = view.board
    name, rank = board.models[row].repo_id.rpartition("/")[2], board.ranks.rank[row]
    stands = f"first of {plural(view.found, 'model')}: " if view.chips else ""
    on = f" on {date_format(view.query.moment - DAY, 'j M Y')}" if view.query.moment else ""
    return (
        f"{board.title} {board.version}{on}: {stands}{name}, "
        f"rank {rank:,} ({board.ranks.span(row)}), "
        f"average {percent(average.value)} ({bounds_in(average, 'acc')})"
    )


def draw_board(view: View | None, suite: Suite, style: str) -> bytes:
    """A PNG of the first rows; of a sentence alone where no model has an average."""
    shown = _shown(view) if view else []
    day = day_of(view.board.built) if view else ""
    sheet = canvas.Canvas.framed(_note(view, style), day, notice=suite.notice)
    title = _finding(view, suite) if view and shown else "No model has all its numbers yet"
    size, (line, *more) = canvas.title_lines(title, canvas.RIGHT - canvas.LEFT)
    if more:
        sheet.text(canvas.LEFT, 178 - size - 4, line, size, weight=620)
    sheet.text(canvas.LEFT, 178, more[0] if more else line, size, weight=620)
    if view and shown:
        _draw_rows(sheet, view, shown)
    return sheet.png()


def _finding(view: View, suite: Suite) -> str:
    """Who is first; the suite's name where the order says nothing of that."""
    if not view.bands:
        return f"{suite.title} {suite.version}"
    first = view.bands[0]
    among = f" of {plural(view.found, 'model')}" if view.chips else ""
    if not first.others:
        name = view.board.models[first.leader].repo_id.rpartition("/")[2]
        return f"{name} is first{among}"
    models = first.others + 1
    number = NUMBERS[models] if models < len(NUMBERS) else f"{models:,}"
    return f"{number}{among or ' models'} share first place"


def _note(view: View | None, style: str) -> str:
    if view is None:
        return ""
    words = [f"{plural(view.total, 'open model')}", plural(len(view.averaged), "benchmark")]
    if style != OWN:
        words.append(f"asked in {Style(style).label}")
    if view.own_choice:
        words.append("an average of the reader’s choice")
    return ", ".join([*words, *(label for label, _ in view.chips)])


def _shown(view: View) -> list[tuple[int, Score]]:
    """The first rows of the reader's order that have an average, each with it."""
    value, low, high = view.average.sides
    rows = view.rows[~np.isnan(value[view.rows])][:ROWS].tolist()
    return [(row, Score(float(value[row]), float(low[row]), float(high[row]))) for row in rows]


def _draw_rows(sheet: canvas.Canvas, view: View, shown: list[tuple[int, Score]]) -> None:
    scale = Scale.over((score for _, score in shown), start=0, end=100)
    bottom = FIRST_ROW + ROW_HEIGHT * len(shown)
    for mark in _grid(scale):
        x = _x(mark, scale)
        sheet.pen.line([(x, FIRST_ROW), (x, bottom)], canvas.RULE, 1)
        text = f"{100 * mark:g}"
        half = canvas.length(text, 15, 400) / 2
        sheet.text(x - half, FIRST_ROW - 8, text, 15, ink=canvas.INK_3)
    band, room = _first_band(view, shown), MONOGRAM - canvas.LEFT - 16
    beside = all(sum(_rank_widths(view, row)) < room for row, _ in shown)
    for number, (row, average) in enumerate(shown):
        top = FIRST_ROW + ROW_HEIGHT * number
        _draw_rank(sheet, view, row, top + 39, beside=beside)
        _draw_row(sheet, view, row, average, scale, top)
    if band > 1:
        x, end = _x(shown[0][1].value, scale), FIRST_ROW + ROW_HEIGHT * band - 36
        sheet.pen.line([(x, FIRST_ROW + ROW_HEIGHT / 2), (x, end)], canvas.BRASS, 2)
        sheet.shape([(-6, 0), (6, 0), (6, 8), (0, 20), (-6, 8)], canvas.BRASS, x=x, y=end)


def _grid(scale: Scale) -> list[float]:
    step = next(
        (step for step in GRID_STEPS if (scale.high - scale.low) / step < MAX_LINES), GRID_STEPS[-1]
    )
    first, last = round(scale.low / step + 0.499), round(scale.high / step - 0.499)
    return [number * step for number in range(first, last + 1)]


def _first_band(view: View, shown: list[tuple[int, Score]]) -> int:
    """How many of the first rows were not shown to be worse than the leader."""
    if not view.bands:
        return 0
    order = view.rows.tolist()
    last = order.index(view.bands[0].last)
    return sum(order.index(row) <= last for row, _ in shown)


def _rank_of(view: View, row: int) -> tuple[str, str]:
    """Rank and range as they are written; a dash and nothing for none."""
    rank = 0 if view.own_choice else int(view.board.ranks.rank[row])
    return (f"{rank:,}", view.board.ranks.span(row)) if rank else ("–", "")


def _rank_widths(view: View, row: int) -> tuple[float, float]:
    """Pixels of the rank with the gap behind it, and of the range."""
    rank, span = _rank_of(view, row)
    return canvas.length(rank, 25, 620) + 8, canvas.length(canvas.spelled(span), 18, 400)


def _draw_rank(sheet: canvas.Canvas, view: View, row: int, base: int, *, beside: bool) -> None:
    """The range stands beside the rank, or below it where one of the rows has no room for that."""
    rank, span = _rank_of(view, row)
    sheet.text(canvas.LEFT, base if beside else base - 8, rank, 25, weight=620)
    if beside:
        left = canvas.LEFT + _rank_widths(view, row)[0]
        sheet.text(left, base, span, 18, ink=canvas.INK_3)
    else:
        sheet.text(canvas.LEFT, base + 12, span, 15, ink=canvas.INK_3)


def _draw_row(
    sheet: canvas.Canvas, view: View, row: int, average: Score, scale: Scale, top: int
) -> None:
    board, base = view.board, top + 39
    sheet.rule(top + ROW_HEIGHT)
    maker, _, name = board.models[row].repo_id.rpartition("/")
    sheet.monogram(MONOGRAM, top + 11, 38, *monogram_of(maker))
    sheet.text(MODEL, base, canvas.cut(name, 25, 580, AVERAGE - MODEL - 16), 25, weight=580)
    value = percent(average.value)
    sheet.number(AVERAGE + canvas.length("00.0", 25, 620) + 4, base, value, 25, 620)
    low, at, high = (_x(end, scale) for end in (average.low, average.value, average.high))
    middle = top + ROW_HEIGHT / 2
    sheet.tile(low, middle - 5, max(high - low, 2), 10, canvas.BAR, 3)
    sheet.tile(at - 1.5, middle - 9, 3, 18, canvas.INK, 1)


def _x(value: float, scale: Scale) -> float:
    return PLOT + (canvas.RIGHT - PLOT) * scale.x(value) / 100


@require_safe
def picture(request: HttpRequest, reference: str) -> HttpResponseBase:
    """The first rows of a suite's board, as the query filters it, as a PNG of 1200 × 630."""
    suite = find_suite(reference)
    query = BoardQuery.of(request).but(**NOT_DRAWN)
    board = chosen_board(suite, query)
    data = board.data_version if board else ""
    made_of = [suite.title, suite.version, suite.notice, data, vars(query)]
    return canvas.answer(
        request,
        made_of,
        lambda: draw_board(view_of(board, query) if board else None, suite, query.style),
    )
