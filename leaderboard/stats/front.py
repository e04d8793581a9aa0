"""Which of many are best for what they cost, and where the line along them bends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def front(across: Values, value: Values) -> NDArray[np.bool_]:
    """Of points from left to right, at one place the highest first: those that none dominates.

    One dominates another that is no higher and not to its left, unless both are equal in both.
    """
    found = np.zeros(len(across), np.bool_)
    best, place = -np.inf, np.nan
    for at, (x, height) in enumerate(zip(across, value, strict=True)):
        if height > best or (height == best and x == place):
            found[at], best, place = True, height, x
    return found


def bend(along: Values, value: Values, step: float = 1.0) -> int:
    """Where a rising line bends most: its point farthest above the chord between its ends, of those
    that leave a `step` to the right."""
    above = value - np.interp(along, along[[0, -1]], value[[0, -1]])
    return int(np.argmax(np.where(along[-1] - along >= step, above, -np.inf)))
