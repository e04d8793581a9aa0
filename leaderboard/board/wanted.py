"""What a reader asked of the board: all of its state, as the address has it, and the columns.

A choice of columns or of scale that is not the suite's has an average of its own: the plain mean of
the shown columns that count. It orders the rows and has an interval, but no rank ranges and no
bands: those were computed, for all models at once, for the suite's average only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse

from leaderboard.models.task import Style
from leaderboard.snapshot import OWN, Board, Flags, Scores
from leaderboard.web import Address, Recent, redirect_to, short_address

RAW, CHANCE = "raw", "chance"
ONLY, HIDE = "only", "hide"
COMPACT, NORMAL, TALL = "compact", "normal", "tall"
ALL_COLUMNS = "all"
YES_OR_NO = ("merged", "moe", "flagged", "official", "chat", "asked", "adapter", "packed", "gone")
"""Filters that show only, or hide, the models of which something holds."""
CHOICES = ("type", "precision", "arch", "licence", "engine")
"""Filters by values, any of which may hold."""
_LISTS = (*CHOICES, "cols", "pin", "m")
_ALLOWED: dict[str, tuple[str, ...]] = {
    "style": (OWN, *Style.values),
    "score": ("", RAW, CHANCE),
    "rows": (COMPACT, NORMAL, TALL),
    **dict.fromkeys(YES_OR_NO, ("", ONLY, HIDE)),
}
_JOINED = {**dict.fromkeys(_LISTS, ","), "size": "-"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Every field as text. What is none of a closed choice has become the default; what readers
    write themselves (search, sizes, columns, dates, pins) stays, for the page to say what is wrong.
    """

    suite: str = field(default_factory=lambda: settings.PLUMBLINE_SUITE)
    """`name` or `name@version`."""
    style: str = OWN
    at: str = ""
    """As the board stood at the end of that day, YYYY-MM-DD; empty for now."""
    q: str = ""
    type: str = ""
    precision: str = ""
    size: str = ""
    """`low-high` in billions of parameters, either end may miss."""
    arch: str = ""
    licence: str = ""
    engine: str = ""
    merged: str = ""
    moe: str = ""
    flagged: str = ""
    official: str = ""
    chat: str = ""
    asked: str = ""
    adapter: str = ""
    packed: str = ""
    gone: str = ""
    cols: str = ""
    """Column keys; empty for the suite's first ten, `all` for all of them."""
    score: str = ""
    """RAW or CHANCE; empty for the scale that the suite averages."""
    sort: str = "average"
    page: str = "1"
    rows: str = NORMAL
    """Height of the rows."""
    pin: str = ""
    """Variants or repositories that stand on top."""
    m: str = ""
    """Variants that are ticked for comparing."""
    at_model: str = ""
    """A variant or repository whose page is shown and whose row is marked."""

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        address = Address(request, _defaults(settings.PLUMBLINE_SUITE), _JOINED)
        for name, allowed in _ALLOWED.items():
            address.choice(name, allowed)
        return cls(**{known.name: address[known.name] for known in fields(cls)})

    def many(self, name: str) -> list[str]:
        """The values of a field that may have several."""
        values: str = getattr(self, name)
        return [value for value in values.split(",") if value]

    @property
    def moment(self) -> datetime | None:
        """The end of the day `at`; None for now, or where it is no date."""
        try:
            day = date.fromisoformat(self.at)
            return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
        except (ValueError, OverflowError):
            return None

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return replace(self, **{name: str(value) for name, value in changes.items()})

    def url(self, fragment: str = "", *, to: str = "board", **changes: Any) -> str:
        """The short address of this view of the board, or of the same as a file, with changes."""
        values = {**vars(self), **{name: str(value) for name, value in changes.items()}}
        return short_address(reverse(to), values, _defaults(settings.PLUMBLINE_SUITE), fragment)

    def redirect(self, request: HttpRequest) -> HttpResponseRedirect | None:
        """To the short address, unless the request already came by it."""
        return redirect_to(request, self.url())


@lru_cache(maxsize=8)
def _defaults(suite: str) -> dict[str, str]:
    return dict(vars(Wanted(suite=suite)))


DEFAULT_COLUMNS = 10
MOST_MEANS = 16
"""Averages of readers' own choices that are kept of each board."""

