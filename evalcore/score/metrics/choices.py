"""Metrics of multiple choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evalcore.errors import TaskError
from evalcore.score.answered import Answered
from evalcore.task.asking.gold import NO_CHOICE


def pick_acc(answered: Answered) -> int:
    return answered.choices.likeliest


def pick_acc_norm(answered: Answered) -> int:
    """Per character, as lm-evaluation-harness computes it (its paper says bytes)."""
    return answered.choices.likeliest_per([len(text) for text in answered.choices.texts])


def pick_acc_bytes(answered: Answered) -> int:
    return answered.choices.likeliest_per([len(text.encode()) for text in answered.choices.texts])


def pick_acc_tokens(answered: Answered) -> int:
    tokens = answered.choices.tokens
    if not any(tokens):
        raise TaskError("acc_tokens: this model does not say how many tokens it scored")
    return answered.choices.likeliest_per(tokens)


def pick_acc_mutual_info(answered: Answered) -> int:
    """The choice that the question makes more likely than it is by itself, by the widest ratio."""
    choices = answered.choices
    if not choices.without_context:
        raise TaskError(
            "acc_mutual_info: the choices were not scored without the question: "
            "name the metric in metric_list or in metadata.extra_metrics"
        )
    gains = [
        given - alone
        for given, alone in zip(choices.loglikelihoods, choices.without_context, strict=True)
    ]
    return int(np.argmax(gains))


def exact_match(answered: Answered) -> int:
    """Whether every token of a right choice is the model's first guess."""
    choices = answered.choices
    return int(any(choices.is_greedy[gold] for gold in choices.gold if gold != NO_CHOICE))


def gold_and_pick(answered: Answered) -> tuple[Any, int]:
    """For what is computed from all documents at once: the right class and the predicted one."""
    return answered.choices.answer, answered.choices.likeliest


def gold_and_probabilities(answered: Answered) -> tuple[Any, Any]:
    return answered.choices.answer, answered.choices.probabilities


def gold_and_loglikelihoods(answered: Answered) -> tuple[Any, tuple[float, ...]]:
    return answered.choices.answer, answered.choices.loglikelihoods


def loglikelihood_of_gold(answered: Answered) -> float:
    """Of the likeliest right choice, in nats."""
    return max(answered.choices.loglikelihoods[gold] for gold in answered.choices.gold)


PICKS = {
    "acc": pick_acc,
    "acc_norm": pick_acc_norm,
    "acc_bytes": pick_acc_bytes,
    "acc_tokens": pick_acc_tokens,
    "acc_mutual_info": pick_acc_mutual_info,
}
"""Which choice a metric takes for the model's answer; other metrics take that of acc."""


def share_of(metric: str) -> Callable[[Answered], float]:
    """Whether the choice that this metric of PICKS takes is right."""
    return lambda answered: float(PICKS[metric](answered) in answered.choices.gold)
