"""Which benchmarks of a board put models in a like order, as a picture of every two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from django.urls import reverse

from leaderboard.charts.chart import Cell, Chart
from leaderboard.snapshot import Board, Flags
from leaderboard.tasks import Pair, Pairs
from leaderboard.templatetags.figures import decimals, ends

NAMES, TOP, ROOM = 210, 26, 820
"""Of the picture: left of the fields, above them, and for all of them side by side."""
HEIGHT, NARROWEST, WITH_NUMBER, WIDEST = 26, 16, 28, 64
"""Of a field; one of the third width has room for its number."""
HEAT = ("#f1f6f4", "#d9ebe4", "#b9d9cc", "#8fc3b0", "#64ab94")
"""The stylesheet's light colours of `.fields`, for a file."""


def agreement(board: Board, chosen: Flags) -> Chart:
    found = Pairs.of(board, chosen)
    known, finding = found.known, ("Which benchmarks put models in a like order?", "")
    if len(known) > 2:
        half = decimals(float(np.median([pair.rho for pair in known])))
        most, least = _words(known[0]), _words(known[-1])
        finding = (
            f"Half of all pairs of benchmarks agree at {half} or more",
            f"1 is the same order of models. Most alike: {most}. Least: {least}.",
        )
    return Chart(
        title="Agreement of benchmarks",
        finding=finding,
        name="agreement",
        about={},
        counts={"models_drawn": found.drawn, "of": found.models},
        heads=("Benchmark", "Correlation", "with", "Models"),
        rows=len(found.pairs) if known else 0,
        lines=lambda part: [_line(pair) for pair in found.pairs[part]],
        batches=found.batches,
        figure=None,
        rows_are="pairs",
        notes={"picture": _picture(found.pairs, known) if known else None},
    )


def _value(pair: Pair) -> Cell:
    if not pair.is_known:
        return Cell("—", pair.why_unknown)
    return Cell(decimals(pair.rho), ends(decimals(pair.low), decimals(pair.high)))


def _words(pair: Pair) -> str:
    text, note, _ = _value(pair)
    return f"{pair.first.title} and {pair.second.title}, {text} ({note})"


def _line(pair: Pair) -> list[Cell]:
    first, second = (
        Cell(column.title, "", reverse("task", args=[column.task])) for column in pair[:2]
    )
    return [first, _value(pair), second, Cell(f"{pair.n:,}")]


def _picture(pairs: Sequence[Pair], known: Sequence[Pair]) -> dict[str, Any]:
    """The fields below the diagonal; each of five colours has a fifth of the known pairs."""
    titles = {pair.places[0]: pair.first.title for pair in pairs}
    titles |= {pair.places[1]: pair.second.title for pair in pairs}
    width = max(NARROWEST, min(WIDEST, ROOM / len(titles)))
    scale = np.quantile([pair.rho for pair in known], np.linspace(0, 1, len(HEAT) + 1))
    steps = [int(np.sum(pair.rho >= scale[1:-1])) + 1 if pair.is_known else 0 for pair in pairs]
    return {
        "fields": [
            {"x": pair.places[0] * width, "y": TOP + pair.places[1] * HEIGHT, "step": step,
             "fill": HEAT[max(step - 1, 0)], "words": _words(pair),
             "number": _value(pair).text.replace("0.", ".", 1)}
            for pair, step in zip(pairs, steps, strict=True)
        ],
        "names": [
            {"number": at + 1, "title": titles[at], "short": Cell(titles[at]).label,
             "x": (at + 0.5) * width, "y": TOP + (at + 0.5) * HEIGHT + 4}
            for at in sorted(titles)
        ],
        "scale": [decimals(end) for end in scale],
        "field": (width, HEIGHT),
        "middle": (width / 2, HEIGHT / 2 + 4) if width >= WITH_NUMBER else (),
        "size": (len(titles) * width + 4, TOP + len(titles) * HEIGHT + 4),
        "left": NAMES,
    }  # fmt: skip
