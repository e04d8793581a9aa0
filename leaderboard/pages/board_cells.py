"""The cells of one page of the board as short texts: numbers, links and places on a scale.

A page of every column has thousands of cells, so what they share is made once for each column and
positions are looked up, not formatted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from leaderboard.board_data import STANDINGS, Board, Floats, Scores, Standing
from leaderboard.pages.scale import Scale
from leaderboard.templatetags.figures import MINUS
from leaderboard.units import is_share

HALF_A_PERCENT = 5
"""Of a narrow cell's width, in tenths: less than half a pixel."""
SMALLEST_SHOWN = 0.0005
"""Half of an interval that would be written as ±0.0."""
ROW, COLUMN = "{row}", "{column}"
_NO_RUN = "0" * 32
_TENTHS = [f"{place / 10:g}" for place in range(1001)]
_SCORED = STANDINGS.index(Standing.SCORED)


class Cell(NamedTuple):
    """A number with its interval, or the words that stand in for it (`half` is empty then)."""

    text: str
    half: str
    """Half of the 95 % interval, in the number's unit."""
    url: str
    title: str
    left: str
    """Where the interval begins, in percent of the cell's width."""
    width: str
    place: str
    """Where the estimate stands."""
    why: str = ""


@dataclass(frozen=True)
class Look:
    """How the cells of a page are written."""

    scores: Scores
    """Of the whole board."""
    rows: Sequence[int]
    wide: bool
    """Whether there are so many columns that titles must be short, and links `pages/cell.py`'s."""
    cell_url: str
    """Of such a link, with ROW and COLUMN in it."""
    variants: Sequence[str] = ()
    """Of the rows, for such links."""


def column_scale(scores: Scores, column: int, metric: str, chance: float | None) -> Scale:
    """One scale for the column, from the whole board's lowest to its highest bound."""
    low, high = _span(scores.low[:, column], scores.high[:, column], chance)
    return (Scale.around if is_share(metric) else Scale.plain)(low, high)


def average_scale(average: Scores, chance: float | None) -> Scale:
    low, high = _span(average.low, average.high, chance)
    return Scale.around(low, high, start=4.0, end=94.0)


def _span(low: Floats, high: Floats, chance: float | None) -> tuple[float, float]:
    """The lowest and the highest of all bounds and of chance; 0 to 1 where there is nothing."""
    lowest, highest = np.fmin.reduce(low, initial=np.inf), np.fmax.reduce(high, initial=-np.inf)
    bounds = [float(bound) for bound in (lowest, highest) if np.isfinite(bound)]
    bounds += [] if chance is None else [chance]
    return min(bounds, default=0.0), max(bounds, default=1.0)


def average_cells(average: Scores, rows: Sequence[int], scale: Scale) -> list[Cell | None]:
    """For each row its average, which links to nothing; None where a benchmark is missing."""
    chosen = average.rows(np.array(rows, np.intp))
    nothing = [""] * len(rows)
    cells = _numbers(chosen, scale, nothing, _in_full(chosen))
    return [None if cell.text == "nan" else cell for cell in cells]


def column_cells(board: Board, column: int, key: str, scale: Scale, look: Look) -> list[Cell]:
    """A cell for each row of the page; `key` is how addresses call the column."""
    rows = np.array(look.rows, np.intp)
    about = board.columns[column]
    chosen = Scores(*(side[rows, column] for side in _sides(look.scores)))
    urls = _run_urls(board.run[rows, column])
    if look.wide:
        of_column = look.cell_url.replace(COLUMN, quote(key, safe=""))
        urls = [u and of_column.replace(ROW, v) for u, v in zip(urls, look.variants, strict=True)]
    titles = (
        _briefly(chosen, about.metric) if look.wide else _at_length(board, column, look, chosen)
    )
    step = HALF_A_PERCENT if look.wide else 1
    cells = _numbers(chosen, scale, urls, titles, share=is_share(about.metric), step=step)
    unscored = (board.standing[rows, column] != _SCORED) | np.isnan(chosen.value)
    for place in np.flatnonzero(unscored).tolist():
        cells[place] = _without_number(board, look.rows[place], column, urls[place])
    return cells


def _without_number(board: Board, row: int, column: int, url: str) -> Cell:
    standing = board.standing_of(row, column)
    # A group of which a part is missing has a score, but none that is taken from chance.
    words = "not measured by part" if standing is Standing.SCORED else standing.value
    return Cell(words, "", url, "", "", "", "", board.why.get((row, column), ""))


def _numbers(
    scores: Scores,
    scale: Scale,
    urls: Sequence[str],
    titles: Sequence[str],
    *,
    share: bool = True,
    step: int = 1,
) -> list[Cell]:
    value = scores.value
    half = np.fmax(scores.high - value, value - scores.low)
    if share:
        texts = [f"{one:.1f}" for one in (100 * value).tolist()]
        halves = [f"{one:.1f}" for one in (100 * half).tolist()]
    else:
        texts = [f"{one:,.3f}" for one in value.tolist()]
        halves = [f"{one:,.3f}" for one in half.tolist()]
    for place in np.flatnonzero(value < 0).tolist():
        texts[place] = texts[place].replace("-", MINUS)
    for place in np.flatnonzero((half > 0) & (half < SMALLEST_SHOWN)).tolist() if share else ():
        halves[place] = "<0.1"
    at, left, right = (_tenths(side, scale, step) for side in _sides(scores))
    return [
        Cell(text, half_text, url, title, _TENTHS[begin], _TENTHS[end - begin], _TENTHS[middle])
        for text, half_text, url, title, begin, end, middle in zip(
            texts, halves, urls, titles, left, right, at, strict=True
        )
    ]


def _briefly(scores: Scores, metric: str) -> list[str]:
    """The value with three decimals, for those who hover."""
    if not is_share(metric):
        return [f"{one!r}" for one in scores.value.tolist()]
    return [f"{one:.3f}" for one in (100 * scores.value).tolist()]


def _at_length(board: Board, column: int, look: Look, scores: Scores) -> list[str]:
    """Value and interval in full, the number of questions, and the spread between draws."""
    draws = board.columns[column].draws
    titles = []
    for row, in_full in zip(look.rows, _in_full(scores), strict=True):
        title = f"{in_full}, n = {board.n[row, column]:,}"
        if draws > 1:
            spread = float(board.sd_of_draws[row, column])
            title += (
                f", mean of {draws} draws of examples, standard deviation between draws {spread}"
            )
        titles.append(title)
    return titles


def _in_full(scores: Scores) -> list[str]:
    sides = (side.tolist() for side in _sides(scores))
    return [f"{v!r}, 95% interval {low!r} to {high!r}" for v, low, high in zip(*sides, strict=True)]


def _sides(scores: Scores) -> tuple[Floats, Floats, Floats]:
    return scores.value, scores.low, scores.high


def _tenths(values: Floats, scale: Scale, step: int) -> list[int]:
    """`Scale.x` in tenths of a percent, to the nearest `step` of them; anything for NaN."""
    place = np.clip((np.nan_to_num(values) - scale.low) / (scale.high - scale.low), 0.0, 1.0)
    tenths = 10 * (scale.start + (scale.end - scale.start) * place)
    found: list[int] = (step * np.rint(tenths / step)).astype(int).tolist()
    return found


def _run_urls(runs: NDArray[Any]) -> list[str]:
    """The address of each run, empty for none."""
    digits = [raw.hex() for raw in runs.tolist()]
    return [
        ""
        if one == _NO_RUN
        else f"/runs/{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}"
        for one in digits
    ]
