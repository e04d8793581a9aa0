"""How numbers, sizes and times are written, the same on every page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from math import floor, log10

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from evalcore.lengths import Lengths
from leaderboard.models.task import is_share
from leaderboard.web import Span

register = template.Library()

MINUS = "−"
LOPSIDED = 0.75
"""Where the shorter side of an interval is less than this part of the longer one, "±" would say
something that is not so: 100.0 ± 1.6 would go on beyond 100."""
SMALLEST_SHOWN = 0.0005
"""Half of an interval that would be written as ±0.0."""


@register.filter
def percent(value: float | None) -> str:
    """A fraction as percent with one decimal."""
    return "" if value is None else f"{100 * value:.1f}".replace("-", MINUS)


@register.filter
def points(value: float) -> str:
    """A difference of fractions in percentage points, always with its sign."""
    return f"{100 * value:+.1f}".replace("-", MINUS)


@register.filter
def whole_points(value: float) -> str:
    """A round difference of fractions in percentage points, as an axis has it."""
    return f"{100 * value:+g}".replace("-", MINUS)


@register.filter
def decimals(value: float, places: int = 2) -> str:
    """Never −0.00: what is added to a rounded number makes a zero of minus zero."""
    return f"{round(value, places) + 0.0:,.{places}f}".replace("-", MINUS)


def two_figures(value: float) -> str:
    """A positive number to two figures, or all of those before the point: 0.012, 3.4, 1,250."""
    return f"{value:,.{max(0, 1 - floor(log10(value)))}f}"


NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905


def about_points(value: float) -> str:
    """A positive difference of fractions in words: "about three points"."""
    whole = round(100 * value)
    if whole < 2:
        return "less than a point" if value < 0.0075 else "about one point"
    return f"about {NUMBERS[whole] if whole < len(NUMBERS) else whole} points"


@register.filter
def margin(number: object) -> str:
    """A 95 % interval beside its share: "±1.6" points, or both ends where it is lopsided."""
    return _margin(number, percent, half_in_points)


def half_in_points(half: float) -> str:
    """Half of an interval of shares, as it stands behind a "±"."""
    return "<0.1" if 0 < half < SMALLEST_SHOWN else f"{100 * half:.1f}"


def _margin(
    number: object, written: Callable[[float], str], half_written: Callable[[float], str]
) -> str:
    value, low, high = (getattr(number, name) for name in ("value", "low", "high"))
    shorter, longer = sorted((high - value, value - low))
    if shorter < LOPSIDED * longer and longer >= SMALLEST_SHOWN:
        return ends(written(low), written(high))
    return f"±{half_written(longer)}"


def ends(low: str, high: str) -> str:
    """From one number to another, in the shortest words that cannot be misread."""
    return f"{low} to {high}" if MINUS in low + high else f"{low}–{high}"


@register.filter
def shown(number: object, metric: str) -> str:
    """The value in its metric's unit: percent, or as it is."""
    return in_unit(getattr(number, "value"), metric)  # noqa: B009


@register.filter
def in_unit(value: float | None, metric: str) -> str:
    """A bare value in its metric's unit; nothing for none."""
    if value is None:
        return ""
    return percent(value) if is_share(metric) else f"{value:,.3f}"


@register.filter
def margin_in(number: object, metric: str) -> str:
    """As `margin`, in the metric's unit."""
    if is_share(metric):
        return margin(number)
    return _margin(number, decimals_of, lambda half: f"{half:,.3f}")


def decimals_of(value: float) -> str:
    """A number that is no share."""
    return decimals(value, 3)


@register.filter
def bounds(number: object, metric: str) -> str:
    """Both ends of the 95 % interval in the metric's unit."""
    low, high = (in_unit(getattr(number, end), metric) for end in ("low", "high"))
    return f"{low} to {high}"


@register.filter
def bounds_in(number: object, metric: str) -> str:
    """The ends of a 95 % interval as they stand below a value: "82.2–84.0"."""
    return ends(*(in_unit(getattr(number, end), metric) for end in ("low", "high")))


@register.filter
def unit(metric: str) -> str:
    return "percent" if is_share(metric) else ""


@register.filter
def precise(value: float) -> str:
    """For those who hover: six figures, more than any interval resolves. Files have all of them."""
    return f"{value:.6g}"


def precise_interval(value: float, low: float, high: float) -> str:
    return f"{precise(value)}, 95% interval {precise(low)} to {precise(high)}"


