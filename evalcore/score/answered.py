"""What a metric sees of one document: the question, and what became of the model's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalcore.errors import TaskError
from evalcore.model.base import Response
from evalcore.task.asking.gold import NO_CHOICE
from evalcore.task.asking.item import Item

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answered:
    """One document with the results of its requests under one filter pipeline.

    A result is (loglikelihood, is_greedy) of a continuation, the loglikelihood of a whole text, or
    a generated text; a filter may have made anything else of it.
    """

    item: Item
    results: Sequence[Any]
    """The filtered result of each request."""
    every: Sequence[Sequence[Any]]
    """For each request all its results, as far as the filters treat them one by one."""
    responses: Sequence[Response]
    """The first response to each request, as the model gave it."""

    @cached_property
    def choices(self) -> Choices:
        item = self.item
        count = len(item.choices)
        if len(self.results) not in (count, 2 * count):
            raise TaskError(f"{len(self.results)} results for {count} choices")
        sums = tuple(result[0] for result in self.results)
        return Choices(
            texts=item.choices,
            loglikelihoods=sums[:count],
            is_greedy=tuple(bool(result[1]) for result in self.results[:count]),
            without_context=sums[count:],
            tokens=tuple(len(response.token_ids) for response in self.responses[:count]),
            gold=_gold(item),
            several=item.several_answers,
        )


@dataclass(frozen=True)
class Choices:
    """A multiple-choice document; all arrays are by choice, loglikelihoods in nats."""

    texts: Sequence[str]
    """Without the delimiter that was sent before them."""
    loglikelihoods: tuple[float, ...]
    is_greedy: tuple[bool, ...]
    without_context: tuple[float, ...]
    """Loglikelihoods of the choices alone; empty where they were not asked for."""
    tokens: tuple[int, ...]
    """How many tokens of each choice were scored; 0 where the model does not say."""
    gold: tuple[int, ...]
    """Right choices by position; NO_CHOICE, or below 0, for an answer that is none."""
    several: bool
    """Whether the task gives a list of right choices for each document."""

    @cached_property
    def likeliest(self) -> int:
        """The choice with the highest loglikelihood; of equal ones the first."""
        return int(np.argmax(self.loglikelihoods))

    def likeliest_per(self, lengths: Sequence[int]) -> int:
        """The choice with the highest loglikelihood per unit of length; never one of length 0."""
        long = np.array(lengths, dtype=np.float64)
        sums = np.array(self.loglikelihoods, dtype=np.float64)
        per_unit = np.divide(sums, long, out=np.full(len(long), -np.inf), where=long > 0)
        return int(np.argmax(per_unit))

    @cached_property
    def probabilities(self) -> Floats:
        """The choices' likelihoods, made to sum to 1."""
        sums = np.array(self.loglikelihoods, dtype=np.float64)
        odds = np.exp(sums - sums.max())
        shares: Floats = odds / odds.sum()
        return shares

    @property
    def answer(self) -> int | list[int]:
        """The right choice, or all of them where the task gives lists."""
        return list(self.gold) if self.several else self.gold[0]


def _gold(item: Item) -> tuple[int, ...]:
    """A number below 0 stands as it is: lm-eval takes it for a position from the end in places."""
    stated = item.answer if isinstance(item.answer, list) else [item.answer]
    if item.choices_are_contexts or len(stated) != len(item.gold):
        return tuple(item.gold)
    return tuple(
        answer if isinstance(answer, int) and answer < 0 and gold == NO_CHOICE else gold
        for gold, answer in zip(item.gold, stated, strict=True)
    )
