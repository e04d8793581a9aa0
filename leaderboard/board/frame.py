"""What stands around the board's table: facts, filters, the column picker, ways on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.template import engines
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board.decided import leads_of
from leaderboard.board.filters import NAMES
from leaderboard.board.health import warned
from leaderboard.board.table import MOST_STICKY, Table
from leaderboard.board.view import ADDED, AVERAGE, MODEL, SIZE, View
from leaderboard.board.wanted import (
    ALL_COLUMNS,
    CHANCE,
    CHOICES,
    COMPACT,
    HIDE,
    NORMAL,
    ONLY,
    RAW,
    TALL,
    YES_OR_NO,
    Wanted,
)
from leaderboard.models import Suite
from leaderboard.models.task import Style
from leaderboard.snapshot import OWN, published
from leaderboard.templatetags.figures import plural
from leaderboard.templatetags.marks import axis, bob, style_mark
from leaderboard.web import Address, page_links

_ORDERS = ("Average", "Model", "Size", "Day it came")
_ROWS = ((COMPACT, "Compact"), (NORMAL, "Normal"), (TALL, "Tall"))
_IN_FORM = ("suite", "style", "at", "q", "size", "score", "sort", "rows", *CHOICES, *YES_OR_NO)
"""What the filters' form has fields for; it carries the rest of the address along."""
_NOT_CARRIED = ("page", "at_model")


@dataclass(frozen=True)
class Days:
    """Which days a page can be seen as of; all in UTC."""

    shown: date | None
    """A past one; None for now."""
    first: date | None
    """Of the first snapshot."""
    before: date | None
    """The last with a snapshot before the one shown ..."""
    after: date | None
    """... and the first after it."""
    today: date


def days_of(suite: Suite, wanted: Wanted, first: date | None) -> Days:
    """`first` is the day of the first snapshot."""
    today = datetime.now(UTC).date()
    if wanted.moment is None:
        return Days(None, first, None, None, today)
    shown = (wanted.moment - timedelta(days=1)).date()
    days = published.days(suite, wanted.style)
    until = [day for day in days if day <= shown]
    after = [day for day in days if day > shown]
    before = until[1] if len(until) > 1 else None
    return Days(shown, first, before, after[-1] if after else None, today)


def as_it_stood(days: Days, page: Wanted | Address) -> dict[str, Any]:
    """What `web/as_it_stood.html` says of a past day, and where it leads."""
    return {
        "asked_at": days.shown,
        "now_url": page.url(at=""),
        "day_urls": [
            (day, page.url(at=day, page=1)) if day else None for day in (days.before, days.after)
        ],
    }


def style_label(style: str) -> str:
    return "Task’s own" if style == OWN else str(Style(style).label)


def context(
    view: View, table: Table, suite: Suite, suites: Sequence[Suite], first_day: date | None
) -> dict[str, Any]:
    """Everything that the page's template names.

    `suites`: all there are, the newest last; `first_day`: of the board's first snapshot.
    """
    board, wanted = view.board, view.wanted
    newest = {suite.name: suite for suite in suites}
    days = days_of(suite, wanted, first_day)
    return {
        "suite": suite,
        "other_suites": newest.values() if len(newest) > 1 else (),
        "newer": newest[suite.name] if newest[suite.name].version != suite.version else None,
        "days": days,
        **as_it_stood(days, wanted),
        "board": board,
        "view": view,
        "wanted": wanted,
        "table": table,
        "rendered": _table(view, table),
        "chosen_style": "" if wanted.style == OWN else style_label(wanted.style),
        "newer_url": wanted.url(suite=board.suite, at="", cols="", sort="average", page=1),
        "questions": sum(column.n or 0 for column in board.columns),
        "unranked": len(board.models) - board.ranked,
        "styles": [
            (key, style_label(key), key == wanted.style)
            for key in dict.fromkeys((OWN, *board.styles, wanted.style))
        ],
        "menus": [
            (name, NAMES[name], view.options[name], _chosen(view, name))
            for name in CHOICES
            if len(view.options[name]) > 1 or getattr(wanted, name)
        ],
        "switches": [(name, NAMES[name], getattr(wanted, name)) for name in YES_OR_NO],
        "switched": sum(bool(getattr(wanted, name)) for name in YES_OR_NO),
        "yes_or_no": (("", "Shown"), (ONLY, "Only these"), (HIDE, "Hidden")),
        "scales": [
            ("" if (scale == CHANCE) == board.by_chance else scale, label, scale == view.scale)
            for scale, label in ((RAW, "Raw"), (CHANCE, "From chance"))
        ],
        "heights": [(key, label, key == wanted.rows) for key, label in _ROWS],
        "orders": mark_safe(_choices().orders(_orders(view))),  # noqa: S308 the template escapes
        "size": wanted.size.partition("-")[::2],
        "sizes": [size / 10**9 for size in view.sizes],
        "size_hints": [_roughly(size / 10**9) for size in view.sizes],
        "usual": urlencode(vars(Wanted())),
        "carried": _carried(wanted, {*_IN_FORM, *_NOT_CARRIED}),
        "picker": _picker(view),
        "downloads": [
            (label, wanted.url(to=f"board-{label.lower()}")) for label in ("CSV", "JSON", "Parquet")
        ],
        "compared_on": [
            (name, getattr(wanted, name))
            for name in ("suite", "style", "at")
            if getattr(wanted, name) != getattr(Wanted(), name)
        ],
        "suites_own_url": wanted.url(cols="", score="", page=1),
        "specimen": _specimen(view, table),
        "this_view": wanted.url(
            suite=f"{board.suite}@{board.version}", at=wanted.at or f"{board.built:%Y-%m-%d}"
        ),
        "all_columns_url": wanted.url(cols=ALL_COLUMNS),
        "fewer_columns_url": wanted.url(cols=""),
        "clear_url": wanted.url(**dict.fromkeys(("q", "size", *CHOICES, *YES_OR_NO), ""), page=1),
        "pages": page_links(view.page, view.pages, wanted.but(at_model="")),
        "ticked_elsewhere": _ticked_elsewhere(view),
        "leads": leads_of(view),
        # What is known now says nothing of a past day's board.
        "warned": [] if wanted.moment else warned(table.columns),
        "disputed": [head for head in table.columns if head.disputed],
        "cut": bool(board.ranks.cut_low.any() or board.ranks.cut_high.any()),
        "sources": {
            head.column.title: head.column.people_source
            for head in table.columns
            if head.column and head.column.people is not None
        },
    }


