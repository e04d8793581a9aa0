"""DocVQA (Mathew et al. 2021, arXiv:2007.00398): answers right as far as their letters are.

Source of the measure: Biten et al. 2019 (arXiv:1905.13648), ANLS, with its threshold of one half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

THRESHOLD = 0.5
"""Of the letters; from here on an answer counts as wrong, not as nearly right."""


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """`anls`: the best over the right answers; `exact_match`: whether it is one of them."""
    said = _plain(results[0])
    right = [_plain(answer) for answer in doc["answers"]]
    return {
        "anls": max((nearness(said, answer) for answer in right), default=0.0),
        "exact_match": float(said in right),
    }


def nearness(said: str, right: str) -> float:
    """One less the edits, as a share of the longer text's letters; 0 from half of them on."""
    longest = max(len(said), len(right))
    apart = edits(said, right) / longest if longest else 0.0
    return 1.0 - apart if apart < THRESHOLD else 0.0


def edits(one: str, other: str) -> int:
    """Levenshtein's distance: letters put in, left out or replaced."""
    before = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        now = [row]
        for place, against in enumerate(other, start=1):
            replaced = before[place - 1] + (letter != against)
            now.append(min(replaced, before[place] + 1, now[-1] + 1))
        before = now
    return before[-1]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
