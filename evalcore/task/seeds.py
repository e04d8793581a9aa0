"""The state of the global random generators while task code runs."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_in_use = threading.RLock()
"""The generators are the whole process's: whoever draws from them keeps other threads out."""


@contextmanager
def fixed_randomness() -> Iterator[None]:
    """lm-eval's seeds for code that draws from the global generators, whatever ran before.

    One thread at a time: what another draws meanwhile would change what this one gets.
    """
    with _in_use:
        python_state, numpy_state = random.getstate(), np.random.get_state()
        random.seed(0)
        np.random.seed(1234)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
