"""The keys of loglikelihood requests, many at once.

A key is the SHA-256 of a request's canonical JSON (`EncodedRequest.key_of`). Writing thousands of
token numbers as text costs more than tokenising them did, so each number is written once, and so
is a context that several continuations follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


class _Numbers(dict[int, str]):
    """Each number as text, written when it is first asked for."""

    def __missing__(self, number: int) -> str:
        self[number] = text = str(number)
        return text

    def text(self, numbers: Sequence[int]) -> str:
        return ",".join(map(self.__getitem__, numbers))


class RequestKeys:
    """Makes keys; the numbers that it remembers are those of a vocabulary at most."""

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._context: tuple[Sequence[int], str] = ((), "")

    def key_of(self, tokens: Sequence[int], targets: Sequence[int]) -> str:
        """What `EncodedRequest.key_of` gives. The context is what is fed before all targets."""
        text = self._numbers.text
        n_context = len(tokens) + 1 - len(targets)
        context, rest = tokens[:n_context], tokens[n_context:]
        if context != self._context[0]:
            self._context = (context, text(context))
        fed = ",".join(part for part in (self._context[1], text(rest)) if part)
        request = f'{{"kind":"loglikelihood","targets":[{text(targets)}],"tokens":[{fed}]}}'
        return hashlib.sha256(request.encode()).hexdigest()
