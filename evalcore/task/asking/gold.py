"""Which choices are right: from what `doc_to_target` gives to positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NO_CHOICE = -100
"""In compat the gold of an answer that is none of the choices: it scores 0, as in lm-eval."""


def gold_of(answer: Any, choices: Sequence[str]) -> list[int]:
    """The positions of the right choices; NO_CHOICE stands for an answer that is none of them."""
    stated = answer if isinstance(answer, list) else [answer]
    return [_position(target, choices) for target in stated]


def _position(answer: Any, choices: Sequence[str]) -> int:
    if isinstance(answer, str):
        return choices.index(answer) if answer in choices else NO_CHOICE
    # A column of labels may hold 1.0, which is the choice at 1.
    return int(answer) if answer in range(len(choices)) else NO_CHOICE
