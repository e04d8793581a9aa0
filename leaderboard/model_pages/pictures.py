"""The pictures of a model's page as SVG: its field, its styles, its size; and its badge.

Numbers become places once, here; the share picture draws the same field with other coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from weakref import WeakKeyDictionary

import numpy as np
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from leaderboard.model_pages.standing import NEAR, Place, Position
from leaderboard.snapshot import Board, Score
from leaderboard.templatetags.design import STYLE_MARKS
from leaderboard.templatetags.figures import bounds_in, ordinal, parameters, percent
from leaderboard.web import length, shorten

STEPS = (0.0025, 0.005, 0.01, 0.02, 0.05)
"""Widths of a bin of averages; the first that makes few enough of them is taken."""
MAX_BINS = 40
TICK_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
MAX_TICKS = 5
BINS_TOP, BINS_BOTTOM = 24, 96
"""Pixels: where the highest bin ends, and where all of them stand."""


@dataclass(frozen=True)
class Field:
    """How the averages of a board's models spread: the same for each of its models."""

    low: float
    step: float
    counts: list[int]

    @property
    def high(self) -> float:
        return self.low + self.step * len(self.counts)

    def x(self, value: float, width: float) -> float:
        """Pixels from the left; what lies beyond the field stands at its end."""
        place = (value - self.low) / (self.high - self.low)
        return width * min(max(place, 0.0), 1.0)

    @property
    def ticks(self) -> list[float]:
        """Round averages within the field, from its first end."""
        span = self.high - self.low
        step = next((step for step in TICK_STEPS if span / step <= MAX_TICKS), TICK_STEPS[-1])
        first = ceil(round(self.low / step, 6))
        return [number * step for number in range(first, floor(round(self.high / step, 6)) + 1)]

    def bins(self, width: float) -> list[tuple[float, float, float]]:
        """Left edge, width and top of each bin that holds a model, in pixels."""
        each = width / len(self.counts)
        scale = (BINS_BOTTOM - BINS_TOP) / max(self.counts)
        return [
            (number * each + 0.5, each - 1.5, BINS_BOTTOM - scale * count)
            for number, count in enumerate(self.counts)
            if count
        ]


_fields: WeakKeyDictionary[Board, Field] = WeakKeyDictionary()
"""Kept as long as the board itself is."""


def field_of(board: Board) -> Field:
    """Of a board on which some model has an average."""
    if board not in _fields:
        averages = board.average.value[board.comparable]
        known = averages[~np.isnan(averages)]
        if not len(known):
            known = board.average.value[: board.averaged]
        ends = float(known.min()), float(known.max())
        step = next((s for s in STEPS if (ends[1] - ends[0]) / s < MAX_BINS - 2), STEPS[-1])
        low = (floor(round(ends[0] / step, 6)) - 1) * step
        bins = floor(round((ends[1] - low) / step, 6)) + 2
        counts, _ = np.histogram(known, bins=bins, range=(low, low + bins * step))
        _fields[board] = Field(low, step, counts.tolist())
    return _fields[board]


def field_picture(own: Place, width: int) -> SafeString:
    """The averages of all models as bins, this one's as the plumb line in its interval; below it
    the ranks that are not excluded. Nothing for a model without an average."""
    average = own.average
    if average is None:
        return _svg("")
    field = field_of(own.board)
    at = field.x(average.value, width)
    low, high = field.x(average.low, width), field.x(average.high, width)
    bins = "".join(
        f"M{x:.1f} {BINS_BOTTOM}V{top:.1f}h{wide:.1f}V{BINS_BOTTOM}z"
        for x, wide, top in field.bins(width)
    )
    left = low > 60
    value = (
        f'<text class="{"end " if left else ""}t-ink t-b" x="{low - 4 if left else high + 4:.1f}" '
        f'y="12">{percent(average.value)}</text>'
    )
    ticks = "".join(
        f'<text class="mid t-3 t-11" x="{x:.1f}" y="110">{100 * tick:g}</text>'
        for tick in field.ticks
        if 60 < (x := field.x(tick, width)) < width - 8
    )
    ticks += f'<text class="t-3 t-11" x="0" y="110">average {100 * field.low:g}</text>'
    return _svg(
        f'<svg class="field-pic" viewBox="0 0 {width} 150" role="img" '
        f'aria-label="{_field_words(own, average)}"><path class="bin" d="{bins}"/>'
        f'<rect class="zone" x="{low:.1f}" y="0" width="{max(high - low, 1):.1f}" height="96"/>'
        f'<path class="plumb" d="M{at:.1f} 0v84"/><path class="bob" d="M{at - 5:.1f} 82h10v7l-5 '
        f'9-5-9z"/><path class="axis" d="M0 96.5h{width}"/>{ticks}{value}{_ranks(own, width)}</svg>'
    )


