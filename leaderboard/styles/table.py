"""The table of styles for its template: one benchmark's styles side by side, with what they make.

For each benchmark its scores, drawn as the board draws them; the paired difference of the two
compared styles; the spread over all of them; and the best of them, which is derived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.template import engines
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from numpy.typing import NDArray

from leaderboard.board import by_row, cells_by_column, facets_of, search, view_of
from leaderboard.models.task import Style
from leaderboard.snapshot import Model, Score
from leaderboard.styles.view import MODEL, Group, View, wanted
from leaderboard.templatetags.design import monogram, style_sign
from leaderboard.templatetags.figures import ends, exactly, parameters, percent, points, precise

HERE = "\0"
"""Stands for a variant in an address that is made once for all rows."""
Rows = NDArray[np.intp]


class Head(NamedTuple):
    """A column's head; `sort_url` is empty for one that nothing is sorted by."""

    key: str
    label: str
    style: str
    note: str
    sort_url: str
    aria_sort: str


@dataclass(frozen=True)
class GroupHead:
    """A benchmark over its columns."""

    title: str
    facts: str
    span: int
    scores: list[Head]
    change: Head | None
    spread: Head
    best: Head


@dataclass(frozen=True)
class Line:
    """One model."""

    sign: SafeString
    owner: str
    name: str
    url: str
    facts: str
    flag: str
    split_url: str
    chosen: bool
    cells: SafeString
    """All of the row, as HTML."""


def render(view: View) -> SafeString:
    """The whole <table> element, by Jinja2: Django's templates are too slow for its cells."""
    heads = [_group_head(view, group) for group in view.groups]
    scores = [head for group in heads for head in (*group.scores, group.change, group.spread)]
    by_key = {head.key: head for head in [*scores, _model_head(view)] if head}
    sorted_by = by_key[view.sort_key]
    template = engines["jinja2"].get_template("styles/cells_table.jinja")
    html = template.render(
        {
            "board": view.board,
            "model": _model_head(view),
            "groups": heads,
            "lines": _lines(view),
            "sorted_by": f"{sorted_by.label} {view.sort_key.partition('.')[0]}",
            "ascending": view.ascending,
            "style_sign": style_sign,
        }
    )
    return mark_safe(html)  # noqa: S308 the template escapes


def compared(view: View) -> str:
    """The two styles as a difference, in words."""
    return f"{Style(view.first).label} − {Style(view.second).label}"


# Heads


def _model_head(view: View) -> Head:
    return _head(view, MODEL, "Model")


def _head(view: View, key: str, label: str, style: str = "", note: str = "") -> Head:
    # The first click sorts the usual way, the next one turns it round.
    current = view.sort_key == key
    usual = current and view.ascending == (key == MODEL)
    url = view.address.url("table", sort=f"-{key}" if usual else key, page=1)
    order = "ascending" if view.ascending else "descending"
    return Head(key, label, style, note, url, order if current else "")


def _group_head(view: View, group: Group) -> GroupHead:
    columns = [view.board.columns[place] for place in group.places]
    scores = [
        _head(view, group.key(column.style), str(Style(column.style).label), column.style,
              f"{column.shots}-shot" + (f" × {column.draws} draws" if column.draws > 1 else ""))
        for column in columns
    ]  # fmt: skip
    change = None
    if group.change is not None:
        change = _head(view, group.key("change"), compared(view), note="same questions")
    return GroupHead(
        title=group.title,
        facts=_facts_of_benchmark(columns[0].n, columns[0].chance),
        span=len(scores) + 2 + (change is not None),
        scores=scores,
        change=change,
        spread=_head(view, group.key("spread"), "Spread", note="lowest – highest"),
        best=Head(group.key("best"), "Best of styles", "", "derived, never ranked", "", ""),
    )


def _facts_of_benchmark(n: int | None, chance: float | None) -> str:
    facts = [] if n is None else [f"{n:,} questions"]
    facts += [] if chance is None else [f"guessing scores {percent(chance)}"]
    return ", ".join(facts)


# Rows and cells


