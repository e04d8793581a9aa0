"""Text as it was sent to a model, with its white space made visible where that is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_MARKS = {" ": "·", "\t": "→\t", "\n": "↵\n", "\r": "␍"}
# White space of every kind, and characters that show nothing at all.
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")


@register.simple_tag
def sent(text: str, spaces: str = "", searched: str = "") -> SafeString:
    """The text itself, with the words that were searched for marked in it.

    With `spaces` each character that cannot be seen has a mark in its place.
    """
    if not searched.strip():
        return _shown(text, spaces)
    words = re.compile(r"(" + r"\s+".join(map(re.escape, searched.split())) + ")", re.IGNORECASE)
    return _joined(
        format_html('<mark class="hit">{}</mark>', _shown(piece, spaces))
        if place % 2
        else _shown(piece, spaces)
        for place, piece in enumerate(words.split(text))
    )


def _shown(text: str, spaces: str) -> SafeString:
    if not spaces:
        return escape(text)
    unseen = [_marked(character) for character in _UNSEEN.findall(text)]
    seen = [escape(piece) for piece in _UNSEEN.split(text)]
    return _joined(piece for pair in zip(seen, [*unseen, ""], strict=True) for piece in pair)


def _marked(character: str) -> SafeString:
    mark = _MARKS.get(character) or f"[U+{ord(character):04X}]"
    return format_html('<span class="ws">{}</span>', mark)


def _joined(pieces: Iterable[str]) -> SafeString:
    return mark_safe("".join(pieces))  # noqa: S308 each piece is escaped
