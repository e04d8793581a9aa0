"""The table of what waits, as HTML: by Jinja2, since it has hundreds of cells and is made anew with
every change of a run's state."""

from __future__ import annotations

from collections.abc import Sequence

from django.template import engines
from django.template.defaultfilters import truncatechars
from django.utils.safestring import SafeString, mark_safe

from leaderboard.models.run import run_url
from leaderboard.queue.estimate import Plan
from leaderboard.queue.turns import Line
from leaderboard.templatetags.figures import count, duration, parameters, plural, utc
from leaderboard.templatetags.marks import model_id, style_mark
from leaderboard.templatetags.runs import starts, takes

SAID_BY = {
    said.__name__: said
    for said in (
        *(count, duration, model_id, parameters, plural, run_url, starts, style_mark, takes),
        *(truncatechars, utc),
    )
}
"""What Django's own templates know as filters and tags."""


def waiting(lines: Sequence[Line], plan: Plan) -> SafeString:
    """The whole <table>; empty where nothing waits."""
    if not lines:
        return SafeString()
    template = engines["jinja2"].get_template("queue/waiting_table.jinja")
    html = template.render({**SAID_BY, "lines": lines, "n_workers": len(plan.workers)})
    return mark_safe(html)  # noqa: S308 the template escapes what it is given