@register.filter
def exactly(number: object) -> str:
    """The number with its interval, and what was cut short, for those who hover."""
    value, low, high = (getattr(number, name) for name in ("value", "low", "high"))
    counts: Lengths | None = getattr(number, "lengths", None)
    told = f"; {counts.told}" if counts and counts.told else ""
    return f"{precise_interval(value, low, high)}{told}"


@register.filter
def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


@register.filter
def count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


@register.filter
def parameters(value: int) -> str:
    """A parameter count to three figures: 7.24B, 410M, 0.41M."""
    for size, letter in ((10**9, "B"), (10**6, "M")):
        if value >= size or letter == "M":
            return f"{value / size:.3g}{letter}"
    raise AssertionError("millions are the smallest unit")


@register.filter
def filesize(value: int) -> str:
    """Bytes in powers of 1000, as disks and downloads are counted."""
    if value < 1000:
        return f"{value} B"
    size = float(value)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size / 1000:.3g} TB"


def _moment(at: datetime, attribute: str, words: str) -> SafeString:
    """A moment in words of UTC; `times.js` writes it anew as the attribute says."""
    opening = f'<time datetime="{{}}" {attribute}>'
    return format_html(opening + "{}</time>", at.isoformat(timespec="seconds"), words)


def _to_the_minute(at: datetime) -> str:
    return f"{day_of(at)} {at:%H:%M} UTC"


@register.filter
def utc(at: datetime | None) -> SafeString | str:
    """A moment in UTC, to the minute; `times.js` writes it in the reader's own zone."""
    if at is None:
        return ""
    at = at.astimezone(UTC)
    return _moment(at, 'data-local="minute"', _to_the_minute(at))


@register.filter
def ago(at: datetime) -> SafeString:
    """A moment as the time since then; `times.js` counts it, and UTC stands here without it."""
    at = at.astimezone(UTC)
    return _moment(at, "data-ago", _to_the_minute(at))


@register.filter
def clock(at: datetime) -> SafeString:
    """A moment in UTC to the second, for what is refreshed."""
    at = at.astimezone(UTC)
    return _moment(at, 'data-local="second"', f"{at:%H:%M:%S} UTC")


@register.filter
def day(at: date) -> SafeString:
    """A day, in UTC where it is that of a moment: the same day for every reader."""
    if isinstance(at, datetime):
        at = at.astimezone(UTC)
    return format_html('<time datetime="{}">{}</time>', f"{at:%Y-%m-%d}", day_of(at))


def day_of(at: date) -> str:
    return f"{at.day} {at:%b %Y}"


@register.filter
def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


@register.filter
def short(digest: str) -> str:
    """The first twelve characters of a digest or commit."""
    return digest[:12]


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ... 11th, 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else ending}"


@register.filter
def plural(number: int, word: str) -> str:
    """`3|plural:"model"` is "3 models", `1|plural:"model"` is "1 model"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


MINUTE, HOUR, DAY = 60, 3600, 86_400


def span_of_days(days: float) -> str:
    """In its largest unit: "3 years", "9 months", "41 days"."""
    for length, unit in ((365.25, "years"), (30.44, "months"), (1, "days")):
        if days >= 2 * length:
            return f"{days / length:.0f} {unit}"
    return "a day"


@register.filter
def roughly(span: Span) -> str:
    """The middle of a span in words: “about 12 min”; the ends of a guess: “5 min to 3 h”."""
    if span.guessed and span.high >= MINUTE:
        low = _length(span.low)
        return f"up to {_length(span.high)}" if low == "0 min" else _between(span)
    if span.middle < 0.75 * MINUTE:
        return "under a minute"
    return f"about {_length(span.middle)}"


@register.filter
def usual_range(span: Span) -> str:
    """Both ends: “8 to 20 min”; nothing where they read alike."""
    if span.guessed and span.high >= MINUTE:
        return "a guess: too few such runs are known"
    return _between(span)


def _between(span: Span) -> str:
    low, high = _length(span.low), _length(span.high)
    if low == high:
        return ""
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") and " " in low else f"{low} to {high}"


def _length(seconds: float) -> str:
    """To two figures at most: nobody can know more."""
    if seconds < 0.5 * MINUTE:
        return "0 min"
    minutes = max(round(seconds / MINUTE), 1)
    if minutes >= 20:
        minutes = 5 * round(minutes / 5)
    if minutes < 100:
        return f"{minutes} min"
    if seconds < 36 * HOUR:
        return f"{round(seconds / HOUR)} h"
    return f"{round(seconds / DAY)} days"
