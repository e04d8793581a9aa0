"""The board's table for its template: heads with scale and sort link, bands of rows, baselines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import quote, quote_plus

import numpy as np
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board.cells import (
    Drawn,
    Look,
    average_cells,
    average_scale,
    cell_urls,
    column_cells,
    column_scale,
)
from leaderboard.board.cells import cells_html as written
from leaderboard.board.filters import FILTERS
from leaderboard.board.rows import HERE, Line, lines_of
from leaderboard.board.second import seconds_of, with_seconds
from leaderboard.board.view import AVERAGE, MODEL, SIZE, View
from leaderboard.board.wanted import CHANCE
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Column
from leaderboard.templatetags.figures import in_unit, percent
from leaderboard.templatetags.marks import plumb_line
from leaderboard.web import Scale

WIDE = 10
"""From more columns than this on, links and titles are short and the table scrolls in itself."""
MOST_STICKY = 3
"""More pinned rows than this do not stay in sight: they would leave no room for the others."""

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class Head:
    """A column's head: `aria_sort` is empty unless the table is sorted by this column."""

    key: str
    label: str
    sort_url: str
    aria_sort: str
    scale: Scale
    chance: float | None
    column: Column | None = None
    task_url: str = ""
    disputed: int = 0
    """Questions without which it has a second figure."""

    @property
    def breakable(self) -> SafeString:
        """The label with places to break it before a capital: columns are narrow."""
        return mark_safe(_CAPITAL.sub("<wbr>", escape(self.label)))  # noqa: S308 escaped before

    @property
    def metric(self) -> str:
        """Named where it is not an accuracy, which most columns have."""
        metric = self.column.metric if self.column else ""
        return "" if metric.startswith("acc") else metric.replace("_", " ")

    @cached_property
    def plumb(self) -> SafeString:
        return plumb_line(self.chance, self.scale)


@dataclass(frozen=True)
class Baseline:
    """What the average and each column would be without a model: a text, or nothing."""

    average: str
    cells: list[tuple[Head, str]]


@dataclass
class Group:
    """Rows under one heading; `kind` is `pinned`, `tie`, `solo`, `flat` or `missing`."""

    kind: str
    lines: list[Line] = field(default_factory=list)
    first: str = ""
    """Of a band, the name of the model that the others are in a tie with ..."""
    first_row: int = -1
    first_rank: int = 0
    first_url: str = ""
    """... and the page of the board that it is on."""
    others: int = 0
    """Models in the band besides its first, on the whole board."""
    here: int = 0
    """Models of the band on this page."""

    @property
    def first_here(self) -> bool:
        """Whether the first is among the lines."""
        return any(line.row == self.first_row for line in self.lines)

    @property
    def named(self) -> str:
        """The first model of the band that is among the lines."""
        return next(line.name for line in self.lines if line.rank)


@dataclass(frozen=True)
class Table:
    model: Head
    size: Head
    average: Head
    columns: list[Head]
    groups: list[Group]
    chance: Baseline
    people: Baseline | None
    counted: int
    """Benchmarks that the average is of."""
    from_chance: bool
    wide: bool
    cut_short: bool
    """Whether a number of the page is marked CUT_SHORT."""
    deep: int
    """Where ranges stand in a line of their own: how many characters they need room for."""
    specimen: Scale
    """The average's scale, drawn larger beside the title."""
    specimen_line: Line | None


def dress(view: View) -> Table:
    """The rows of one page under their heads; scales come from the whole board."""
    board = view.board
    # Made once: an address takes longer to make than all else in a head.
    urls = _sort_url(view, HERE), reverse("task", args=[HERE])
    columns = [_column_head(view, column, *urls) for column in view.columns]
    average = _average_head(view)
    rows = [*view.pins, *view.page_rows]
    wide = len(columns) > WIDE
    listed = board.models.take(rows)
    variants = [str(variant) for variant in listed.values("variant")]
    look = Look(view.scores, rows, wide, variants)
    lead_to = cell_urls(view.wanted)
    drawn = [
        Drawn(place, head.key, head.scale, lead_to)
        for place, head in zip(view.columns, columns, strict=True)
    ]
    seconds = seconds_of(view, rows)
    by_place = [
        with_seconds(cells, seconds[place], rows, board.columns[place].metric, wide=wide)
        if place in seconds
        else cells
        for place, cells in zip(view.columns, column_cells(board, drawn, look), strict=True)
    ]
    columns = [
        replace(head, disputed=seconds[place].removed) if place in seconds else head
        for place, head in zip(view.columns, columns, strict=True)
    ]
    by_column = [
        written(cells, head.label, head.plumb)
        for cells, head in zip(by_place, columns, strict=True)
    ]
    averages = average_cells(view.average, rows, average.scale)
    lines = lines_of(view, rows, listed, averages, by_column)
    pinned, others = lines[: len(view.pins)], lines[len(view.pins) :]
    return Table(
        model=_plain_head(view, MODEL, "Model"),
        size=_plain_head(view, SIZE, "Size"),
        average=average,
        columns=columns,
        groups=[*([Group("pinned", pinned)] if pinned else []), *_groups(view, others)],
        chance=Baseline(
            percent(average.chance), [(head, _in_unit(head, head.chance)) for head in columns]
        ),
        people=_people(view, columns),
        counted=len(_averaged(view)),
        from_chance=view.scale == CHANCE,
        wide=wide,
        cut_short=any(any(cells.mark) for cells in by_place),
        deep=_deep(board),
        specimen=replace(average.scale, start=42.0, end=98.0),
        specimen_line=next((line for line in others if line.rank and line.average), None),
    )


