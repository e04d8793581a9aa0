"""Metrics of several texts for one question: is one of them right, how many, is the majority?

Each takes the accepted answers and all texts of the document, and what `exact_match` takes: a text
is right where it equals an accepted answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from evalcore.errors import TaskError
from evalcore.score.metrics.text import exact_match
from evalcore.stats import pass_at_k as unbiased


def pass_at_k(golds: Sequence[Any], answers: Sequence[Any], *, k: int, **arguments: Any) -> float:
    """Chance that one of k texts is right: `1 - C(n - c, k) / C(n, k)` with c of n right.

    Chen et al. 2021, eq. 1: without bias, unlike `1 - (1 - c / n)^k`.
    """
    _require(answers, k, "pass")
    right = sum(_is_right(golds, answer, arguments) for answer in answers)
    return unbiased(len(answers), right, k)


def average_at_k(
    golds: Sequence[Any], answers: Sequence[Any], *, k: int, **arguments: Any
) -> float:
    """Share of the first k texts that are right."""
    _require(answers, k, "avg")
    return sum(_is_right(golds, answer, arguments) for answer in answers[:k]) / k


def majority_at_k(
    golds: Sequence[Any], answers: Sequence[Any], *, k: int, **arguments: Any
) -> float:
    """Whether the most frequent of the first k texts is right; of equally frequent ones the first.

    Self-consistency, Wang et al. 2023.
    """
    _require(answers, k, "majority")
    texts: list[Hashable] = list(answers[:k])
    return float(_is_right(golds, Counter(texts).most_common(1)[0][0], arguments))


def _is_right(golds: Sequence[Any], answer: Any, arguments: dict[str, Any]) -> bool:
    return any(exact_match([gold], [answer], **arguments)["exact_match"] == 1.0 for gold in golds)


def _require(answers: Sequence[Any], k: int, family: str) -> None:
    if len(answers) < k:
        raise TaskError(
            f"{family}@{k} needs {k} texts for each document, there are {len(answers)}: "
            f"set the task's `repeats` to {k} or more"
        )
