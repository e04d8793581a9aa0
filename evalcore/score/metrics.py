"""Metrics: what one document's responses are worth. `docs/method.md` has a paragraph for each.

A new metric is one function and its line in METRICS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from evalcore.errors import TaskError


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One multiple-choice document with its responses, choices in the task's order."""

    choices: Sequence[str]
    """Texts of the choices, without the delimiter that was sent before them."""
    loglikelihoods: Sequence[float]
    gold: Sequence[int]
    """Indexes of the right choices; a pick of any of them is right."""


def likeliest(answered: Answered) -> int:
    """The choice with the highest loglikelihood; of equal ones the first."""
    return _first_of_highest(answered.loglikelihoods)


def likeliest_per_character(answered: Answered) -> int:
    """The choice with the highest loglikelihood per character of its text.

    Characters, as lm-evaluation-harness computes it (its paper says bytes). An empty choice is
    never picked: nothing per no character has no value.
    """
    return _first_of_highest(
        [
            loglikelihood / len(choice) if choice else -inf
            for loglikelihood, choice in zip(answered.loglikelihoods, answered.choices, strict=True)
        ]
    )


@dataclass(frozen=True)
class Metric:
    """A way to pick a choice; the score is 1 where the pick is right, else 0."""

    pick: Callable[[Answered], int]
    higher_is_better: bool = True

    def score(self, answered: Answered) -> float:
        return float(self.pick(answered) in answered.gold)


METRICS: Mapping[str, Metric] = {
    "acc": Metric(likeliest),
    "acc_norm": Metric(likeliest_per_character),
}


def metric(name: str, task: str) -> Metric:
    """The metric of that name; raises TaskError naming those that there are."""
    if name not in METRICS:
        known = ", ".join(METRICS)
        raise TaskError(f"{task}: metric_list: no metric {name!r} here; known are {known}")
    return METRICS[name]


def _first_of_highest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda index: (values[index], -index))
