"""How many of thousands of points lie to the left of and below each of thousands of places?

Comparing two orders is counting such pairs. A wavelet tree counts them in log n steps on whole
arrays (Grossi, Gupta and Vitter 2003): the points, in order of x, are split by one binary digit of
their rank in y after the other, and a place follows the digits of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def count_below(x: Values, y: Values, at_x: Values, at_y: Values) -> NDArray[np.int64]:
    """For each place (at_x, at_y) the number of points (x, y) with x < at_x and y < at_y.

    `x` and `y` have shape (points,), `at_x` and `at_y` shape (places,).
    """
    rank = np.empty(len(y), dtype=np.int64)
    rank[np.argsort(y, kind="stable")] = np.arange(len(y))
    digits = rank[np.argsort(x, kind="stable")]
    threshold = np.searchsorted(np.sort(y), at_y, side="left")
    first = np.zeros(len(at_x), dtype=np.int64)
    last = np.searchsorted(np.sort(x), at_x, side="left")
    found = np.zeros(len(at_x), dtype=np.int64)
    for place in reversed(range(len(y).bit_length())):
        zero = (digits >> place & 1) == 0
        zeros = np.concatenate([[0], np.cumsum(zero)])
        first_zeros, last_zeros = zeros[first], zeros[last]
        one = (threshold >> place & 1) == 1
        # Where the threshold has a 1 here, all that have a 0 and agree above it are smaller.
        found += np.where(one, last_zeros - first_zeros, 0)
        first = np.where(one, zeros[-1] + first - first_zeros, first_zeros)
        last = np.where(one, zeros[-1] + last - last_zeros, last_zeros)
        digits = np.concatenate([digits[zero], digits[~zero]])
    return found
