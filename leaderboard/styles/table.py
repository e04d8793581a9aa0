"""The table of styles for its template: one benchmark's styles side by side, with what they make.

For each benchmark its scores on one scale, the paired difference of the two compared styles, the
spread over all of them, and the best of them, which is derived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from django.template import engines
from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board import facets_of, search
from leaderboard.models.task import Style
from leaderboard.snapshot import Model, Score, Scores
from leaderboard.styles.cells import (
    Cell,
    Drawn,
    Look,
    average_cells,
    cell_urls,
    column_cells,
    column_scale,
)
from leaderboard.styles.view import MODEL, Group, View, wanted
from leaderboard.templatetags.figures import exactly, margin, parameters, percent, points, precise
from leaderboard.templatetags.marks import axis, plumb_line, style_mark
from leaderboard.web import SCALE_STEP, Scale

UNDRAWN = Scale(0.0, 1.0)
HERE = "\0"
"""Stands for a variant in an address that is made once for all rows."""


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

    title: SafeString
    facts: str
    span: int
    scale: Scale
    plumb: SafeString
    """Chance, in each cell with a score."""
    scores: list[Head]
    change: Head | None
    spread: Head
    best: Head


class Difference(NamedTuple):
    """The compared styles' difference in one row, with its place beside zero."""

    text: str
    margin: str
    title: str
    paired: bool
    clear: bool
    """Whether the interval misses zero."""
    left: str
    width: str
    place: str


class Spread(NamedTuple):
    """How far the styles lie apart in one row."""

    text: str
    lowest: str
    highest: str
    title: str
    left: str
    width: str
    marks: list[tuple[str, str]]
    """Each style with its place on the benchmark's scale."""


class Best(NamedTuple):
    score: Cell
    style: SafeString


class Part(NamedTuple):
    """One benchmark in one row; None for what cannot be said."""

    scores: list[Cell]
    change: Difference | None
    spread: Spread | None
    best: Best | None


@dataclass(frozen=True)
class Line:
    """One model."""

    owner: str
    name: str
    url: str
    facts: str
    flag: str
    split_url: str
    chosen: bool
    parts: list[tuple[GroupHead, Part]]


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
            "lines": _lines(view, heads),
            "sorted_by": f"{sorted_by.label} {view.sort_key.partition('.')[0]}",
            "ascending": view.ascending,
            "pair": compared(view),
            "wide": view.wide,
            "zero": mark_safe('<line class="z" x1="50%" x2="50%" y2="101%"/>'),
            "axis": axis,
            "style_mark": style_mark,
        }
    )
    return mark_safe(html)  # noqa: S308 the template escapes


def compared(view: View) -> str:
    """The two styles as a difference, in words."""
    return f"{Style(view.first).label} − {Style(view.second).label}"


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
    chance = columns[0].chance
    scale = _scale(view, group)
    scores = [
        _head(view, group.key(column.style), str(Style(column.style).label), column.style,
              f"{column.shots}-shot" + (f" × {column.draws} draws" if column.draws > 1 else ""))
        for column in columns
    ]  # fmt: skip
    change = None
    if group.change is not None:
        change = _head(view, group.key("change"), compared(view), note="same questions")
    return GroupHead(
        title=conditional_escape(group.title),
        facts=_facts_of_benchmark(columns[0].n, chance),
        span=len(scores) + 2 + (change is not None),
        scale=scale,
        plumb=plumb_line(chance, scale),
        scores=scores,
        change=change,
        spread=_head(view, group.key("spread"), "Spread", note="lowest – highest"),
        best=Head(group.key("best"), "Best of styles", "", "derived, never ranked", "", ""),
    )


def _facts_of_benchmark(n: int | None, chance: float | None) -> str:
    facts = [] if n is None else [f"{n:,} questions"]
    facts += [] if chance is None else [f"chance {percent(chance)}"]
    return ", ".join(facts)


def _scale(view: View, group: Group) -> Scale:
    """One for all styles of a benchmark, from the whole board; nothing is drawn in a wide table."""
    if view.wide:
        return UNDRAWN
    columns = [view.board.columns[place] for place in group.places]
    scales = [
        column_scale(view.board.scores, place, column.metric, column.chance)
        for place, column in zip(group.places, columns, strict=True)
    ]
    low, high = min(scale.low for scale in scales), max(scale.high for scale in scales)
    make = Scale.around if scales[0].share else Scale.plain
    return make(low, high, start=6.0, end=94.0)


