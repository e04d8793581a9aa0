"""The interface of a filter, as task code that derives from it knows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Resps = Iterable[Any]
"""For each request the list of its results; after a selection one result for each."""
Docs = Sequence[dict[str, Any]]


class Filter:
    """Turns the results of all requests of a task into others, in the same order."""

    def __init__(self, **kwargs: Any) -> None:
        """Task code passes on what it does not know."""

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:
        """For each request what becomes of its results; `docs` has the document of each."""
        raise NotImplementedError


class EachFilter(Filter):
    """Makes of each result by itself another one."""

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:  # noqa: ARG002
        return [[self.of(result) for result in results] for results in resps]

    def of(self, result: Any) -> Any:
        raise NotImplementedError
