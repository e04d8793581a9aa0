"""Which benchmarks of a board put models in a like order: every two of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from django.urls import reverse

from leaderboard.charts.chart import Cell, Chart, two_places
from leaderboard.models.task import is_share
from leaderboard.snapshot import Board, Column, Flags, table_file
from leaderboard.stats import CORRELATED_FEWEST, order_of_likeness, rank_correlations
from leaderboard.templatetags.figures import ends

MOST, SEED = 1_000, 0
"""Of more models so many are drawn."""
NAMES, TOP, ROOM = 210, 26, 820
"""Of the picture: left of the fields, above them, and for all of them side by side."""
HEIGHT, NARROWEST, WITH_NUMBER, WIDEST = 26, 16, 28, 64
"""Of a field; one of the third width has room for its number."""
HEAT = ("#f1f6f4", "#d9ebe4", "#b9d9cc", "#8fc3b0", "#64ab94")
"""The stylesheet's light colours of `.fields`, for a file."""


class Pair(NamedTuple):
    first: Column
    second: Column
    """Farther down in the picture."""
    at: tuple[int, int]
    """Their places in it."""
    rho: float
    low: float
    high: float
    """NaN where there are too few models, or no order."""
    n: int

    @property
    def value(self) -> Cell:
        if np.isnan(self.rho):
            return Cell("—", "too few models" if self.n < CORRELATED_FEWEST else "no order")
        return Cell(two_places(self.rho), ends(two_places(self.low), two_places(self.high)))

    @property
    def in_words(self) -> str:
        return f"{self.first.title} and {self.second.title}, {self.value.text} ({self.value.note})"


def agreement(board: Board, chosen: Flags) -> Chart:
    """Over the `chosen` models that are ranked with each other."""
    models = rows = board.comparable_rows[chosen[board.comparable_rows]]
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, MOST, replace=False))
    pairs = pairs_of(board, rows.tolist())
    known = [pair for pair in pairs if not np.isnan(pair.rho)]
    finding = "Which benchmarks put models in a like order?", ""
    if len(known) > 2:
        half = two_places(float(np.median([pair.rho for pair in known])))
        finding = (
            f"Half of all pairs of benchmarks agree at {half} or more",
            f"1 is the same order of models. Most alike: {known[0].in_words}. Least: "
            f"{known[-1].in_words}.",
        )
    return Chart(
        title="Agreement of benchmarks",
        finding=finding,
        name="agreement",
        about={"models_drawn": len(rows), "of": len(models)},
        heads=("Benchmark", "Correlation", "with", "Models"),
        rows=len(pairs) if known else 0,
        lines=lambda part: [_line(pair) for pair in pairs[part]],
        batches=lambda: _batches(pairs),
        figure=None,
        rows_are="pairs",
        notes={"drawn": len(rows), "models": len(models),
               "picture": _picture(pairs, [pair.rho for pair in known]) if known else None},
    )  # fmt: skip


def pairs_of(board: Board, rows: Sequence[int]) -> list[Pair]:
    """Every two columns, those that agree most first and unknown ones last; in the picture those
    that agree stand together."""
    # Of perplexities and their like less is better.
    sign = np.array([1.0 if is_share(column.metric) else -1.0 for column in board.columns])
    found = rank_correlations(board.scores.value[rows] * sign)
    places = enumerate(order_of_likeness(found.rho))
    pairs = [
        Pair(board.columns[one], board.columns[other], (first, second), found.rho[one, other],
             found.low[one, other], found.high[one, other], int(found.n[one, other]))
        for (first, one), (second, other) in combinations(places, 2)
    ]  # fmt: skip
    return sorted(pairs, key=lambda pair: (bool(np.isnan(pair.rho)), -pair.rho))


def _picture(pairs: Sequence[Pair], known: Sequence[float]) -> dict[str, Any]:
    """The fields below the diagonal; each of five colours has a fifth of the known pairs."""
    titles = {
        at: column.title for pair in pairs for at, column in zip(pair.at, pair[:2], strict=True)
    }
    width = max(NARROWEST, min(WIDEST, ROOM / len(titles)))
    scale = np.quantile(known, np.linspace(0, 1, len(HEAT) + 1))
    steps = [
        0 if np.isnan(pair.rho) else int(np.sum(pair.rho >= scale[1:-1])) + 1 for pair in pairs
    ]
    return {
        "fields": [
            {"x": pair.at[0] * width, "y": TOP + pair.at[1] * HEIGHT, "step": step,
             "fill": HEAT[max(step - 1, 0)], "words": pair.in_words,
             "number": pair.value.text.replace("0.", ".", 1)}
            for pair, step in zip(pairs, steps, strict=True)
        ],
        "names": [
            {"number": at + 1, "title": titles[at], "short": Cell(titles[at]).label,
             "x": (at + 0.5) * width, "y": TOP + (at + 0.5) * HEIGHT + 4}
            for at in sorted(titles)
        ],
        "scale": [two_places(end) for end in scale],
        "field": (width, HEIGHT),
        "middle": (width / 2, HEIGHT / 2 + 4) if width >= WITH_NUMBER else (),
        "size": (len(titles) * width + 4, TOP + len(titles) * HEIGHT + 4),
        "left": NAMES,
    }  # fmt: skip


def _line(pair: Pair) -> list[Cell]:
    first, second = (
        Cell(column.title, "", reverse("task", args=[column.task])) for column in pair[:2]
    )
    return [first, pair.value, second, Cell(f"{pair.n:,}")]


def _batches(pairs: Sequence[Pair]) -> Iterator[pa.RecordBatch]:
    names = ("first", "second", "at", "rho", "low", "high", "models")
    table = dict(zip(names, zip(*pairs, strict=True), strict=True))
    yield pa.RecordBatch.from_pydict(
        {
            **{side: [column.task for column in table[side]] for side in names[:2]},
            **{f"{side}_title": [column.title for column in table[side]] for side in names[:2]},
            **{name: table_file.numbers(np.array(table[name])) for name in names[3:6]},
            "models": table["models"],
        }
    )
