"""The small signs that rebuilt pages share: icons, monograms, style marks, numbers over ranges."""

from __future__ import annotations

from zlib import crc32

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from leaderboard.models.task import Style
from leaderboard.samples import Waffle
from leaderboard.templatetags.figures import bounds_in, in_unit

register = template.Library()

ICONS = {
    "check": "m2.5 8.4 3.4 3.4 7.6-8",
    "close": "m4 4 8 8M12 4l-8 8",
    "download": "M8 2v8M4.8 7 8 10.2 11.2 7M2.5 13.5h11",
    "filters": "M2 4h12M4.5 8h7M6.5 12h3",
    "plus": "M8 3v10M3 8h10",
    "recount": "M13.2 8a5.2 5.2 0 1 1-1.6-3.8M13.4 2v3h-3",
    "search": "M11.5 7a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0M10.4 10.4l3.4 3.4",
    "share": "M8 10V2M5 4.6 8 1.8l3 2.8M3 8.5v5h10v-5",
    "view": "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
}
MONOGRAM_COLOURS = 8
STYLE_MARKS = {"cloze": "c", "mmlu": "m", "hybrid": "h"}


@register.simple_tag
def icon(name: str) -> SafeString:
    """A line drawing beside a word that says the same."""
    return format_html(
        '<svg class="ico" viewBox="0 0 16 16" aria-hidden="true"><path d="{}"/></svg>', ICONS[name]
    )


def monogram_of(maker: str) -> tuple[str, int]:
    """The letters of a maker's monogram, and the number of its colour, from 1."""
    letters = "".join(letter for letter in maker if letter.isalnum())[:2].capitalize() or "?"
    return letters, crc32(maker.encode()) % MONOGRAM_COLOURS + 1


@register.simple_tag
def monogram(maker: str, size: str = "") -> SafeString:
    """Two letters of a maker's name on a colour that stays the maker's; `size` is "" or "big"."""
    letters, colour = monogram_of(maker)
    return format_html(
        '<span class="mk{} mk{}" aria-hidden="true">{}</span>',
        " big" if size == "big" else "",
        colour,
        letters,
    )


@register.simple_tag
def style_sign(style: str) -> SafeString:
    """A prompt style's shape in its colour; nothing for the mixture of all styles."""
    letter = STYLE_MARKS.get(style)
    if letter is None:
        return mark_safe("")
    return format_html('<span class="mark {}" aria-hidden="true"></span>', letter)


@register.filter
def style_letter(style: str) -> str:
    """What the classes of a style's colours end in."""
    return STYLE_MARKS[style]


@register.simple_tag
def style_point(style: str, x: float, y: float) -> SafeString:
    """A style's shape at a place of a picture."""
    letter = STYLE_MARKS[style]
    if letter == "c":
        return format_html('<circle class="f-c" cx="{}" cy="{}" r="5"/>', x, y)
    turn = f"rotate(45 {x} {y})" if letter == "h" else ""
    return format_html(
        '<rect class="f-{}" x="{}" y="{}" width="10" height="10" transform="{}"/>',
        letter,
        x - 5,
        y - 5,
        turn,
    )


@register.filter
def style_word(style: str) -> str:
    return str(Style(style).label)


@register.simple_tag
def number_over_range(number: object, metric: str = "acc") -> SafeString:
    """A value in its metric's unit over the ends of its 95 % interval."""
    return format_html(
        '<b>{}</b><span class="iv">{}</span>',
        in_unit(getattr(number, "value"), metric),  # noqa: B009
        bounds_in(number, metric),
    )


@register.simple_tag
def waffle(picture: Waffle, classes: str = "") -> SafeString:
    """The squares of a run's questions; what they mean is the picture's `caption`."""
    return format_html(
        '<svg class="waffle {}" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<path class="w" d="{}"/><path class="r" d="{}"/></svg>',
        classes,
        picture.width,
        picture.height,
        picture.label,
        picture.hollow,
        picture.filled,
    )


@register.simple_tag
def seal(good: bool) -> SafeString:
    """A tick in a circle, or a cross, beside a verdict in words."""
    path = "m2.5 6.4 2.4 2.4 4.6-5.2" if good else "m3.4 3.4 5.2 5.2M8.6 3.4 3.4 8.6"
    return format_html(
        '<span class="seal{}"><svg viewBox="0 0 12 12" aria-hidden="true">'
        '<path d="{}"/></svg></span>',
        "" if good else " bad",
        path,
    )
