"""What of the board has a part for each column or cell, as HTML.

By Jinja2, since Django's own templates are too slow for so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.template import engines
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board.table import MOST_STICKY, Table
from leaderboard.board.view import View
from leaderboard.snapshot.data import Column
from leaderboard.templatetags.figures import plural
from leaderboard.templatetags.marks import axis, bob, style_mark


def table(view: View, table: Table) -> SafeString:
    """The whole <table> element."""
    heads = [table.average, table.model, table.size, *table.columns]
    template = engines["jinja2"].get_template("board/table.jinja")
    html = template.render(
        {
            "view": view,
            "board": view.board,
            "table": table,
            "sorted_by": next((h.label for h in heads if h.key == view.sort_key), view.sort_key),
            "width": len(table.columns) + 4,
            "average_plumb": table.average.plumb,
            "most_sticky": MOST_STICKY,
            "plural": plural,
            "axis": axis,
            "bob": bob,
            "style_mark": style_mark,
        }
    )
    return mark_safe(html)  # noqa: S308 the template escapes


def picker(columns: Sequence[tuple[str, Column, bool]]) -> SafeString:
    """A box to tick for each column: its key, itself, and whether it is shown."""
    html: str = _macros("board/choices.jinja").columns(columns, style_mark)
    return mark_safe(html)  # noqa: S308 the template escapes


def orders(choices: Sequence[tuple[str, str, bool]]) -> SafeString:
    """The options to sort by: key, label, and whether it is chosen."""
    html: str = _macros("board/choices.jinja").orders(choices)
    return mark_safe(html)  # noqa: S308 the template escapes


def _macros(template: str) -> Any:
    found: Any = engines["jinja2"].get_template(template)
    return found.template.module