_means: WeakKeyDictionary[Board, Recent[Scores]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Shown:
    """The columns of a view with its average; `cols` and `score` are as short addresses say it."""

    columns: list[int]
    folded: int
    """How many columns the suite has besides, where the reader chose none."""
    scale: str
    """RAW or CHANCE."""
    scores: Scores
    """All of the board's, on that scale."""
    average: Scores
    """Shape (rows,); NaN where a shown column is missing."""
    own_choice: bool
    why_unranked: str
    """For an own choice: what its average is of, and why it has no ranks."""
    cols: str
    score: str
    problems: list[str]


def column_keys(board: Board) -> list[str]:
    """How addresses and files call each column: by benchmark, with its style only where needed."""
    benchmarks = Counter(column.benchmark for column in board.columns)
    return [
        column.benchmark
        if benchmarks[column.benchmark] == 1
        else f"{column.benchmark}.{column.style}"
        for column in board.columns
    ]


def shown(board: Board, wanted: Wanted, keys: Sequence[str]) -> Shown:
    """What the reader chose of columns and scale, or the suite's own."""
    every = list(range(len(keys)))
    columns, cols, problems = _chosen(wanted, keys)
    of_suite = CHANCE if board.by_chance else RAW
    scale = wanted.score or of_suite
    scores = board.normalised if scale == CHANCE else board.scores
    counted = [place for place in every if board.columns[place].counts]
    averaged = [place for place in columns if place in counted]
    is_default = columns in (every[:DEFAULT_COLUMNS], every)
    own_columns = not is_default and averaged != counted
    if not own_columns:
        averaged = counted
    own_choice = own_columns or scale != of_suite
    average = board.average
    if own_choice:
        needed = columns if own_columns else every
        asked = scale, tuple(averaged), tuple(needed)
        known = _means.setdefault(board, Recent(MOST_MEANS))
        average = known.of(asked, lambda: _mean(scores, averaged, needed))
    return Shown(
        columns=columns,
        folded=0 if cols else len(every) - len(columns),
        scale=scale,
        scores=scores,
        average=average,
        own_choice=own_choice,
        why_unranked=_why(len(averaged), len(counted), own_columns, scale) if own_choice else "",
        cols=cols,
        score=scale if scale != of_suite else "",
        problems=problems,
    )


def _mean(scores: Scores, averaged: Sequence[int], needed: Sequence[int]) -> Scores:
    """By row the mean over columns; NaN where one of the `needed` is missing."""
    if not averaged:
        return Scores.none(len(scores.value))
    complete: Flags = np.isnan(scores.value[:, needed]).sum(axis=1) == 0
    return scores.mean(averaged).where(complete)


def _chosen(wanted: Wanted, keys: Sequence[str]) -> tuple[list[int], str, list[str]]:
    """The shown columns in the board's order, how the address names them, and what is unknown."""
    asked = wanted.many("cols")
    every = list(range(len(keys)))
    chosen = every if ALL_COLUMNS in asked else [place for place in every if keys[place] in asked]
    unknown = [key for key in asked if key not in (*keys, ALL_COLUMNS)]
    problems = [f"Not on this board: {_few(unknown)}. Choose among its columns."] if unknown else []
    # A form sends the boxes that it shows ticked: the suite's own ten are no choice.
    if not chosen or chosen == every[:DEFAULT_COLUMNS]:
        return every[:DEFAULT_COLUMNS], ",".join(unknown), problems
    names = [ALL_COLUMNS] if chosen == every else [keys[place] for place in chosen]
    return chosen, ",".join([*names, *unknown]), problems


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"“{name}”" for name in names[:3]) + more


def _why(averaged: int, counted: int, own_columns: bool, scale: str) -> str:
    if not averaged:
        return "None of the columns that you chose counts, so there is no average of them."
    average = (
        f"This average is of {averaged} of the suite’s {counted} columns that count"
        if own_columns
        else "This average is of the suite’s columns that count"
    )
    of_scale = ", from chance" if scale == CHANCE else ""
    return (
        f"{average}{of_scale}, as you chose. It has no ranks and no bands: "
        "rank ranges are computed for the suite’s own average only."
    )