def _deep(board: Board) -> int:
    """Characters of the last rank, a fourth for ranges of three with marks that they go on."""
    if board.ranked < 100:
        return 0
    digits = len(f"{board.ranked:,}")
    return max(digits, 4) if board.ranks.cut_low.any() or board.ranks.cut_high.any() else digits


def _column_head(view: View, place: int, sort_url: str, task_url: str) -> Head:
    """Both addresses are made for all columns, with HERE in the column's place."""
    column = view.board.columns[place]
    chance = column.chance
    if view.scale == CHANCE:
        chance = 0.0 if is_share(column.metric) else None
    scale = column_scale(view.scores, place, column.metric, chance)
    key = view.keys[place]
    return Head(
        key,
        column.title,
        _sort_url(view, key) if key == view.sort_key else sort_url.replace("%00", quote_plus(key)),
        _aria_sort(view, key),
        scale,
        chance,
        column,
        task_url.replace("%00", quote(column.task)),
    )


def _average_head(view: View) -> Head:
    known = [view.board.columns[place].chance for place in _averaged(view)]
    chances = [chance for chance in known if chance is not None]
    chance = sum(chances) / len(known) if known and len(chances) == len(known) else None
    if view.scale == CHANCE:
        chance = 0.0
    return _head(view, AVERAGE, "Average", average_scale(view.average, chance), chance)


def _averaged(view: View) -> list[int]:
    """The columns whose mean the average is."""
    counted = [place for place, column in enumerate(view.board.columns) if column.counts]
    if not view.own_choice or not view.wanted.cols:
        return counted
    return [place for place in view.columns if view.board.columns[place].counts]


def _plain_head(view: View, key: str, label: str) -> Head:
    return _head(view, key, label, Scale(0.0, 1.0), None)


def _head(view: View, key: str, label: str, scale: Scale, chance: float | None) -> Head:
    return Head(key, label, _sort_url(view, key), _aria_sort(view, key), scale, chance)


def _sort_url(view: View, key: str) -> str:
    """The first click sorts the usual way, the next one turns it round."""
    sort = f"-{key}" if view.wanted.sort == key else key
    return view.wanted.url(sort=sort, page=1, at_model="")


def _aria_sort(view: View, key: str) -> str:
    return ("ascending" if view.ascending else "descending") if view.sort_key == key else ""


def _people(view: View, columns: Sequence[Head]) -> Baseline | None:
    """What people score, where that is known of a shown column; never averaged: sources differ."""
    cells = [(head, _in_unit(head, _people_of(view, head.column))) for head in columns]
    return Baseline("", cells) if any(text for _, text in cells) else None


def _people_of(view: View, column: Column | None) -> float | None:
    if column is None or column.people is None:
        return None
    if view.scale != CHANCE:
        return column.people
    if column.chance is None:
        return None
    return (column.people - column.chance) / (1 - column.chance)


def _in_unit(head: Head, value: float | None) -> str:
    return in_unit(value, head.column.metric) if head.column else percent(value)


def _groups(view: View, lines: Sequence[Line]) -> list[Group]:
    """The page's rows by band where bands are shown; those without an average always last."""
    groups: list[Group] = []
    band_of = view.board.ranks.band
    current: int | None = None
    for line in lines:
        unranked = line.average is None and view.sort_key == AVERAGE
        if unranked:
            wanted = -2
        elif not view.bands_shown:
            wanted = -1
        elif line.rank:
            wanted = int(band_of[line.row])
        else:
            # It keeps its place by score and is of no band: the brackets go on around it.
            wanted = -1 if current is None else current
        if wanted != current:
            groups.append(_group(view, wanted))
            current = wanted
        groups[-1].lines.append(line)
        groups[-1].here += bool(line.rank)
    return groups


def _group(view: View, band: int) -> Group:
    if band < 0:
        return Group("flat" if band == -1 else "missing")
    board = view.board
    members = np.flatnonzero(board.ranks.band == band)
    kind = "tie" if len(members) > 1 else "solo"
    # What a band of one is told apart from is the first of the band before it.
    first = members[0] if kind == "tie" else _first_of(board, band - 1)
    if first is None:
        return Group(kind)
    model = board.models[first]
    group = Group(kind, first=model.repo_id.rpartition("/")[2], others=len(members) - 1)
    if kind == "tie":
        group.first_row, group.first_rank = int(first), int(board.ranks.rank[first])
        unfiltered = view.wanted.but(**dict.fromkeys(FILTERS, ""), page=1, at_model=model.variant)
        group.first_url = unfiltered.url(f"m{model.variant}")
    return group


def _first_of(board: Board, band: int) -> int | None:
    if band < 0:
        return None
    return int(np.flatnonzero(board.ranks.band == band)[0])
