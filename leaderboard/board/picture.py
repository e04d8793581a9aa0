"""A board as a picture, for places that show a link as one: its first rows with their intervals.

Its address has the fields of the board's own, so that a filtered board is shown as filtered.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.formats import date_format
from django.views.decorators.http import require_safe

from leaderboard.board.query import BoardQuery, chosen_board
from leaderboard.board.view import View, view_of
from leaderboard.catalogue import find_suite
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import OWN, Board, Score
from leaderboard.templatetags.figures import day_of, margin, percent, plural
from leaderboard.web import Scale, canvas

ROWS = 10
FIRST_ROW, ROW_HEIGHT = 206, 38
DAY = timedelta(days=1)
RANK, RANGE, MODEL, AVERAGE, PLOT = canvas.LEFT + 34, canvas.LEFT + 44, canvas.LEFT + 150, 770, 860
"""Right edge of the rank, left edges of its range and the model, right edge of the average, left
edge of the plot."""
NOT_DRAWN: dict[str, Any] = {"page": 1, "m": "", "pin": "", "at_model": "", "rows": BoardQuery.rows}
"""Fields of a board that change nothing in its picture, and what they become."""


def picture_url(suite: Suite, query: BoardQuery) -> str:
    """Of this version of the suite, as the reader filters and orders it."""
    reference = f"{suite.name}@{suite.version}"
    _, mark, filters = query.url(suite=BoardQuery().suite, **NOT_DRAWN).partition("?")
    return reverse("picture", args=[reference]) + mark + filters


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
        f"average {percent(average.value)} {margin(average)}"
    )


def draw_board(view: View | None, suite: Suite, style: str) -> bytes:
    """A PNG of the first rows; of the suite's name alone where no model has an average."""
    sheet = canvas.Canvas.headed(
        suite.title, _told(view, style), after=suite.version, notice=suite.notice
    )
    if view is not None and (shown := _shown(view)):
        _rows(sheet, view, shown)
    return sheet.png()


def _told(view: View | None, style: str) -> str:
    if view is None or not view.board.averaged:
        return "No model has been measured on all benchmarks yet."
    board = view.board
    counted = sum(column.counts for column in board.columns)
    mean = f"mean of {counted} benchmarks" if counted > 1 else board.columns[0].title
    if view.own_choice:
        mean = "average of chosen benchmarks, which has no ranks"
    elif board.by_chance:
        mean += ", taken from chance"
    if style != OWN:
        mean += f", asked in {Style(style).label}"
    models = plural(board.ranked, "model") + " ranked"
    if view.chips:
        models = f"{view.found:,} of {plural(view.total, 'model')}: "
        models += "; ".join(label for label, _ in view.chips)
    return f"{mean[0].upper()}{mean[1:]}, with 95% intervals · {models} · {day_of(board.built)}"


def _shown(view: View) -> list[tuple[int, Score]]:
    """The first rows of the reader's order that have an average, each with it."""
    value, low, high = view.average.sides
    rows = [row for row in view.rows.tolist() if value[row] == value[row]][:ROWS]
    return [(row, Score(float(value[row]), float(low[row]), float(high[row]))) for row in rows]


def _rows(sheet: canvas.Canvas, view: View, shown: list[tuple[int, Score]]) -> None:
    chance = None if view.own_choice else _chance(view.board)
    bounds = [bound for _, score in shown for bound in (score.low, score.high)]
    low = min(bounds) if chance is None else min(chance, *bounds)
    scale = Scale.around(low, max(bounds), start=0, end=100)
    for edge, label, right in zip((PLOT, canvas.RIGHT), scale.ends, (False, True), strict=True):
        sheet.text(edge, FIRST_ROW - 8, label, 15, ink=canvas.INK_3, right=right)
    for number, (row, average) in enumerate(shown):
        _row(sheet, view, row, average, scale, FIRST_ROW + ROW_HEIGHT * number)
    if chance is not None:
        sheet.plumb(_x(chance, scale), FIRST_ROW, FIRST_ROW + ROW_HEIGHT * len(shown), "Chance")


def _row(
    sheet: canvas.Canvas, view: View, row: int, average: Score, scale: Scale, top: int
) -> None:
    board, base = view.board, top + 27
    sheet.rule(top)
    rank = 0 if view.own_choice else int(board.ranks.rank[row])
    sheet.number(RANK, base, str(rank) if rank else "–")
    if rank:
        low, high = int(board.ranks.low[row]), int(board.ranks.high[row])
        on = "+" if board.ranks.cut_high[row] else ""  # the typeface has no ≥
        sheet.text(RANGE, base, f"({low}–{high}{on})", 17, ink=canvas.INK_3)
    owner, slash, name = board.models[row].repo_id.rpartition("/")
    room = AVERAGE - 110
    end = sheet.text(
        MODEL, base, canvas.cut(owner + slash, 21, 400, room - MODEL), 21, ink=canvas.INK_3
    )
    named = canvas.cut(name, 21, 560, room - end)
    sheet.text(end, base, named, 21, weight=560, ink=canvas.INK if rank else canvas.INK_3)
    sheet.number(AVERAGE, base, percent(average.value))
    sheet.text(AVERAGE + 8, base, margin(average), 17, ink=canvas.INK_3)
    low_x, at, high_x = (_x(v, scale) for v in (average.low, average.value, average.high))
    sheet.interval(low_x, at, high_x, top + ROW_HEIGHT // 2)


def _x(value: float, scale: Scale) -> float:
    return PLOT + (canvas.RIGHT - PLOT) * scale.x(value) / 100


def _chance(board: Board) -> float | None:
    """The average of a random guesser, where every column that counts knows its own."""
    if board.by_chance:
        return 0.0
    counted = [column.chance for column in board.columns if column.counts]
    known = [chance for chance in counted if chance is not None]
    return sum(known) / len(known) if known and len(known) == len(counted) else None


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
