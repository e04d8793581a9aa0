"""Average against size: every model of a board as a dot, and one of them marked.

Sizes are on a logarithmic axis. Dots that would lie on one another are drawn once, as one path, so
that a board of ten thousand models is still a small picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from weakref import WeakKeyDictionary

import numpy as np

from leaderboard.model_pages.neighbours import NEAR
from leaderboard.snapshot import Board, Flags, Floats, Score, positions
from leaderboard.templatetags.figures import parameters
from leaderboard.web import SCALE_STEP

WIDE, TALL = 400, 150
"""Places for dots across and down."""
STEPS = 5
"""Marks on the axis of averages, at most."""


@dataclass(frozen=True)
class Field:
    """The dots of a board and its axes; the same for each of its models."""

    path: str
    models: int
    sizes: tuple[float, float]
    """Decimal logarithms of the parameters at both ends of the axis."""
    averages: tuple[float, float]

    def x(self, size: int) -> float:
        """Percent from the left."""
        return 100 * _share(log10(size), self.sizes)

    def y(self, average: float) -> float:
        """Percent from the top; what lies beyond the axis stands at its end."""
        return 100 * (1 - min(max(_share(average, self.averages), 0.0), 1.0))

    @property
    def size_ticks(self) -> list[tuple[str, str]]:
        """Powers of ten, or all of 1, 2 and 5 where there are few: place in percent and text."""
        low, high = self.sizes
        every = [10**power * digit for power in range(13) for digit in (1, 2, 5)]
        inside = [size for size in every if low <= log10(size) <= high]
        tens = [size for size in inside if str(size)[0] == "1"]
        chosen = tens if len(tens) > 2 else inside
        return [(f"{self.x(size):.2f}%", parameters(size)) for size in chosen]

    @property
    def average_ticks(self) -> list[tuple[str, str]]:
        low, high = (round(end / SCALE_STEP) for end in self.averages)
        step = max(1, ceil((high - low) / STEPS))
        steps = range(low, high + 1, step)
        return [(f"{self.y(at * SCALE_STEP):.2f}%", f"{100 * at * SCALE_STEP:.0f}") for at in steps]


@dataclass(frozen=True)
class SizeChart:
    """One model among all of its board."""

    field: Field
    x: str
    y: str
    low: str
    high: str
    """Places in percent; of the average and of its interval's bounds."""
    near: int
    """Other models of about its size ..."""
    below: int
    """... and how many of them have a lower average."""
    name_left: bool
    """Whether its name stands to the left, for lack of room to the right."""


def size_chart(board: Board, row: int, average: Score | None) -> SizeChart | None:
    """None for a model without an average, and where it would stand alone."""
    size, field = board.models.value(row, "parameters"), _field(board)
    if average is None or field is None:
        return None
    near = _drawn(board) & (np.abs(np.log(_sizes(board) / size)) <= np.log(NEAR))
    near[row] = False
    x = field.x(size)
    return SizeChart(
        field=field,
        x=f"{x:.2f}%",
        y=f"{field.y(average.value):.2f}%",
        low=f"{field.y(average.low):.2f}%",
        high=f"{field.y(average.high):.2f}%",
        near=int(near.sum()),
        below=int((near & (board.average.value < average.value)).sum()),
        name_left=x > 60,
    )


def _drawn(board: Board) -> Flags:
    """Which rows have a dot: those that may be ranked and have an average."""
    return positions.members(board) & ~np.isnan(board.average.value)


def _sizes(board: Board) -> Floats:
    return np.asarray(board.models.array("parameters"), np.float64)


_fields: WeakKeyDictionary[Board, Field | None] = WeakKeyDictionary()
"""Kept as long as the board itself is."""


def _field(board: Board) -> Field | None:
    if board not in _fields:
        rows = _drawn(board)
        _fields[board] = (
            _picture(np.log10(_sizes(board)[rows]), board.average.value[rows])
            if rows.sum() > 1
            else None
        )
    return _fields[board]


def _picture(sizes: Floats, averages: Floats) -> Field:
    ends = float(sizes.min()), float(sizes.max())
    margin = max(0.04 * (ends[1] - ends[0]), 0.05)
    across = ends[0] - margin, ends[1] + margin
    low = floor(round(float(averages.min()) / SCALE_STEP, 9)) * SCALE_STEP
    high = ceil(round(float(averages.max()) / SCALE_STEP, 9)) * SCALE_STEP
    up = (low, high) if high > low else (low - SCALE_STEP, low + SCALE_STEP)
    x = np.rint(WIDE * (sizes - across[0]) / (across[1] - across[0])).astype(int)
    y = np.rint(TALL * (1 - (averages - up[0]) / (up[1] - up[0]))).astype(int)
    places = sorted(set(zip(x.tolist(), y.tolist(), strict=True)))
    path = "".join(f"M{left} {top}h0" for left, top in places)
    return Field(path, len(sizes), across, up)


def _share(value: float, ends: tuple[float, float]) -> float:
    return (value - ends[0]) / (ends[1] - ends[0])