def _field_words(own: Place, average: Score) -> str:
    averages = own.board.average.value[own.board.comparable]
    below = int((averages < average.value).sum())
    models = int((~np.isnan(averages)).sum())
    return (
        f"Averages of {models:,} models; this one at {percent(average.value)}, above {below:,} "
        f"of them"
    )


def _ranks(own: Place, width: int) -> str:
    """From the last rank to the first; nothing for a model without a rank or alone."""
    ranked = own.board.ranked
    if not own.rank or ranked < 2:
        return ""

    def x(rank: int) -> float:
        return width * (1 - (rank - 1) / (ranked - 1))

    left, right = x(own.high), x(own.low)
    wide = max(right - left, 5.0)
    left = min(left, width - wide)
    beside = left > 76
    return (
        f'<path class="axis" d="M0 132.5h{width}"/><rect class="rr" x="{left:.1f}" y="127" '
        f'width="{wide:.1f}" height="11" rx="2"/><text class="t-3 t-11" x="0" y="148">'
        f'{ordinal(ranked)}</text><text class="end t-3 t-11" x="{width}" y="148">1st</text>'
        f'<text class="{"end " if beside else ""}t-ink t-11 t-b halo-r" '
        f'x="{left - 6 if beside else left + wide + 6:.1f}" y="136.5">{escape(own.span)}</text>'
    )


def _ends(score: Score) -> tuple[float, float, float]:
    return score.low, score.value, score.high


STYLE_WIDTH = 170


@dataclass(frozen=True)
class StyleLine:
    """A style in which all of the suite is asked, with the average there and its picture."""

    place: Place
    picture: SafeString

    @property
    def bounds(self) -> str:
        return bounds_in(self.place.average, "acc")


def style_lines(styled: Sequence[Place]) -> list[StyleLine]:
    """The averages of one model in several styles, on one scale."""
    scores = [place.average for place in styled if place.average]
    if not scores:
        return []
    low = floor(min(score.low for score in scores) * 20) / 20
    high = ceil(max(score.high for score in scores) * 20) / 20
    every = 0.05 if high - low <= 0.3 else 0.1
    grid = [number * every for number in range(ceil(low / every), floor(high / every) + 1)]

    def x(value: float) -> float:
        return 3 + (STYLE_WIDTH - 6) * (value - low) / (high - low)

    lines = "".join(f'<path class="grid" d="M{x(mark):.1f} 0v28"/>' for mark in grid)
    return [
        StyleLine(place, _style_picture(place.style, lines, *map(x, _ends(score))))
        for place in styled
        if (score := place.average)
    ]


def _style_picture(style: str, grid: str, low: float, at: float, high: float) -> SafeString:
    letter = STYLE_MARKS.get(style, "")
    shape = {
        "c": f'<circle class="f-c" cx="{at:.1f}" cy="14" r="5.5"/>',
        "m": f'<rect class="f-m" x="{at - 5:.1f}" y="9" width="10" height="10"/>',
        "h": f'<path class="f-h" d="M{at:.1f} 7.5l6.5 6.5-6.5 6.5-6.5-6.5z"/>',
    }.get(letter, f'<rect class="pt" x="{at - 1.5:.1f}" y="6" width="3" height="16" rx="1"/>')
    return _svg(
        f'<svg viewBox="0 0 {STYLE_WIDTH} 28" aria-hidden="true">{grid}<rect '
        f'class="{f"s-{letter}" if letter else "span"}" x="{low:.1f}" y="10" '
        f'width="{high - low:.1f}" height="8" rx="3"/>{shape}</svg>'
    )


