"""What a model's author takes along: badge, share picture, embedded table, citation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from csp.decorators import csp_replace
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from leaderboard.catalogue import bibtex
from leaderboard.model_pages import pictures
from leaderboard.model_pages.pictures import BINS_BOTTOM, field_of
from leaderboard.model_pages.records import ModelRecord, read_model
from leaderboard.model_pages.standing import Place, positions_of
from leaderboard.models import edition as editions
from leaderboard.snapshot import Score
from leaderboard.templatetags.design import monogram_of
from leaderboard.templatetags.figures import bounds_in, day_of, ordinal, percent
from leaderboard.web import Address, canvas, kept, short_address

FIELDS = {"variant": "", "suite": ""}


def headline(record: ModelRecord) -> str:
    """Name, rank with its range, and average with its interval, as far as there are any."""
    own, name = record.place, record.model.name or record.model.repo_id
    if own is None or own.average is None:
        return f"{name}: not ranked"
    average = f"average {percent(own.average.value)} ({bounds_in(own.average, 'acc')})"
    if not own.rank:
        return f"{name}: {average}, no rank"
    return f"{name}: rank {own.rank:,} ({own.span}) of {own.board.ranked:,}, {average}"


@dataclass(frozen=True)
class TakeAway:
    """Addresses and texts to copy; `origin` is the site's, as `https://plumbline.example`."""

    badge_url: str
    badge_dark_url: str
    badge_alt: str
    markdown: str
    html: str
    """The badge in the light and in the dark, as GitHub shows it."""
    picture_url: str
    embed_url: str
    iframe: str
    citation: str


def take_away(record: ModelRecord, origin: str) -> TakeAway:
    repo_id = record.model.repo_id
    page = origin + record.model.get_absolute_url()
    light, dark, embedded = (
        reverse(name, args=[repo_id]) for name in ("model-badge", "model-badge-dark", "model-embed")
    )
    alt = "Plumbline: " + headline(record).partition(": ")[2]
    return TakeAway(
        badge_url=light,
        badge_dark_url=dark,
        badge_alt=alt,
        markdown=f"[![Plumbline]({origin}{light})]({page})",
        html=(
            f'<a href="{page}"><picture><source media="(prefers-color-scheme: dark)" '
            f'srcset="{origin}{dark}"><img src="{origin}{light}" alt="Plumbline" height="28">'
            "</picture></a>"
        ),
        picture_url=picture_url(record),
        embed_url=embedded,
        iframe=(
            f'<iframe src="{origin}{embedded}" title="{escape(record.model.name)} on Plumbline" '
            'width="480" height="560"></iframe>'
        ),
        citation=_citation(record, page),
    )


def _citation(record: ModelRecord, page: str) -> str:
    own, model = record.place, record.model
    fields = {"title": f"{model.repo_id} on Plumbline", "url": page}
    if own is None:
        fields["note"] = "not measured yet"
    else:
        board = own.board
        fields["note"] = (
            f"{headline(record).partition(': ')[2].capitalize()}. Suite {board.suite} "
            f"{board.version}, data of {board.built:%Y-%m-%d}, digest {board.data_version[:12]}"
        )
        fields["year"] = str(board.built.year)
    key = "plumbline-" + re.sub(r"[^a-z0-9]+", "-", model.repo_id.lower()).strip("-")
    return bibtex(key, {"author": settings.PLUMBLINE_OPERATOR or "Plumbline", **fields})


@require_safe
def badge(request: HttpRequest, repo_id: str, look: str) -> HttpResponseBase:
    """Rank with its range, and average, as SVG. Raises Http404 for a model that is not known."""
    record = read_model(repo_id, Address(request, FIELDS))
    made_of = [*_identity(record), look, editions.now()]
    return canvas.answer(request, made_of, lambda: _badge(record, look).encode(), "image/svg+xml")


def _identity(record: ModelRecord) -> list[object]:
    variant, suite = record.variant, record.suite
    return [record.model.repo_id, variant and variant.pk, suite and suite.pk]


def _badge(record: ModelRecord, look: str) -> str:
    own = record.place
    invented = " · invented" if record.suite and record.suite.notice else ""
    if own is None or own.average is None:
        return pictures.badge("", "not ranked", invented, look)
    average = percent(own.average.value)
    if not own.rank:
        return pictures.badge("average", average, f"no rank{invented}", look)
    rest = f"({own.span}) of {own.board.ranked:,} · {average}{invented}"
    return pictures.badge("rank", f"{own.rank:,}", rest, look)


@xframe_options_exempt
@csp_replace({"frame-ancestors": ["*"]})  # type: ignore[arg-type]  # it passes on every argument
@require_safe
def embed(request: HttpRequest, repo_id: str) -> HttpResponseBase:
    """A model's average, rank and scores for a frame on any page. Raises Http404 for one unknown.

    It has no script, no form and nothing of a reader's account, so nobody can be misled in a frame.
    """
    address = Address(request, FIELDS)
    return kept.answer(request, editions.now, lambda: _embedded(request, repo_id, address))


def _embedded(request: HttpRequest, repo_id: str, address: Address) -> str | HttpResponseBase:
    record = read_model(repo_id, address)
    if redirect := address.redirect():
        return redirect
    own = record.place
    ranks = {found.place: found for found in positions_of(own.board, own.row)} if own else {}
    columns = enumerate(own.board.columns) if own else ()
    context = {
        "model": record.model,
        "suite": record.suite,
        "own": own,
        "rows": [
            (column.title, own.board.score(own.row, at), column.metric, ranks.get(at))
            for at, column in columns
            if own
        ],
        "page": request.build_absolute_uri(record.model.get_absolute_url()),
    }
    return kept.Unlisted(render_to_string("model_pages/embed.html", context, request))


