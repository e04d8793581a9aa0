"""Checks that an answer is of its request alone: not of its company, its place, or the time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from evalcore.model.base import Request
from evalcore.model.conformance.examinee import (
    CONTEXTS,
    SCORED,
    Answer,
    Examinee,
    Failed,
    NotAsked,
    shown,
    written,
)


def batch(examinee: Examinee) -> str:
    """Asked alone, a request has the answer that it has among others."""
    requests = _requests(examinee)
    together = examinee.ask(requests)
    alone = [examinee.ask([request])[0] for request in requests]
    return _compared(examinee, requests, together, alone, "among others")


def order(examinee: Examinee) -> str:
    """In another order, every request has the answer that it had."""
    requests = _requests(examinee)
    first = examinee.ask(requests)
    places = list(range(len(requests)))
    random.Random(1).shuffle(places)  # noqa: S311
    shuffled = examinee.ask([requests[place] for place in places])
    again = [shuffled[places.index(place)] for place in range(len(requests))]
    return _compared(examinee, requests, again, first, "in another order")


def determinism(examinee: Examinee) -> str:
    """Asked again, it answers the same."""
    requests = _requests(examinee)
    first = examinee.ask(requests)
    return _compared(examinee, requests, examinee.ask(requests), first, "asked again")


def _requests(examinee: Examinee) -> list[Request]:
    requests: list[Request] = []
    if examinee.can.loglikelihood:
        requests += SCORED
    if examinee.can.rolling:
        requests += [Request("loglikelihood_rolling", "", context) for context in CONTEXTS]
    if examinee.can.generate:
        requests += [written(context) for context in CONTEXTS]
    if not requests:
        raise NotAsked("it states that it answers nothing")
    return requests


def _compared(
    examinee: Examinee,
    requests: Sequence[Request],
    found: Sequence[Answer],
    expected: Sequence[Answer],
    when: str,
) -> str:
    def pairs() -> Iterator[tuple[float, float, str]]:
        for request, (_, one), (_, other) in zip(requests, found, expected, strict=True):
            what = f"{shown(request)}, {when}"
            if one.text != other.text and not examinee.is_half:
                raise Failed(f"{what}: {one.text!r}, expected {other.text!r}")
            if one.is_greedy != other.is_greedy and not examinee.is_half:
                raise Failed(f"{what}: another greedy flag, {one.is_greedy}")
            yield one.loglikelihood, other.loglikelihood, what

    return examinee.apart(pairs())
