"""What is punctuation among all of Unicode, found once.

lm-evaluation-harness's filters of letters go through a million characters each time that one is
applied, which is most of the time that they take.
"""

from __future__ import annotations

import builtins
import sys
import unicodedata
from collections.abc import Iterable

from lm_eval.filters import extraction

PUNCTUATION = [
    number for number in range(sys.maxunicode) if unicodedata.category(chr(number)).startswith("P")
]


def find_once() -> None:
    extraction.range = _looked_through


def _looked_through(*limits: int) -> Iterable[int]:
    """What it goes through in search of punctuation: what it would find."""
    return PUNCTUATION if limits == (sys.maxunicode,) else builtins.range(*limits)
