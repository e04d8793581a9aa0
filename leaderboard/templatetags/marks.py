"""Small drawings and marks: model IDs, style shapes, whiskers. Text beside them says it all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from leaderboard.models import HubModel
from leaderboard.models.task import Style
from leaderboard.web import Scale, unseen

register = template.Library()


@register.simple_tag
def model_id(model: HubModel) -> SafeString:
    """A model's ID with its owner set back and a place to break the line."""
    if not model.name:
        return format_html('<span class="nm">{}</span>', model.repo_id)
    return format_html(
        '<span class="org">{}/</span><wbr><span class="nm">{}</span>', model.owner, model.name
    )


@register.simple_tag
@cache
def style_mark(style: str, hidden: bool = False) -> SafeString:
    """A prompt style as shape and word; with `hidden` the word is for screen readers only."""
    label: Any = Style(style).label
    if hidden:
        label = format_html('<span class="sr">{}, </span>', label)
    return format_html('<span class="sty {}">{}</span>', style, label)


@register.simple_tag
def scored(text: str) -> SafeString:
    """A text whose likelihood was scored; the spaces that it begins with are made visible."""
    rest = text.lstrip(" ")
    if rest == text:
        return format_html("{}", text)
    return format_html('<span class="sp">{}</span>{}', "␣" * (len(text) - len(rest)), rest)


@register.simple_tag
def all_scored(texts: Sequence[str]) -> SafeString:
    return format_html_join(" | ", "{}", ((scored(text),) for text in texts))


@register.simple_tag
def whisker(number: Any, scale: Scale, chance: float | None = None, style: str = "") -> SafeString:
    """Interval and estimate on the column's scale, with the plumb line at chance."""
    left, right = scale.x(number.low), scale.x(number.high)
    return format_html(
        '<svg class="w {}" aria-hidden="true">{}<rect class="i" x="{}%" width="{}%" height="2"/>'
        '<rect class="p" x="{}%" width="2" height="8"/></svg>',
        style,
        plumb_line(chance, scale, 2),
        f"{left:.2f}",
        f"{right - left:.2f}",
        f"{scale.x(number.value):.2f}",
    )


def plumb_line(chance: float | None, scale: Scale, decimals: int = 1) -> SafeString:
    """The plumb line of a cell, at chance; those of a column join into one."""
    if chance is None:
        return mark_safe("")
    place = f"{scale.x(chance):.{decimals}f}"
    return format_html('<line class="c" x1="{0}%" x2="{0}%" y2="101%"/>', place)


_MARKS = {" ": "·", "\t": "→\t", "\n": "↵\n", "\r": "␍"}
# White space of every kind, and characters that show nothing at all.
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


@register.simple_tag
def sent(text: str, spaces: str = "", searched: str = "") -> SafeString:
    """The text itself, with the words that were searched for marked in it.

    With `spaces` each character that cannot be seen has a mark in its place.
    """
    if not searched.strip():
        return _shown_text(text, spaces)
    words = re.compile(r"(" + r"\s+".join(map(re.escape, searched.split())) + ")", re.IGNORECASE)
    return _joined(
        format_html('<mark class="hit">{}</mark>', _shown_text(piece, spaces))
        if place % 2
        else _shown_text(piece, spaces)
        for place, piece in enumerate(words.split(text))
    )


def _shown_text(text: str, spaces: str) -> SafeString:
    if not spaces:
        return escape(text)
    unseen = [_marked(character) for character in _UNSEEN.findall(text)]
    seen = [escape(piece) for piece in _UNSEEN.split(text)]
    return _joined(piece for pair in zip(seen, [*unseen, ""], strict=True) for piece in pair)


def _marked(character: str) -> SafeString:
    mark = _MARKS.get(character) or unseen.mark(character)
    return format_html('<span class="ws">{}</span>', mark)


def _joined(pieces: Iterable[str]) -> SafeString:
    return mark_safe("".join(pieces))  # noqa: S308 each piece is escaped