def picture_url(record: ModelRecord) -> str:
    """Of the commit and the suite that the page shows."""
    path = reverse("model-picture", args=[record.model.repo_id])
    variant = str(record.variant.pk) if record.variant else ""
    suite = record.suite.name if record.suite else ""
    return short_address(path, {"variant": variant, "suite": suite}, FIELDS)


@require_safe
def picture(request: HttpRequest, repo_id: str) -> HttpResponseBase:
    """A model's average and rank as a PNG of 1200 × 630. Raises Http404 for one not known."""
    record = read_model(repo_id, Address(request, FIELDS))
    host = request.get_host()
    made_of = [*_identity(record), host, editions.now()]
    return canvas.answer(request, made_of, lambda: draw(record, host))


def draw(record: ModelRecord, host: str) -> bytes:
    """A PNG; of the name and the reason alone where the model has no average."""
    own, suite, model = record.place, record.suite, record.model
    note = f"{suite.title} {suite.version} · {host}" if suite else host
    day = day_of(own.board.built) if own else ""
    sheet = canvas.Canvas.framed(note, day, notice=suite.notice if suite else "")
    maker = model.owner if model.name else ""
    left = canvas.LEFT
    if maker:
        sheet.monogram(left, 157, 76, *monogram_of(maker))
        left += 92
        sheet.text(left, 176, canvas.cut(maker, 26, 400, canvas.RIGHT - left), 26, ink=canvas.INK_2)
    size, lines = canvas.title_lines(model.name or model.repo_id, canvas.RIGHT - left)
    for number, line in enumerate(lines):
        sheet.text(left, 231 + number * (size + 4), line, size, weight=620)
    if own is None or own.average is None:
        sheet.text(canvas.LEFT, 400, "Not ranked: it has no average yet", 40, ink=canvas.INK_2)
    else:
        _draw_standing(sheet, own, own.average)
    return sheet.png()


def _draw_standing(sheet: canvas.Canvas, own: Place, average: Score) -> None:
    """The average large, and its place among those of all models."""
    sheet.text(canvas.LEFT - 6, 432, percent(average.value), 150, weight=650)
    sheet.text(canvas.LEFT, 487, f"{bounds_in(average, 'acc')} average", 26, ink=canvas.INK_3)
    left = canvas.LEFT + 362
    width = canvas.RIGHT - left
    if own.rank:
        end = sheet.text(left, 292, "Rank", 26, ink=canvas.INK_2)
        end = sheet.text(end + 8, 292, f"{own.rank:,}", 26, weight=650)
        among = f", between {own.low:,} and {own.high:,}"
        span = f", range {own.span}" if own.cut else among
        sheet.text(end, 292, f"{span} of {own.board.ranked:,}", 26, ink=canvas.INK_2)
    else:
        sheet.text(left, 292, "Not ranked", 26, ink=canvas.INK_2)
    field, top = field_of(own.board), 306
    bottom = top + BINS_BOTTOM
    for x, wide, high in field.bins(width):
        sheet.pen.rectangle([left + x, top + high, left + x + wide - 1, bottom], canvas.BIN)
    low, at, high = (
        left + field.x(bound, width) for bound in (average.low, average.value, average.high)
    )
    sheet.wash(low, top, max(high - low, 2), BINS_BOTTOM)
    sheet.pen.line([(at, top), (at, bottom - 12)], canvas.BRASS, 2)
    sheet.shape([(-6, 0), (6, 0), (6, 8), (0, 18), (-6, 8)], canvas.BRASS, x=at, y=bottom - 18)
    right = low > left + 90
    sheet.text(low - 6 if right else high + 6, top + 14, percent(average.value), 20, weight=620,
               right=right)  # fmt: skip
    sheet.pen.line([(left, bottom + 1), (canvas.RIGHT, bottom + 1)], canvas.AXIS, 1)
    sheet.text(left, bottom + 26, f"average {100 * field.low:g}", 20, ink=canvas.INK_3)
    for tick in field.ticks:
        x, text = left + field.x(tick, width), f"{100 * tick:g}"
        if left + 130 < x < canvas.RIGHT - 20:
            half = canvas.length(text, 20, 400) / 2
            sheet.text(x - half, bottom + 26, text, 20, ink=canvas.INK_3)
    if own.rank and own.board.ranked > 1:
        _draw_ranks(sheet, own, left, 458)


def _draw_ranks(sheet: canvas.Canvas, own: Place, left: float, y: int) -> None:
    """The ranks that are not excluded, from the last to the first."""
    width, ranked = canvas.RIGHT - left, own.board.ranked
    sheet.pen.line([(left, y), (canvas.RIGHT, y)], canvas.AXIS, 1)
    worst, best = (left + width * (1 - (rank - 1) / (ranked - 1)) for rank in (own.high, own.low))
    wide = max(best - worst, 6)
    start = min(worst, canvas.RIGHT - wide)
    sheet.tile(start, y - 6, wide, 12, canvas.BRASS, 2)
    beside = start > left + 130
    sheet.text(start - 8 if beside else start + wide + 8, y + 7, own.span, 20, weight=620,
               right=beside)  # fmt: skip
    sheet.text(left, y + 29, ordinal(ranked), 20, ink=canvas.INK_3)
    sheet.text(canvas.RIGHT, y + 29, "1st", 20, ink=canvas.INK_3, right=True)