def _specimen(view: View, table: Table) -> dict[str, str]:
    """Where the first row's average and its bounds stand on the scale beside the title."""
    if table.specimen_line is None:
        return {}
    row, average = table.specimen_line.row, view.average
    sides = {"low": average.low, "value": average.value, "high": average.high}
    return {name: f"{table.specimen.x(float(side[row])):.2f}" for name, side in sides.items()}


def _chosen(view: View, name: str) -> str:
    """What a menu has chosen, in short."""
    chosen = [option.label for option in view.options[name] if option.chosen]
    return ", ".join(chosen) or "All"


def _orders(view: View) -> list[tuple[str, str, bool]]:
    """Everything to sort by, for those who see no column heads."""
    titles = [column.title for column in view.board.columns]
    orders = dict(zip([AVERAGE, MODEL, SIZE, ADDED, *view.keys], [*_ORDERS, *titles], strict=True))
    current = view.wanted.sort
    if current.startswith("-"):
        orders[current] = f"{orders[view.sort_key]}, the other way round"
    return [(key, label, key == current) for key, label in orders.items()]


def _roughly(size: float) -> str:
    """A size as a hint: 411.7839 is 410, 0.1282 is 0.1."""
    return f"{float(f'{size:.1g}' if size < 1 else f'{size:.2g}'):.15g}"


def _carried(wanted: Wanted, without: set[str]) -> list[tuple[str, str]]:
    """Fields of the address that a form passes on unseen."""
    values = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    default = Wanted()
    return [
        (name, value)
        for name, value in values.items()
        if name not in without and value != getattr(default, name)
    ]


def _picker(view: View) -> dict[str, Any]:
    shown = set(view.columns)
    columns = enumerate(zip(view.keys, view.board.columns, strict=True))
    boxes = [(key, column, place in shown) for place, (key, column) in columns]
    return {
        "columns": mark_safe(_choices().columns(boxes, style_mark)),  # noqa: S308 it escapes
        "carried": _carried(view.wanted, {"cols", *_NOT_CARRIED}),
    }


def _ticked_elsewhere(view: View) -> list[tuple[int, str, str]]:
    """Models that are ticked and not on this page: variant, name, and the address without it."""
    here = {*view.page_rows, *view.pins}
    ticked = [view.board.models[row] for row in view.ticked]
    return [
        (
            model.variant,
            model.repo_id,
            view.wanted.url(m=",".join(str(o.variant) for o in ticked if o is not model)),
        )
        for row, model in zip(view.ticked, ticked, strict=True)
        if row not in here
    ]


def _table(view: View, table: Table) -> SafeString:
    """The whole <table> element, by Jinja2 as all that has a part for each column or cell."""
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


def _choices() -> Any:
    """The macros for what has an entry for each column: Django's own templates take too long."""
    found: Any = engines["jinja2"].get_template("board/choices.jinja")
    return found.template.module
