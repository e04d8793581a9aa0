"""How expected lengths of time are written: roughly, and never without their range."""

from __future__ import annotations

from django import template

from leaderboard.web.span import Span

register = template.Library()

MINUTE, HOUR, DAY = 60, 3600, 86_400


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
