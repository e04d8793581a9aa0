"""Metrics of how likely texts are: of multiple choice, of a continuation, of a whole text."""

from __future__ import annotations

import re
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


def loglikelihood(answered: Answered) -> float:
    """Of the continuation, in nats."""
    return float(answered.results[0][0])


def is_greedy(answered: Answered) -> int:
    """Whether every token of the continuation is the model's first guess."""
    return int(answered.results[0][1])


def loglikelihood_and_words(answered: Answered) -> tuple[float, int]:
    """Of the whole text, with its number of words: the pieces between runs of white space.

    As lm-evaluation-harness counts: white space at an end leaves an empty piece, which counts.
    """
    return float(answered.results[0]), len(re.split(r"\s+", answered.item.target))


def loglikelihood_and_bytes(answered: Answered) -> tuple[float, int]:
    """Of the whole text, with its number of bytes in UTF-8."""
    return float(answered.results[0]), len(answered.item.target.encode())


def loglikelihood_and_tokens(answered: Answered) -> tuple[float, int]:
    """Of the whole text, with its number of tokens that the model scored."""
    tokens = len(answered.responses[0].token_ids)
    if not tokens:
        raise TaskError("token_perplexity: this model does not say how many tokens it scored")
    return float(answered.results[0]), tokens
