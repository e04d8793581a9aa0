"""Metrics of how likely a given text is."""

from __future__ import annotations

import re

from evalcore.errors import TaskError
from evalcore.score.answered import Answered


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
