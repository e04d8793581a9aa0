"""Which columns of a board are shown, on which scale, and which average belongs to them.

A choice of columns or of scale that is not the suite's has an average of its own: the plain mean of
the shown columns that count. It orders the rows and has an interval, but no rank ranges and no
bands: those were computed, for all models at once, for the suite's average only.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from leaderboard.board.wanted import ALL_COLUMNS, CHANCE, RAW, Wanted
from leaderboard.snapshot.data import Board, Flags, Scores

DEFAULT_COLUMNS = 10
MOST_MEANS = 16
"""Averages of readers' own choices that are kept of each board."""

_means: WeakKeyDictionary[
    Board, OrderedDict[tuple[str, tuple[int, ...], tuple[int, ...]], Scores]
] = WeakKeyDictionary()


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
    needed = columns if own_columns else every
    return Shown(
        columns=columns,
        folded=0 if cols else len(every) - len(columns),
        scale=scale,
        scores=scores,
        average=_mean(board, scale, averaged, needed) if own_choice else board.average,
        own_choice=own_choice,
        why_unranked=_why(len(averaged), len(counted), own_columns, scale) if own_choice else "",
        cols=cols,
        score=scale if scale != of_suite else "",
        problems=problems,
    )


def _mean(board: Board, scale: str, averaged: Sequence[int], needed: Sequence[int]) -> Scores:
    """By row the mean over columns on this scale; NaN where one of the `needed` is missing."""
    known = _means.setdefault(board, OrderedDict())
    asked = scale, tuple(averaged), tuple(needed)
    if (kept := known.get(asked)) is not None:
        return kept
    scores = board.normalised if scale == CHANCE else board.scores
    if averaged:
        complete: Flags = np.isnan(scores.value[:, needed]).sum(axis=1) == 0
        mean = scores.mean(averaged).where(complete)
    else:
        mean = Scores.none(len(scores.value))
    known[asked] = mean
    while len(known) > MOST_MEANS:
        with suppress(KeyError):  # another thread may have removed it
            known.popitem(last=False)
    return mean


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
