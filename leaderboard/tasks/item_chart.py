"""The questions of a column in one picture: how hard each is, and whether it tells models apart.

Drawn on the server, in percent across and pixels down, so that text keeps its size at any width.
Near dots are one dot: its area says how many questions it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from django.utils.safestring import SafeString, mark_safe

from leaderboard.tasks.items import Table

HEIGHT, TOP, BOTTOM = 320, 18, 44
"""Pixels: of the chart, above its plot and below."""
LEFT, RIGHT = 9.0, 98.0
"""Percent: the ends of the plot."""
ACROSS, DOWN = 72, 36
"""Cells of the grid in which near questions are counted together."""
SMALLEST, LARGEST = 2.2, 9.0
"""Radius in pixels."""
_SUSPECT = ' class="suspect"'


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    radius: float
    n: int
    suspicious: bool


@dataclass(frozen=True)
class Chart:
    dots: list[Dot]
    zero: float
    """Where the plumb line hangs: questions left of it are got wrong by the better models."""
    ticks: list[tuple[float, str]]
    levels: list[tuple[float, str]]
    alike: int
    """Questions that all models answer alike; they have no place."""
    height: int = HEIGHT
    bottom: int = HEIGHT - BOTTOM

    @property
    def circles(self) -> SafeString:
        """All dots, the largest first: hundreds, which a template would take its time over."""
        drawn = (
            f'<circle{_SUSPECT if dot.suspicious else ""} cx="{dot.x:.2f}%" '
            f'cy="{dot.y:.1f}" r="{dot.radius:.1f}"/>'
            for dot in self.dots
        )
        return mark_safe("\n".join(drawn))  # noqa: S308 numbers of our own


def chart(table: Table) -> Chart:
    shown = table.defined
    discrimination = table.discrimination[shown]
    low = min(-0.2, float(np.floor(10 * discrimination.min(initial=0.0)) / 10))
    high = max(0.6, float(np.ceil(10 * discrimination.max(initial=0.0)) / 10))
    steps = np.arange(np.ceil(low * 5), np.floor(high * 5) + 1) / 5
    return Chart(
        dots=_dots(discrimination, table.difficulty[shown], table.suspicious[shown], low, high),
        zero=_x(0.0, low, high),
        ticks=[(_x(float(step), low, high), f"{step:.1f}".replace("-", "−")) for step in steps],
        levels=[(_y(share), f"{100 * share:.0f}%") for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        alike=int((~shown).sum()),
    )


def _dots(
    discrimination: np.ndarray[tuple[int], np.dtype[np.float32]],
    difficulty: np.ndarray[tuple[int], np.dtype[np.float32]],
    suspicious: np.ndarray[tuple[int], np.dtype[np.bool_]],
    low: float,
    high: float,
) -> list[Dot]:
    across = np.clip(((discrimination - low) / (high - low) * ACROSS).astype(int), 0, ACROSS - 1)
    down = np.clip((difficulty * DOWN).astype(int), 0, DOWN - 1)
    cells = (suspicious * DOWN + down) * ACROSS + across
    found, counts = np.unique(cells, return_counts=True)
    most = counts.max(initial=1)
    dots = []
    for cell, n in zip(found.tolist(), counts.tolist(), strict=True):
        row, column = divmod(cell, ACROSS)
        wrong, level = divmod(row, DOWN)
        x = low + (column + 0.5) / ACROSS * (high - low)
        radius = max(SMALLEST, LARGEST * (n / most) ** 0.5)
        dots.append(Dot(_x(x, low, high), _y((level + 0.5) / DOWN), radius, n, bool(wrong)))
    return sorted(dots, key=lambda dot: -dot.radius)


def _x(value: float, low: float, high: float) -> float:
    return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)


def _y(share: float) -> float:
    return TOP + (HEIGHT - BOTTOM - TOP) * (1 - share)
