"""A second figure as pages write it: small, below the first, and never without saying so."""

from __future__ import annotations

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from leaderboard.disputed.second import Second
from leaderboard.templatetags.figures import exactly, in_unit, margin_in, plural


def mark(second: Second, metric: str) -> SafeString:
    """“w/o 3: 71.2 ±1.6”; read aloud and pointed at, it says of what it is without."""
    words = f"without {plural(second.removed, 'disputed question')}"
    value, margin = in_unit(second.score.value, metric), margin_in(second.score, metric)
    return mark_safe(  # noqa: S308 numbers of our own
        f'<span class="second" title="{words}: {exactly(second.score)}">'
        f'<span class="sr">{words}: </span>'
        f'<span aria-hidden="true">w/o {second.removed:,}: </span>{value} {escape(margin)}</span>'
    )
