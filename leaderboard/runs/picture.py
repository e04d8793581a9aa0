"""What a link to a run shows elsewhere: its number with all its questions, or one question."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from leaderboard.models import Artifact, Result, Run
from leaderboard.models.run import MEASURED
from leaderboard.queue import title_of
from leaderboard.runs import headline
from leaderboard.samples import (
    Choice,
    Question,
    Unavailable,
    by_result,
    draw_waffle,
    facts_of,
    path_of,
    read_question,
    rows_in,
)
from leaderboard.templatetags.design import monogram_of
from leaderboard.templatetags.figures import bounds_in, day_of, percent, shown
from leaderboard.web import INK_2, INK_3, LEFT, RIGHT, STYLE_INKS, Address, Canvas, canvas

RIGHT_ANSWER, OUTLINE, TRACK, OTHER = "#5f9f8a", "#83888f", "#f4f4f0", "#83888f"
SQUARES_LEFT, SQUARES_WIDTH, SQUARES_HEIGHT = 500, 636, 210
BARS_TOP, BAR_ROW, BARS_LEFT, BARS_RIGHT = 300, 46, 640, 1020
"""Pixels."""
MAX_CHOICES = 5


@require_safe
def picture(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """A PNG of 1200 × 630 of a run with a number, or of its question `doc`."""
    run = get_object_or_404(headline.runs(), pk=pk, state__in=MEASURED)
    primary = headline.primary(run, run.results.all())
    if primary is None:
        raise Http404(f"run {pk} has no number")
    doc = Address(request, {"doc": ""})["doc"]
    question = _question(run, doc) if doc else None
    made_of = [str(pk), doc, headline.editions(pk)]
    return canvas.answer(request, made_of, lambda: _draw(run, primary, question))


def _question(run: Run, doc: str) -> Question:
    """Raises Http404 where the run has no such question, or no file to read it from."""
    samples = run.artifacts.filter(kind=Artifact.Kind.SAMPLES).first()
    try:
        path = path_of(samples.sha256) if samples else Path()
        place = facts_of(path).called(doc) if path.is_file() else None
        if place is None:
            raise Http404(f"this run has no question with doc={doc}")
        return read_question(rows_in(path, [place])[place])
    except Unavailable as problem:
        raise Http404("the answers are out of reach") from problem


def _draw(run: Run, primary: Result, question: Question | None) -> bytes:
    model = run.variant.hub_model
    about = f"{run.task.get_style_display()}, {run.shots}-shot"
    day = day_of(run.finished) if run.finished else ""
    notice = str(getattr(run, "suite_notice") or "")  # noqa: B009
    sheet = Canvas.framed(about, day, notice=notice)
    sheet.monogram(LEFT, 122, 68, *monogram_of(model.owner))
    name = model.name or model.repo_id
    room = RIGHT - LEFT - 92
    sheet.text(LEFT + 92, 144, canvas.cut(name, 24, 450, room), 24, weight=450, ink=INK_2)
    heading = canvas.cut(title_of(run), 44, 640, room)
    sheet.text(LEFT + 92, 186, heading, 44, weight=640)
    if question is None:
        _draw_number(sheet, run, primary)
    else:
        _draw_question(sheet, run, question)
    return sheet.png()


def _draw_number(sheet: Canvas, run: Run, primary: Result) -> None:
    metric = headline.metric(run)
    if run.recall:
        sheet.text(LEFT, 350, "Recalled", 90, weight=650, ink=canvas.FAIL)
        sheet.text(LEFT, 400, "Its number must not be used", 26, ink=INK_2)
        return
    number = shown(primary, metric)
    size = next((size for size in (150, 110, 80) if canvas.length(number, size, 650) < 410), 60)
    sheet.text(LEFT, 400, number, size, weight=650)
    sheet.text(LEFT, 450, bounds_in(primary, metric), 28, ink=INK_2)
    if run.task.chance is not None:
        sheet.text(LEFT, 490, f"chance would give {percent(run.task.chance)}", 22, ink=INK_3)
    vector = by_result([primary.pk]).get(primary.pk)
    squares = vector and draw_waffle(vector.scores, width=SQUARES_WIDTH, height=SQUARES_HEIGHT)
    if not squares:
        return
    top = 290
    for x, y, level in squares.squares:
        left, upper, side = SQUARES_LEFT + x, top + y, squares.side - 1
        if level < squares.side:
            sheet.pen.rectangle([left, upper, left + side, upper + side], outline=OUTLINE)
        if level:
            box = [left, upper + side + 1 - level, left + side, upper + side]
            sheet.pen.rectangle(box, RIGHT_ANSWER)
    caption = canvas.cut(squares.caption, 18, 450, SQUARES_WIDTH)
    sheet.text(SQUARES_LEFT, top - 16, caption, 18, weight=450, ink=INK_3)


def _draw_question(sheet: Canvas, run: Run, question: Question) -> None:
    """The question's words, unless they are withheld, and how likely each choice was."""
    words = question.title or ("Text withheld" if question.withheld else "One question")
    for number, line in enumerate(canvas.in_lines(words, 28, 560, RIGHT - LEFT)):
        sheet.text(LEFT, 240 + 36 * number, line, 28, weight=560)
    if not question.choices:
        verdict = canvas.cut(question.verdict, 40, 640, RIGHT - LEFT)
        sheet.text(LEFT, 360, verdict, 40, weight=640, ink=_verdict_ink(question))
        return
    chosen = _likeliest(question)
    for number, choice in enumerate(chosen):
        _draw_choice(sheet, run, choice, BARS_TOP + BAR_ROW * number, withheld=question.withheld)
    y = BARS_TOP + BAR_ROW * len(chosen) + 32
    verdict = canvas.cut(f"{question.verdict} {question.closeness}", 22, 560, RIGHT - LEFT)
    sheet.text(LEFT, min(y, canvas.FOOT - 36), verdict, 22, weight=560, ink=_verdict_ink(question))


def _likeliest(question: Question) -> list[Choice]:
    """As many choices as fit, with the key and the pick among them, in their own order."""
    first = sorted(question.choices, key=lambda c: (not (c.picked or c.correct), -c.share))
    return sorted(first[:MAX_CHOICES], key=question.choices.index)


def _draw_choice(sheet: Canvas, run: Run, choice: Choice, y: int, *, withheld: bool) -> None:
    weight = 640 if choice.picked else 450
    sheet.text(LEFT, y + 24, choice.letter, 22, weight=640, ink=INK_2)
    mark = " (key)" if choice.correct else ""
    text = "" if withheld else choice.text
    room = BARS_LEFT - LEFT - 60 - canvas.length(mark, 22, weight)
    written = canvas.cut(canvas.spelled(text), 22, weight, room)
    sheet.text(LEFT + 40, y + 24, f"{written}{mark}".strip(), 22, weight=weight)
    ink = STYLE_INKS.get(run.task.style, INK_2) if choice.picked else OTHER
    sheet.pen.rectangle([BARS_LEFT, y + 2, BARS_RIGHT, y + 32], TRACK)
    long = max(2, (BARS_RIGHT - BARS_LEFT) * choice.share)
    sheet.pen.rectangle([BARS_LEFT, y + 2, BARS_LEFT + long, y + 32], ink)
    sheet.text(RIGHT, y + 24, choice.percent, 22, weight=weight, right=True)


def _verdict_ink(question: Question) -> str:
    return {True: "#1b6b43", False: canvas.FAIL, None: INK_2}[question.right]