POSITION_WIDTH = 118


def position_picture(position: Position) -> SafeString:
    """A rank and its range from the last of the field to its first, and the field's middle."""
    low, high = position.bounds
    left, middle, right = (3 + (POSITION_WIDTH - 6) * share for share in (low, position.at, high))
    grid = "".join(f'<path class="grid" d="M{x} 0v32"/>' for x in (3, POSITION_WIDTH - 3))
    return _svg(
        f'<svg viewBox="0 0 {POSITION_WIDTH} 32" aria-hidden="true">{grid}<path class="axis" '
        f'd="M{POSITION_WIDTH / 2} 0v32"/><rect class="span" x="{left:.1f}" y="12" '
        f'width="{max(right - left, 2):.1f}" height="8" rx="3"/><rect class="pt" '
        f'x="{middle - 1.5:.1f}" y="9" width="3" height="14" rx="1"/></svg>'
    )


CHART_WIDTH, CHART_HEIGHT, CHART_LEFT = 640, 260, 36


@dataclass(frozen=True)
class _Dots:
    """Every model of a board as a dot, by parameters and average; the same for each of them."""

    path: str
    models: int
    sizes: tuple[float, float]
    """Decimal logarithms of the parameters at both ends of the axis."""
    averages: tuple[float, float]

    def x(self, size: float) -> float:
        low, high = self.sizes
        return CHART_LEFT + (CHART_WIDTH - CHART_LEFT) * (log10(size) - low) / (high - low)

    def y(self, average: float) -> float:
        low, high = self.averages
        return CHART_HEIGHT * (1 - min(max((average - low) / (high - low), 0.0), 1.0))


_dots: WeakKeyDictionary[Board, _Dots] = WeakKeyDictionary()


def _dots_of(board: Board) -> _Dots:
    """Dots that would lie on one another are drawn once, so that ten thousand are a small path."""
    if board not in _dots:
        drawn = board.comparable & ~np.isnan(board.average.value)
        sizes = np.log10(np.asarray(board.models.array("parameters"), np.float64)[drawn])
        averages, field = board.average.value[drawn], field_of(board)
        margin = max(0.04 * float(np.ptp(sizes)), 0.05)
        across = float(sizes.min()) - margin, float(sizes.max()) + margin
        dots = _Dots("", len(sizes), across, (field.low, field.high))
        width = CHART_WIDTH - CHART_LEFT
        x = np.rint(CHART_LEFT + width * (sizes - across[0]) / (across[1] - across[0])).astype(int)
        share = (averages - field.low) / (field.high - field.low)
        y = np.rint(CHART_HEIGHT * (1 - share)).astype(int)
        places = sorted(set(zip(x.tolist(), y.tolist(), strict=True)))
        path = "".join(f"M{left} {top}h0" for left, top in places)
        _dots[board] = _Dots(path, dots.models, dots.sizes, dots.averages)
    return _dots[board]


