"""The cells of one page of styles as short texts: numbers, links and places on a scale.

A page of every column has thousands of cells, so what they share is made once for each column and
positions are looked up, not formatted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from django.utils.html import escape
from numpy.typing import NDArray

from evalcore.lengths import NAMES
from leaderboard.board import CUT_SHORT, BoardQuery
from leaderboard.models.run import lengths_of
from leaderboard.models.task import is_share
from leaderboard.snapshot import STANDINGS, Board, Floats, Scores, Standing, run_urls
from leaderboard.templatetags.figures import (
    LOPSIDED,
    SMALLEST_SHOWN,
    decimals_of,
    ends,
    half_in_points,
    percent,
    precise,
    precise_interval,
)
from leaderboard.web import Scale

HALF_A_PERCENT = 5
"""Of a narrow cell's width, in tenths: less than half a pixel."""
ROW, COLUMN = "{row}", "{column}"
_TENTHS = [f"{place / 10:g}" for place in range(1001)]
_SCORED = STANDINGS.index(Standing.SCORED)
_ANY_CUT = [NAMES.index(name) for name in ("prompts_cut", "by_length")]


class Cell(NamedTuple):
    """A number with its interval, or the words that stand in for it (`margin` is empty then)."""

    text: str
    margin: str
    """The 95 % interval: "±1.6" in the number's unit, or both ends where it is lopsided."""
    url: str
    title: str
    left: str
    """Where the interval begins, in percent of the cell's width."""
    width: str
    place: str
    """Where the estimate stands."""
    mark: str = ""
    """HTML: whether much of it was cut short."""
    why: str = ""


class Cells(NamedTuple):
    """A column's cells, for each row of the page: the fields of a `Cell` each as a list.

    Thousands of objects take longer to make than all their texts.
    """

    text: list[str]
    margin: list[str]
    url: list[str]
    title: list[str]
    left: list[str]
    width: list[str]
    place: list[str]
    mark: list[str]
    missing: dict[int, Cell]
    """By place on the page; what the lists have there says nothing."""

    def one_by_one(self) -> Iterator[Cell]:
        """The cells as objects."""
        for row, fields in enumerate(zip(*self[:8], strict=True)):
            yield self.missing.get(row) or Cell(*fields)


@dataclass(frozen=True)
class Drawn:
    """A column as it is written."""

    place: int
    """On the board."""
    key: str
    """How the board's addresses call it."""
    scale: Scale
    cell_urls: str
    """`cell_urls` of the board that its cells in a wide table lead to."""


@dataclass(frozen=True)
class Look:
    """How the cells of a page are written."""

    scores: Scores
    """Of the whole board."""
    rows: Sequence[int]
    wide: bool
    """Whether there are so many columns that titles and links must be short."""
    variants: Sequence[str] = ()
    """Of the rows, for such links."""


def cell_urls(board: BoardQuery) -> str:
    """Where a wide table's cells lead, with ROW and COLUMN in it, escaped."""
    query = BoardQuery(suite=board.suite, style=board.style, at=board.at).url().partition("?")[2]
    return f"/cells/{ROW}/{COLUMN}" + (f"?{escape(query)}" if query else "")


def column_scale(scores: Scores, column: int, metric: str, chance: float | None) -> Scale:
    """One scale for the column, from the whole board's lowest to its highest bound."""
    lowest, highest = scores.bounds
    bounds = lowest[column], highest[column], chance
    return Scale.over([], *bounds, share=is_share(metric), start=10.0, end=90.0)


def average_cells(average: Scores, rows: Sequence[int], scale: Scale) -> list[Cell | None]:
    """For each row its average, which links to nothing; None where a benchmark is missing."""
    chosen = average.rows(np.array(rows, np.intp))
    ((values, margins, left, width, at),) = _in_columns(chosen.as_column, [scale], 1, [True])
    cells = Cells(
        *(_percents(values), margins, [""] * len(rows), _in_full(chosen), left, width, at),
        [""] * len(rows),
        {},
    )
    return [
        None if value != value else cell
        for value, cell in zip(values, cells.one_by_one(), strict=True)
    ]


def column_cells(board: Board, columns: Sequence[Drawn], look: Look) -> list[Cells]:
    """Of each column the cells for the rows of the page."""
    places = [column.place for column in columns]
    block = np.ix_(np.array(look.rows, np.intp), np.array(places, np.intp))
    chosen = Scores(*(side[block] for side in look.scores.sides))
    runs = board.run[block]
    urls = (
        _cell_urls(runs, columns, look.variants)
        if look.wide
        else [run_urls(of_column) for of_column in runs.T]
    )
    unscored = (board.standing[block] != _SCORED) | np.isnan(chosen.value)
    lengths = board.lengths[block]
    cut_short = np.any(lengths[..., _ANY_CUT], axis=2)
    counts = lengths.tolist() if cut_short.any() else []
    step = HALF_A_PERCENT if look.wide else 1
    shares = [is_share(board.columns[place].metric) for place in places]
    numbers = _in_columns(chosen, [column.scale for column in columns], step, shares)
    found = []
    for number, (values, margins, left, width, at) in enumerate(numbers):
        place, of_column = places[number], urls[number]
        metric = board.columns[place].metric
        texts = _percents(values) if shares[number] else [decimals_of(v) for v in values]
        titles = (
            _briefly(values, metric)
            if look.wide
            else _at_length(board, place, look, chosen.column(number))
        )
        marks = [""] * len(values)
        for row in np.flatnonzero(cut_short[:, number]).tolist():
            told, marks[row] = _told(tuple(counts[row][number]))
            titles[row] += told
        missing = {
            row: _without_number(board, look.rows[row], place, of_column[row])
            for row in np.flatnonzero(unscored[:, number]).tolist()
        }
        found.append(Cells(texts, margins, of_column, titles, left, width, at, marks, missing))
    return found


