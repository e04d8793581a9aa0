"""What answering takes, as what a chart has to the right: tokens, seconds and energy of a question.

Tokens are a matter of the model alone. Seconds and energy depend on the machine, so that only
models on one kind of machine stand on one chart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaderboard.charts.axis import Axis, Machines, powers
from leaderboard.snapshot import MEASURES, Board

NOT_KNOWN = -1


def of_a_question(measure: str, board: Board, columns: Sequence[int]) -> NDArray[np.float64]:
    """Of all questions of these columns on the mean; NaN where one column lacks it."""
    if board.costs is None or not columns:
        return np.full(len(board.models), np.nan)
    each = board.costs.of[:, columns, MEASURES.index(measure)].astype(np.float64)
    asked = board.n[:, columns].astype(np.float64)
    with np.errstate(invalid="ignore"):  # a model that was asked nothing has no cost either
        of_one: NDArray[np.float64] = (each * asked).sum(axis=1) / asked.sum(axis=1)
    return of_one


def machines_of(measure: str, board: Board, columns: Sequence[int]) -> Machines:
    """One kind for each model only where all of its columns are from it."""
    if board.costs is None or not columns:
        return Machines(np.full(len(board.models), NOT_KNOWN, np.int16), ())
    kinds = board.costs.kind[:, columns, MEASURES.index(measure) - 1]
    same = (kinds == kinds[:, :1]).all(axis=1)
    return Machines(np.where(same, kinds[:, 0], NOT_KNOWN).astype(np.int16), board.costs.kinds)


def _figure(number: float) -> str:
    """Two figures, or all of those before the point."""
    return f"{number:,.{max(0, 1 - floor(log10(number)))}f}"


def _label(unit: str, number: float) -> str:
    return f"{_figure(number)}{unit}"


def _ticks(unit: str, least: float, most: float) -> Iterator[tuple[float, str]]:
    return powers(least, most, lambda place: f"{_short(place)}{unit}")


def _short(number: float) -> str:
    """A round number with no more behind the point than it has."""
    written = f"{number:,.{max(0, 5 - floor(log10(number)))}f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def _axis(measure: str, unit: str, **words: Any) -> Axis:
    label: Callable[[float], str] = partial(_label, unit)
    return Axis(
        key=measure,
        best="Best for its cost",
        lacking=("flag_reason", "apart", "superseded_by"),
        places=partial(of_a_question, measure),
        label=label,
        scaled=log10,
        room=0.05,
        ticks=partial(_ticks, unit),
        **words,
    )


TOKENS = _axis(
    "tokens",
    "",
    heading="Score against tokens",
    lede="How much text does a model read and write for its score? Each dot is a model with its "
    "tokens per question; the stepped line leads along those that no thriftier or equal one beats.",
    against="against tokens per question",
    across="tokens per question, on a logarithmic scale",
    column="Tokens per question",
    models_by="by tokens per question",
    left_out="flagged, superseded, not ranked with the others, or without a count of their tokens",
    reads="tokens of a question to the right, read and written together, each request in full: "
    "each tenfold is equally far",
    nothing="and a count of its tokens",
)
SECONDS = _axis(
    "seconds",
    " s",
    heading="Score against seconds",
    lede="How long does a model take for its score? Each dot is a model with the seconds that the "
    "machine it ran on worked on a question; the stepped line leads along those that no faster or "
    "equal one beats.",
    against="against seconds per question",
    across="seconds per question, on a logarithmic scale",
    column="Seconds per question",
    models_by="by seconds per question",
    left_out="flagged, superseded, not ranked with the others, or not timed on this kind of "
    "machine",
    reads="seconds of a question to the right, many being answered at once: each tenfold is "
    "equally far",
    nothing="and was timed on a kind of machine that is known",
    machines=partial(machines_of, "seconds"),
)
JOULES = _axis(
    "joules",
    " J",
    heading="Score against energy",
    lede="How much energy does a model take for its score? Each dot is a model with the joules "
    "that the counters of the machine it ran on counted for a question; the stepped line leads "
    "along those that no thriftier or equal one beats.",
    against="against energy per question",
    across="joules per question, on a logarithmic scale",
    column="Joules per question",
    models_by="by energy per question",
    left_out="flagged, superseded, not ranked with the others, or without counters on this kind of "
    "machine",
    reads="joules of a question to the right: each tenfold is equally far",
    nothing="and an energy that counters counted",
    machines=partial(machines_of, "joules"),
)
