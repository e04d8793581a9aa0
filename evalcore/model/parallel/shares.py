"""Requests divided into shares: what one copy of the model is given at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalcore.model.base import EncodedRequest
from evalcore.model.writing.generation import GenerationRequest

SHARES_OF_EACH = 4
"""So many for each copy, that none waits long for the last one; and so few, that what prompts begin
with alike is computed seldom again."""

LEAST = 16_384
"""Tokens of a share: of a smaller one too much goes into the check of how to compute it."""


def shares_of(requests: Sequence[EncodedRequest], copies: int) -> Iterator[range]:
    """The places of the requests in each share: neighbours stay together, as they begin alike."""
    costs = [_cost(request) for request in requests]
    wanted = max(1, min(copies * SHARES_OF_EACH, max(sum(costs) // LEAST, copies)))
    most = sum(costs) / wanted
    begin = 0
    spent = 0.0
    for place, cost in enumerate(costs):
        spent += cost
        if spent >= most:
            yield range(begin, place + 1)
            begin, spent = place + 1, 0.0
    if begin < len(requests):
        yield range(begin, len(requests))


def _cost(request: EncodedRequest) -> int:
    """Tokens to read and to write, at most."""
    if isinstance(request, GenerationRequest):
        return len(request.tokens) + request.plan.max_new_tokens
    return len(request.tokens) + len(request.targets)