@lru_cache(maxsize=1 << 14)
def _told(counts: tuple[int, ...]) -> tuple[str, str]:
    """What a title says of these counts, and the mark beside the number."""
    lengths = lengths_of(counts)
    if lengths is None or not lengths.told:
        return "", ""
    return f"; {lengths.told}", CUT_SHORT if lengths.is_large else ""


def _without_number(board: Board, row: int, column: int, url: str) -> Cell:
    standing = board.standing_of(row, column)
    # A group of which a part is missing has a score, but none that is taken from chance.
    words = "not measured by part" if standing is Standing.SCORED else standing.value
    return Cell(words, "", url, "", "", "", "", why=board.why.get((row, column), ""))


_Numbers = tuple[list[float], list[str], list[str], list[str], list[str]]


def _in_columns(
    scores: Scores, scales: Sequence[Scale], step: int, shares: Sequence[bool]
) -> Iterator[_Numbers]:
    """Of each column the values, their margins, and `left`, `width` and `place`."""
    at, left, right = (_tenths(side, scales, step) for side in scores.sides)
    drawn = [places.T.tolist() for places in (left, right - left, at)]
    margins = _margins(scores, shares)
    for values, written, *places in zip(scores.value.T.tolist(), margins, *drawn, strict=True):
        begin, width, place = ([_TENTHS[tenths] for tenths in of_column] for of_column in places)
        yield values, written, begin, width, place


def _margins(scores: Scores, shares: Sequence[bool]) -> list[list[str]]:
    """`figures.margin` of thousands of numbers at once, by column."""
    above, below = scores.high - scores.value, scores.value - scores.low
    shorter, longer = np.fmin(above, below), np.fmax(above, below)
    lopsided = (shorter < LOPSIDED * longer) & (longer >= SMALLEST_SHOWN)
    written = [
        [f"±{half_in_points(half)}" for half in halves]
        if share
        else [f"±{half:,.3f}" for half in halves]
        for halves, share in zip(longer.T.tolist(), shares, strict=True)
    ]
    for row, column in np.argwhere(lopsided).tolist():
        in_unit = percent if shares[column] else decimals_of
        both = (float(side[row, column]) for side in (scores.low, scores.high))
        written[column][row] = ends(*(in_unit(bound) for bound in both))
    return written


def _percents(values: Sequence[float]) -> list[str]:
    return [percent(value) for value in values]


def _briefly(values: Sequence[float], metric: str) -> list[str]:
    """The value with three decimals, for those who hover."""
    if not is_share(metric):
        return [precise(value) for value in values]
    return [f"{100 * value:.3f}" for value in values]


def _at_length(board: Board, column: int, look: Look, scores: Scores) -> list[str]:
    """Value and interval in full, the number of questions, and the spread between draws."""
    draws = board.columns[column].draws
    titles = []
    counts = board.n[np.array(look.rows, np.intp), column].tolist()
    for row, in_full, n in zip(look.rows, _in_full(scores), counts, strict=True):
        title = f"{in_full}, n = {n:,}"
        if draws > 1:
            spread = float(board.sd_of_draws[row, column])
            title += (
                f", mean of {draws} draws of examples, standard deviation between draws "
                f"{precise(spread)}"
            )
        titles.append(title)
    return titles


def _in_full(scores: Scores) -> list[str]:
    sides = (side.tolist() for side in scores.sides)
    return [precise_interval(*of_row) for of_row in zip(*sides, strict=True)]


def _tenths(values: Floats, scales: Sequence[Scale], step: int) -> NDArray[np.int64]:
    """`Scale.x` in tenths of a percent, to the nearest `step` of them; anything for NaN."""
    ends = np.array([(scale.low, scale.high, scale.start, scale.end) for scale in scales])
    low, high, start, end = ends.reshape(-1, 4).T
    place = np.clip((np.nan_to_num(values) - low) / (high - low), 0.0, 1.0)
    tenths = 10 * (start + (end - start) * place)
    found: NDArray[np.int64] = step * np.rint(tenths / step).astype(np.int64)
    return found


def _cell_urls(
    runs: NDArray[Any], columns: Sequence[Drawn], variants: Sequence[str]
) -> list[list[str]]:
    """The short address of each cell, by column, empty for those without a run."""
    halves_of_ids = np.ascontiguousarray(runs).view(np.uint64).reshape(*runs.shape, 2)
    ran: list[list[bool]] = np.any(halves_of_ids, axis=2).T.tolist()
    found = []
    for column, has_run in zip(columns, ran, strict=True):
        begin, end = column.cell_urls.replace(COLUMN, quote(column.key, safe="")).split(ROW)
        both = zip(variants, has_run, strict=True)
        found.append([f"{begin}{variant}{end}" if has else "" for variant, has in both])
    return found