def size_picture(own: Place) -> SafeString:
    """Average against parameters of every model that may be ranked, and this one marked; nothing
    for a model without an average, and where it would stand alone."""
    average, members = own.average, own.board.comparable
    if average is None or int((members & ~np.isnan(own.board.average.value)).sum()) < 2:
        return _svg("")
    dots, size = _dots_of(own.board), own.board.models.value(own.row, "parameters")
    name = own.board.models.value(own.row, "repo_id").rpartition("/")[2]
    x, y = min(max(dots.x(size), CHART_LEFT), CHART_WIDTH), dots.y(average.value)
    left = x > 0.6 * CHART_WIDTH
    grid = "".join(
        f'<path class="grid" d="M{CHART_LEFT} {dots.y(tick):.1f}H{CHART_WIDTH}"/><text class="end '
        f't-3 t-11" x="{CHART_LEFT - 8}" y="{dots.y(tick) + 4:.1f}">{100 * tick:g}</text>'
        for tick in field_of(own.board).ticks
    )
    powers = [10**power * digit for power in range(5, 13) for digit in (1, 2, 5)]
    inside = [power for power in powers if dots.sizes[0] <= log10(power) <= dots.sizes[1]]
    tens = [power for power in inside if str(power)[0] == "1"]
    grid += "".join(
        f'<path class="grid" d="M{dots.x(tick):.1f} 0V{CHART_HEIGHT}"/><text class="mid t-3 t-11" '
        f'x="{dots.x(tick):.1f}" y="{CHART_HEIGHT + 18}">{parameters(tick)}</text>'
        for tick in (tens if len(tens) > 2 else inside)
    )
    near = _marks(dots.x(size / NEAR), dots.x(size * NEAR))
    return _svg(
        f'<svg class="size-pic" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT + 26}" role="img" '
        f'aria-label="Averages of {dots.models:,} models against their parameters; this one has '
        f'{parameters(size)} parameters and an average of {percent(average.value)}">{grid}{near}'
        f'<path class="dots" d="{dots.path}"/><path class="plumb" d="M{x:.1f} '
        f'{dots.y(average.high):.1f}V{dots.y(average.low):.1f}"/><circle class="me" cx="{x:.1f}" '
        f'cy="{y:.1f}" r="6"/><text class="{"end " if left else ""}t-ink t-b halo" '
        f'x="{x - 12 if left else x + 12:.1f}" y="{y - 8:.1f}">{escape(shorten(name, 34))}'
        "</text></svg>"
    )


def _marks(left: float, right: float) -> str:
    """Models of about its size lie between these."""
    low, high = max(left, CHART_LEFT), min(right, CHART_WIDTH)
    return f'<rect class="near" x="{low:.1f}" width="{high - low:.1f}" height="{CHART_HEIGHT}"/>'


BADGE_COLOURS = {
    "light": ("#ffffff", "#c9cac3", "#a97708", "#15181c", "#464c54"),
    "dark": ("#1c2126", "#434b54", "#dcb158", "#e9ebee", "#b7bec7"),
}
"""Ground, edge, brass, ink and lighter ink."""


def badge(label: str, value: str, rest: str, look: str) -> str:
    """A badge of 28 pixels' height as a whole SVG file: “rank **33** (25–41) of 944 · 83.1”.

    Each text says how long it is, so that another typeface changes no place.
    """
    ground, edge, brass, ink, ink_2 = BADGE_COLOURS[look]
    words = escape(" ".join(filter(None, ("Plumbline:", label, value, rest))))
    parts, x = [], 28.0
    for text, colour, weight in (
        ("Plumbline", ink, 600),
        (label, ink_2, 400),
        (value, ink, 600),
        (rest, ink_2, 400),
    ):
        if text:
            long = length(text, 12, weight)
            bold = ' font-weight="600"' if weight == 600 else ""
            parts.append(
                f'<text x="{x:.1f}" y="18.5" fill="{colour}"{bold} textLength="{long:.1f}" '
                f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
            )
            x += long + (9 if text == "Plumbline" else 4)
    width = round(x + 8)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="28" viewBox="0 0 {width} '
        f'28" role="img" aria-label="{words}"><title>{words}</title><rect x=".5" y=".5" '
        f'width="{width - 1}" height="27" rx="4" fill="{ground}" stroke="{edge}"/><path d="M15 '
        f'.5v9" stroke="{brass}" stroke-width="1.5"/><path d="M11 8h8v6l-4 8-4-8z" fill="{brass}"/>'
        f'<g font-family="Inter,Verdana,Geneva,sans-serif" font-size="12">{"".join(parts)}</g>'
        "</svg>\n"
    )


def _svg(markup: str) -> SafeString:
    return mark_safe(markup)  # noqa: S308 numbers of our own, and names that are escaped
