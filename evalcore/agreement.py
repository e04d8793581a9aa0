"""Did two backends give the same answers? Read `agreement_of` first.

One model on the same requests, computed twice: response by response. Where the answers lie within
the bounds below, what moved between the backends is rounding, and their scores mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from evalcore.record import ResultRow, RunRecord

SAMPLE_FIELDS = ("task", "doc_id", "doc_digest", "correct", "responses")
"""Of each sample, what is compared."""

BOUNDS = (1e-3, 1e-5)
"""In nats, and as a share of the loglikelihood: how far two answers to one request may lie apart.
Sums of the same float32 products in another order differ by less."""
HALF_PRECISION = dict.fromkeys(("bfloat16", "float16"), (0.1, 2e-2))
"""The same where what goes from layer to layer is rounded to 8 or 11 bits."""
MOST_SCORED_OTHERWISE = 0.02
"""Share of documents whose score may differ: near ties, and texts that part at one."""
MOST_OF_ERROR = 0.25
"""How far the score may move, in its standard errors: too little to change what it says."""


class NotTheSame(ValueError):
    """The two runs are no two computations of the same: what differs, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What lies between two backends' answers to one task."""

    task: str
    documents: int
    responses: int
    largest: float
    """Between the loglikelihoods of one request, in nats; 0 where only texts were asked for."""
    beyond: int
    """Loglikelihoods further apart than the bound."""
    flags: int
    """Greedy flags that differ."""
    texts: int
    """Written texts that differ."""
    scored_otherwise: int
    """Documents with another score."""
    difference: float
    """Of the scores, the first less the second."""
    stderr: float | None
    """Of the first score."""

    @property
    def problems(self) -> list[str]:
        """Each bound that is passed, in words; none where the backends agree."""
        found = []
        if self.beyond:
            found.append(f"{self.beyond} of {self.responses} loglikelihoods are too far apart")
        if self.scored_otherwise > MOST_SCORED_OTHERWISE * self.documents:
            found.append(f"{self.scored_otherwise} of {self.documents} documents score otherwise")
        if abs(self.difference) > MOST_OF_ERROR * (self.stderr or 0.0):
            found.append(f"the score moves by {self.difference:+.4f}")
        return found

    @property
    def within(self) -> bool:
        return not self.problems


def agreement_of(
    first: RunRecord,
    first_samples: Iterable[Mapping[str, Any]],
    second: RunRecord,
    second_samples: Iterable[Mapping[str, Any]],
) -> Agreement:
    """Two runs of one model on one task, by their records and samples (with SAMPLE_FIELDS).

    Reads both streams once, side by side. Raises NotTheSame.
    """
    _check(first, second)
    bounds = HALF_PRECISION.get(str(first.model["dtype"]), BOUNDS)
    documents = responses = beyond = flags = texts = otherwise = 0
    largest = 0.0
    for one, other in _side_by_side(first_samples, second_samples):
        documents += 1
        otherwise += one["correct"] != other["correct"]
        for answer, twin in _answers(one, other):
            responses += 1
            if answer["kind"] == "generate_until":
                texts += answer["text"] != twin["text"]
                continue
            apart = abs(answer["loglikelihood"] - twin["loglikelihood"])
            largest = max(largest, apart)
            beyond += not apart <= bounds[0] + bounds[1] * abs(answer["loglikelihood"])
            flags += answer["is_greedy"] != twin["is_greedy"]
    a, b = _primary(first), _primary(second)
    return Agreement(
        task=first.task,
        documents=documents,
        responses=responses,
        largest=largest,
        beyond=beyond,
        flags=flags,
        texts=texts,
        scored_otherwise=otherwise,
        difference=a.value - b.value,
        stderr=a.stderr,
    )


_SAME: tuple[tuple[str, str], ...] = (
    ("repository", "model"),
    ("commit", "commit"),
    ("files_digest", "files"),
    ("dtype", "precision"),
    ("quantisation", "quantisation"),
    ("adapter", "adapter"),
    ("delta", "delta"),
    ("tokenizer_digest", "tokenizer"),
    ("max_length", "context length"),
)
"""Pins of a model that two computations of it share, and what they are called."""


def _check(first: RunRecord, second: RunRecord) -> None:
    for pin, name in _SAME:
        one, other = first.model.get(pin), second.model.get(pin)
        if one != other:
            raise NotTheSame(
                f"{first.task}: another {name} ({one} and {other}): compare two runs of one model"
            )
    for key, name in (("run_key", "way of asking"), ("docs_digest", "documents")):
        if getattr(first, key) != getattr(second, key):
            raise NotTheSame(
                f"{first.task}: another {name}: run both with the same tasks and options"
            )


def _side_by_side(
    first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for one, other in zip_longest(first, second):
        if one is None or other is None:
            raise NotTheSame("one of the sample files ends before the other: take them whole")
        same = all(one[name] == other[name] for name in ("task", "doc_id", "doc_digest"))
        if not same or len(one["responses"]) != len(other["responses"]):
            raise NotTheSame(
                f"{one['task']}, document {one['doc_id']}: the other run has another one there"
            )
        yield one, other


def _answers(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for answer, twin in zip(one["responses"], other["responses"], strict=True):
        if answer["kind"] != "generate_until" and answer["key"] != twin["key"]:
            raise NotTheSame(
                f"{one['task']}, document {one['doc_id']}: the two were fed other tokens"
            )
        yield answer, twin


def _primary(record: RunRecord) -> ResultRow:
    """The task's own number in its primary metric; its first one where that has none."""
    own = record.own_results()
    if not own:
        raise NotTheSame(f"{record.task}: a run without a number")
    return next((row for row in own if row.metric == record.primary_metric), own[0])
