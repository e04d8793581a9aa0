"""Names beside dots: as many as have room, so that none touches another, a dot or the frame.

The first in a given order comes first, and tries the sides of its dot one after the other; what
fits nowhere has no label. The same dots have the same labels, always.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

SIZE, NARROW_SIZE = 12, 14
"""Letters, in units of the picture. The larger are those of a narrow window: a chart is at least
640 pixels wide there, for 960 units, so that 14 are 9 pixels and 12 would be 8."""
LONGEST = 30
"""Letters of a label; the whole name stands in the dot's title."""
BESIDE, ABOVE = 3.0, 1.0
"""Between a dot's edge and its name."""
LINE = 0.65
"""Of the size, what a line of text takes above its middle, and below it."""
_NARROW, _WIDE, _WIDEST = set("fijlrtI.,:;'!|()[]/- "), set("#&+<=>^~"), set("mwMW@%…")

Side = Literal["right", "left", "above", "below", "above right", "above left"]
SIDES: tuple[Side, ...] = ("right", "left", "above", "below", "above right", "above left")
ON_THE_LINE: tuple[Side, ...] = ("left", "above", "above left", "above right", "right", "below")
"""Of the front: its line leads to the right, and above it on the left is no other dot."""
Anchor = Literal["start", "middle", "end"]
_BEFORE: dict[Anchor, float] = {"start": 0.0, "middle": 0.5, "end": 1.0}
"""Of a text's width, what stands to the left of its place."""


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def touches(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def is_within(self, other: Box) -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )

    def and_to(self, x: float, y: float) -> Box:
        """With all that lies between it and a place."""
        return Box(min(self.left, x), min(self.top, y), max(self.right, x), max(self.bottom, y))


@dataclass(frozen=True)
class Named:
    """A dot that may have a label."""

    name: str
    x: float
    y: float
    radius: float
    sides: tuple[Side, ...] = SIDES


@dataclass(frozen=True)
class Label:
    text: str
    x: float
    y: float
    """Its middle."""
    anchor: Anchor
    narrow: bool
    """It has room in the larger letters of a narrow window, too."""
    box: Box
    """All that it may take, in any window that shows it."""


def labels(
    named: Iterable[Named],
    dots: Sequence[tuple[float, float]],
    radius: float,
    frame: Box,
    lines: Sequence[Box] = (),
) -> list[Label | None]:
    """Of each that is named its label, where there is room; `dots` are all of the picture, the
    named among them, from the left, and none is larger than `radius`. No line goes through a name,
    nor between a name and its dot."""
    lefts = [x for x, _ in dots]
    placed: list[Box] = []
    found: list[Label | None] = []

    def is_free(box: Box) -> bool:
        if not box.is_within(frame) or any(box.touches(other) for other in placed):
            return False
        around = Box(box.left - radius, box.top - radius, box.right + radius, box.bottom + radius)
        start = bisect_left(lefts, around.left)
        for _, y in dots[start : bisect_left(lefts, around.right, start)]:
            if around.top < y < around.bottom:
                return False
        return True

    for one in named:
        label = next(
            (
                label
                for label in _tries(one, radius)
                if is_free(label.box)
                and not any(label.box.and_to(one.x, one.y).touches(line) for line in lines)
            ),
            None,
        )
        if label:
            placed.append(label.box)
        found.append(label)
    return found


def _tries(one: Named, radius: float) -> Iterator[Label]:
    """Every side, in the larger letters first: those who look at a phone have names, too."""
    text = shortened(one.name)
    for size in (NARROW_SIZE, SIZE):
        wide, half = width(text) * size, LINE * size
        # As far as names are kept off any dot, though this one may be a smaller one.
        aside, up = radius + BESIDE, radius + ABOVE
        for side in one.sides:
            x, y = one.x, one.y
            if side in ("right", "left"):
                x += aside if side == "right" else -aside
            else:
                y += up + half if side == "below" else -up - half
            anchor: Anchor = "middle"
            if side.endswith("right"):
                anchor = "start"
            elif side.endswith("left"):
                anchor = "end"
            left = x - wide * _BEFORE[anchor]
            box = Box(left, y - half, left + wide, y + half)
            yield Label(text, round(x, 1), round(y, 1), anchor, size == NARROW_SIZE, box)


def shortened(name: str) -> str:
    """A model's name without its maker's, and without its end where it is long."""
    own = name.rpartition("/")[2] or name
    return own if len(own) <= LONGEST else f"{own[: LONGEST - 1]}…"


def width(text: str) -> float:
    """Of a text in any common sans serif, in units of the size of its letters: rather too much."""
    return sum(_width(letter) for letter in text)


def _width(letter: str) -> float:
    if letter in _WIDEST:
        return 1.02
    if not letter.isascii():
        return 0.0 if unicodedata.combining(letter) else 1.1
    if letter in _NARROW:
        return 0.46
    if letter in _WIDE:
        return 0.85
    return 0.79 if letter.isupper() else 0.65
