"""Two models that change places with the prompt style: for the front page, and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.catalogue import find_suite
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import EVERY, Board, published
from leaderboard.templatetags.figures import day_of, percent, plural
from leaderboard.web import canvas

AXES = canvas.RIGHT - 370, canvas.RIGHT - 70
"""Pixels: where the scores in the first style stand, and in the second."""
NAME_ROOM = 180
TOP, BOTTOM = 214, 462
"""Pixels: where the highest score of the four stands, and the lowest."""


@dataclass(frozen=True)
class Reversal:
    """Two models that change places with the prompt style, both leads beyond chance."""

    ahead: str
    """Leads in the first style ..."""
    behind: str
    """... and in the second."""
    benchmark: str
    questions: int | None
    styles: tuple[str, str]
    scores: list[float]
    """Of `ahead` in both styles, then of `behind`."""
    url: str

    @property
    def lead(self) -> float:
        return self.scores[0] - self.scores[2]

    @property
    def lag(self) -> float:
        return self.scores[3] - self.scores[1]

    def places(self, top: float, bottom: float) -> list[float]:
        """Where the four scores stand between these, the highest at the top."""
        low, high = min(self.scores), max(self.scores)
        return [top + (bottom - top) * (high - score) / (high - low) for score in self.scores]

    @property
    def heights(self) -> list[float]:
        """The same in the card's picture, from its top."""
        return [round(place, 1) for place in self.places(32, 104)]

    @property
    def sentence(self) -> list[tuple[str, str]]:
        """Pieces of one sentence; those that tell of a style with that style, else with none."""
        return [
            (f"{self.ahead} leads {self.behind} by", ""),
            (f"{percent(self.lead)} points asked one way,", self.styles[0]),
            ("and trails by", ""),
            (f"{percent(self.lag)} asked the other", self.styles[1]),
        ]


def reversal_of(board: Board | None, suite: str) -> Reversal | None:
    """Of the board of every style; None where no two models change places.

    `suite` is its name, or name and version, as the address of the styles says it.
    """
    case = board.crossing if board else None
    if board is None or case is None:
        return None
    rows = [board.row_of[variant] for variant in (case.ahead, case.behind)]
    scores = board.scores.value[rows][:, [case.first, case.second]].ravel().tolist()
    # A recall may have taken one of the four since.
    if not (scores[0] > scores[2] and scores[3] > scores[1]):
        return None
    column, second = board.columns[case.first], board.columns[case.second]
    order = {"benchmark": column.benchmark, "a": column.style, "b": second.style}
    ahead, behind = (board.models[row].repo_id.rpartition("/")[2] for row in rows)
    return Reversal(
        ahead,
        behind,
        column.title,
        column.n,
        (column.style, second.style),
        scores,
        f"{reverse('styles')}?{urlencode({'suite': suite, **order})}",
    )


def shared_as(board: Board | None, suite: Suite) -> dict[str, str]:
    """What pages of prompt styles are shared with, by the names of their templates; nothing where
    no two models change places."""
    case = reversal_of(board, suite.name)
    if case is None:
        return {}
    url = reverse("reversal-picture", args=[f"{suite.name}@{suite.version}"])
    return {"picture_url": url, "picture_alt": " ".join(text for text, _ in case.sentence)}


@require_safe
def picture(request: HttpRequest, reference: str) -> HttpResponseBase:
    """The reversal of a suite as a PNG of 1200 × 630. Raises Http404 where there is none."""
    suite = find_suite(reference)
    board = published.newest(suite, EVERY)
    case = reversal_of(board, suite.name)
    if board is None or case is None:
        raise Http404(f"no two models of {suite} change places")
    made_of = ["reversal", suite.pk, suite.notice, board.data_version]
    day = day_of(board.built)
    return canvas.answer(request, made_of, lambda: draw_reversal(case, suite.notice, day))


def draw_reversal(case: Reversal, notice: str, day: str) -> bytes:
    """A PNG: the sentence to the left, the two slopes to the right."""
    questions = f", {plural(case.questions, 'question')}" if case.questions else ""
    foot = f"{case.benchmark}{questions}; both beyond chance"
    note = f"{case.benchmark}: same questions, other prompt"
    sheet = canvas.Canvas.framed(note, day, notice=notice, foot=foot)
    pieces = [(text, canvas.STYLE_INKS.get(style, canvas.INK)) for text, style in case.sentence]
    sheet.paragraph(canvas.LEFT, 330, pieces, (46, 40, 34, 28, 24), room=580, high=400)
    places = case.places(TOP, BOTTOM)
    for x, style in zip(AXES, case.styles, strict=True):
        sheet.pen.line([(x, TOP - 36), (x, BOTTOM + 36)], canvas.AXIS, 1)
        label, ink = str(Style(style).label), canvas.STYLE_INKS.get(style, canvas.INK)
        half = canvas.length(label, 20, 620) / 2
        sheet.text(x - half, TOP - 50, label, 20, weight=620, ink=ink)
    sheet.line([(AXES[0], places[2]), (AXES[1], places[3])], canvas.INK_2, 1.5, dash=7)
    sheet.line([(AXES[0], places[0]), (AXES[1], places[1])], canvas.INK, 2)
    for place, (x, style) in zip(places, (*zip(AXES, case.styles, strict=True),) * 2, strict=True):
        _mark(sheet, x, place, style)
    for score, place, left in zip(case.scores, places, (True, False) * 2, strict=True):
        own = place in places[:2]
        sheet.text(AXES[0] - 20 if left else AXES[1] + 20, place + 7, percent(score), 20,
                   weight=620 if own else 450, right=left)  # fmt: skip
    # Each name on the side of its point that its line does not take.
    for name, place, above, ink in (
        (case.ahead, places[0], True, canvas.INK),
        (case.behind, places[2], False, canvas.INK_2),
    ):
        text = canvas.cut(name, 18, 500, NAME_ROOM)
        sheet.text(AXES[0] + 16, place - 14 if above else place + 28, text, 18, weight=500, ink=ink)
    return sheet.png()


def _mark(sheet: canvas.Canvas, x: float, y: float, style: str) -> None:
    """A point in the shape and the colour of its style."""
    ink = canvas.STYLE_INKS.get(style, canvas.INK)
    if style == "cloze":
        sheet.disc(x, y, 9, ink)
    elif style == "hybrid":
        sheet.shape([(0, -11), (11, 0), (0, 11), (-11, 0)], ink, x=x, y=y)
    else:
        sheet.tile(x - 9, y - 9, 18, 18, ink, 0)