def _lines(view: View) -> Iterator[Line]:
    board, rows = view.board, view.page_rows
    cells = by_row(_cells_by_column(view), len(rows))
    model_url = reverse("model", args=["x"]).removesuffix("x")
    split_url = view.address.url("split", model=HERE)
    several = facets_of(board).several(rows)
    listed = board.models.take(rows)
    for row, model, one_of_several, of_row in zip(rows, listed, several, cells, strict=True):
        owner, _, name = model.repo_id.rpartition("/")
        yield Line(
            sign=monogram(owner or model.repo_id),
            owner=owner,
            name=name,
            url=model_url + model.repo_id,
            facts=facts_of(model, several=one_of_several),
            flag=model.flag_reason,
            split_url=split_url.replace("%00", str(model.variant)),
            chosen=row == view.chosen,
            cells=of_row,
        )


def facts_of(model: Model, *, several: bool) -> str:
    facts = [parameters(model.parameters), search.precision_of(model)]
    return " · ".join([*facts, f"@{model.commit[:7]}"] if several else facts)


def _cells_by_column(view: View) -> list[list[str]]:
    """Of every benchmark the scores as the board has them, and what is made of them."""
    places = [place for group in view.groups for place in group.places]
    on_board = view_of(view.board, wanted(view.address))
    scores, _ = cells_by_column(on_board, places, view.page_rows, {})
    of_place = dict(zip(places, scores, strict=True))
    chosen = np.array(view.page_rows, np.intp)
    columns: list[list[str]] = []
    for group in view.groups:
        columns += [of_place[place] for place in group.places]
        if group.change is not None:
            columns.append(list(_differences(group, chosen)))
        columns += [list(_spreads(view, group, chosen)), list(_bests(view, group, chosen))]
    return columns


def _cell(kind: str, value: str, below: str, title: str = "") -> str:
    """A derived number over what it ranges over, or a dash over the reason why there is none."""
    if not value:
        return (
            f'<td role="cell" class="n {kind} none"><span class="na"><b aria-hidden="true">—</b>'
            f'<span class="iv">{below}</span></span></td>'
        )
    about = f' title="{title}"' if title else ""
    return (
        f'<td role="cell" class="n {kind}"><span class="na"{about}><b>{value}</b>'
        f'<span class="iv">{below}</span></span></td>'
    )


def _differences(group: Group, rows: Rows) -> Iterator[str]:
    """The first style less the second; bold where the interval misses zero."""
    if group.change is None:
        return
    chosen = group.change.difference.rows(rows)
    sides = (side.tolist() for side in chosen.sides)
    for value, low, high, paired in zip(*sides, group.change.paired[rows].tolist(), strict=True):
        if value != value:  # NaN: one of the scores is missing
            yield _cell("gap", "", "one is missing")
            continue
        clear = " clear" if low > 0 or high < 0 else ""
        bounds = ends(percent(low), percent(high))
        below = bounds if paired else f"{bounds}, unpaired"
        yield _cell(f"gap{clear}", points(value), below, exactly(Score(value, low, high)))


def _spreads(view: View, group: Group, rows: Rows) -> Iterator[str]:
    sides = (group.spreads.lowest, group.spreads.median, group.spreads.highest)
    for low, middle, high in zip(*(side[rows].tolist() for side in sides), strict=True):
        if low != low:
            yield _cell("spread", "", "a style is missing")
            continue
        title = f"lowest {precise(low)}, median {precise(middle)}, highest {precise(high)}"
        below = ends(percent(low), percent(high))
        yield _cell("spread", percent(high - low), below, "" if view.wide else title)


def _bests(view: View, group: Group, rows: Rows) -> Iterator[str]:
    """The largest of the styles, with the style's shape; of an interval of its own kind."""
    sides = (side.tolist() for side in group.best.score.rows(rows).sides)
    complete = (~np.isnan(group.spreads.lowest[rows])).tolist()
    places = group.best.column[rows].tolist()
    for value, low, high, place, all_there in zip(*sides, places, complete, strict=True):
        if value != value:
            yield _cell("won", "", "not by question" if all_there else "a style is missing")
            continue
        style = view.board.columns[place].style
        sign = f'{style_sign(style)}<span class="sr">{Style(style).label} </span>'
        title = "" if view.wide else exactly(Score(value, low, high))
        yield _cell("won", f"{sign}{percent(value)}", ends(percent(low), percent(high)), title)