def _lines(view: View, heads: Sequence[GroupHead]) -> Iterator[Line]:
    board, rows = view.board, view.page_rows
    listed = list(board.models.take(rows))
    variants = [str(model.variant) for model in listed]
    # In a wide table to the board of the column's own style.
    lead_to = {
        one: cell_urls(wanted(view.address, one)) for one in {c.style for c in board.columns}
    }
    parts = [
        _parts(view, group, head, variants, lead_to)
        for group, head in zip(view.groups, heads, strict=True)
    ]
    model_url = reverse("model", args=["x"]).removesuffix("x")
    split_url = view.address.url("split", model=HERE)
    several = facets_of(board).several(rows)
    for row, model, one_of_several, *of_row in zip(rows, listed, several, *parts, strict=True):
        owner, _, name = model.repo_id.rpartition("/")
        yield Line(
            owner=owner,
            name=name,
            url=model_url + model.repo_id,
            facts=facts_of(model, several=one_of_several),
            flag=model.flag_reason,
            split_url=split_url.replace("%00", str(model.variant)),
            chosen=row == view.chosen,
            parts=list(zip(heads, of_row, strict=True)),
        )


def facts_of(model: Model, *, several: bool) -> str:
    facts = [parameters(model.parameters), search.precision_of(model)]
    return " · ".join([*facts, f"@{model.commit[:7]}"] if several else facts)


def _parts(
    view: View,
    group: Group,
    head: GroupHead,
    variants: Sequence[str],
    lead_to: Mapping[str, str],
) -> list[Part]:
    """The benchmark's cells for each row of the page; `lead_to` is by style."""
    drawn = [
        Drawn(place, group.benchmark, head.scale, lead_to[view.board.columns[place].style])
        for place in group.places
    ]
    look = Look(view.board.scores, view.page_rows, view.wide, variants)
    scores = [cells.one_by_one() for cells in column_cells(view.board, drawn, look)]
    chosen = np.array(view.page_rows, np.intp)
    best = average_cells(group.best.score, view.page_rows, head.scale)
    wins = [_mark(view, place) for place in group.best.column[chosen].tolist()]
    return [
        Part(
            scores=list(of_row),
            change=change,
            spread=spread,
            best=None if cell is None else Best(cell, win),
        )
        for of_row, change, spread, cell, win in zip(
            zip(*scores, strict=True),
            _differences(view, group, chosen),
            _spreads(view, group, head.scale, chosen),
            best,
            wins,
            strict=True,
        )
    ]


def _mark(view: View, place: int) -> SafeString:
    return mark_safe("") if place < 0 else style_mark(view.board.columns[place].style)


def _differences(view: View, group: Group, rows: np.ndarray) -> Iterator[Difference | None]:
    if group.change is None:
        yield from (None for _ in rows)
        return
    scale = UNDRAWN if view.wide else _around_zero(group.change.difference)
    chosen = group.change.difference.rows(rows)
    sides = (chosen.value.tolist(), chosen.low.tolist(), chosen.high.tolist())
    for value, low, high, paired in zip(*sides, group.change.paired[rows].tolist(), strict=True):
        if value != value:  # NaN: one of the scores is missing
            yield None
            continue
        number = Score(value, low, high)
        left, right = scale.x(low), scale.x(high)
        yield Difference(
            points(value),
            margin(number),
            exactly(number),
            paired,
            low > 0 or high < 0,
            f"{left:.1f}",
            f"{right - left:.1f}",
            f"{scale.x(value):.1f}",
        )


def _around_zero(difference: Scores) -> Scale:
    """One scale for the column, with zero in its middle."""
    bounds = np.concatenate([difference.low, difference.high])
    most = float(np.fmax.reduce(np.abs(bounds), initial=SCALE_STEP))
    most = ceil(round(most / SCALE_STEP, 9)) * SCALE_STEP
    return Scale(-most, most, 6.0, 94.0)


def _spreads(view: View, group: Group, scale: Scale, rows: np.ndarray) -> Iterator[Spread | None]:
    styles = [view.board.columns[place].style for place in group.places]
    values = view.board.scores.value[rows][:, group.places].tolist()
    sides = (group.spreads.lowest, group.spreads.median, group.spreads.highest)
    lowest, median, highest = (side[rows].tolist() for side in sides)
    for of_row, low, middle, high in zip(values, lowest, median, highest, strict=True):
        if low != low:
            yield None
            continue
        texts = f"{100 * (high - low):.1f}", percent(low), percent(high)
        if view.wide:
            yield Spread(*texts, "", "", "", [])
            continue
        left, right = scale.x(low), scale.x(high)
        yield Spread(
            *texts,
            f"lowest {precise(low)}, median {precise(middle)}, highest {precise(high)}",
            f"{left:.1f}",
            f"{right - left:.1f}",
            [(style, f"{scale.x(v):.1f}") for style, v in zip(styles, of_row, strict=True)],
        )
