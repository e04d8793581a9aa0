"""How far an engine's answers are from the reference's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench.engines import Answer, Ask

ABSOLUTE, RELATIVE = 1e-4, 1e-6
"""Nats, and their share of the loglikelihood, by which float32 may differ."""


@dataclass(frozen=True)
class Difference:
    """Of all answers to a workload."""

    largest: float | None
    """Nats; None where texts were written."""
    beyond: int
    """Loglikelihoods that differ by more than ABSOLUTE + RELATIVE·|LL|."""
    changed: int | None
    """Documents with another pick (by loglikelihood, or by that of a byte) or another greedy flag,
    or texts that differ; None where nothing is predicted."""


def difference(
    asks: Sequence[Ask], found: Sequence[Answer], reference: Sequence[Answer]
) -> Difference:
    """Raises ValueError for a request without an answer."""
    pairs = list(zip(asks, found, reference, strict=True))
    if asks[0].kind == "generate_until":
        return Difference(None, 0, sum(one.text != right.text for _, one, right in pairs))
    gaps = [(_ll(one), _ll(right)) for _, one, right in pairs]
    return Difference(
        max(abs(one - right) for one, right in gaps),
        sum(abs(one - right) > ABSOLUTE + RELATIVE * abs(right) for one, right in gaps),
        _changed(pairs) if asks[0].kind == "loglikelihood" else None,
    )


def _changed(pairs: Sequence[tuple[Ask, Answer, Answer]]) -> int:
    documents: dict[int, list[tuple[Ask, Answer, Answer]]] = defaultdict(list)
    for pair in pairs:
        documents[pair[0].document].append(pair)
    changed = 0
    for of_one in documents.values():
        sizes = [max(1, len(ask.continuation.strip().encode())) for ask, _, _ in of_one]
        found = [answer for _, answer, _ in of_one]
        right = [answer for _, _, answer in of_one]
        changed += _picks(found, sizes) != _picks(right, sizes)
    return changed


def _picks(answers: Sequence[Answer], sizes: Sequence[int]) -> tuple[int, int, list[bool | None]]:
    """The pick by loglikelihood, the pick by that of a byte, and the greedy flags."""
    lls = [_ll(answer) for answer in answers]
    of_bytes = [ll / size for ll, size in zip(lls, sizes, strict=True)]
    flags = [answer.greedy for answer in answers]
    return lls.index(max(lls)), of_bytes.index(max(of_bytes)), flags


def _ll(answer: Answer) -> float:
    if answer.loglikelihood is None:
        raise ValueError("a request without a loglikelihood")
    return answer.loglikelihood
