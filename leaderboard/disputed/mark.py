"""A second figure as pages write it: small, below the first, and never without saying so."""

from __future__ import annotations

from django.utils.safestring import SafeString, mark_safe

from leaderboard.disputed.second import Second
from leaderboard.templatetags.figures import bounds_in, exactly, in_unit, plural


def mark(second: Second, metric: str) -> SafeString:
    """“w/o 3: 71.2 69.6–72.8”; read aloud and pointed at, it says of what it is without."""
    words = f"without {plural(second.removed, 'disputed question')}"
    value, ends = in_unit(second.score.value, metric), bounds_in(second.score, metric)
    return mark_safe(  # noqa: S308 numbers of our own
        f'<span class="second" title="{words}: {exactly(second.score)}">'
        f'<span class="sr">{words}: </span>'
        f'<span aria-hidden="true">w/o {second.removed:,}: </span>{value} {ends}</span>'
    )
