"""Which examples precede a question.

`compat` draws as lm-eval 0.4.13 does in one process, leaks included: one stream of random numbers
per task, consumed document by document, so an example depends on all documents before it.
`strict` draws for each document by itself, keyed by (seed, task, document), and never shows a
question among its own examples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from evalcore.errors import TaskError

Doc = dict[str, Any]

SAMPLERS = ("default", "first_n")


@dataclass(frozen=True, slots=True)
class Question:
    """The document that examples are drawn for."""

    doc: Doc
    digest: str
    occurrence: int
    """How many documents of the split before this one are identical to it."""
    row_in_pool: int | None
    """Where the document itself lies in the pool, if it does."""


class Sampler(Protocol):
    """Draws the examples of one document as rows of the pool."""

    def draw(self, question: Question) -> list[int]: ...


@dataclass
class CompatSampler:
    """lm-eval's draw. Must be asked for the documents in order, from the first.

    `exclude` is its rule for leaving out the question: only where the examples' split has the
    test split's name, which holds, too, where neither is named.
    """

    pool: Sequence[Doc]
    shots: int
    seed: int
    exclude: bool
    first_n: bool

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311

    def draw(self, question: Question) -> list[int]:
        drawn = self._first(question.doc) if self.first_n else self._at_random(question.doc)
        if len(drawn) < self.shots:
            raise TaskError(f"{self.shots} examples are asked for, the pool has {len(drawn)}")
        return drawn

    def _first(self, doc: Doc) -> list[int]:
        rows = range(len(self.pool))
        usable = (row for row in rows if not self.exclude or self.pool[row] != doc)
        return list(islice(usable, self.shots))

    def _at_random(self, doc: Doc) -> list[int]:
        if not self.exclude:
            return self._sample(range(len(self.pool)), self.shots)
        one_more = self._sample(range(len(self.pool)), self.shots + 1)
        rows = self._without(doc, one_more)[: self.shots]
        if len(rows) == self.shots:
            return rows
        return self._sample(self._without(doc, range(len(self.pool))), self.shots)

    def _without(self, doc: Doc, rows: Sequence[int]) -> list[int]:
        return [row for row in rows if self.pool[row] != doc]

    def _sample(self, rows: Sequence[int], count: int) -> list[int]:
        if count > len(rows):
            raise TaskError(
                f"{self.shots} examples are asked for; drawing them takes {count} documents, "
                f"the pool has {len(rows)}"
            )
        return self._random.sample(rows, count)


@dataclass
class StrictSampler:
    """Independent of limit, order and shard: every document has a generator of its own."""

    pool: Sequence[Doc]
    shots: int
    seed: int
    task: str
    digest_at: Callable[[int], str]
    """The digest of a document of the pool."""
    first_n: bool

    def draw(self, question: Question) -> list[int]:
        rows: list[int] = []
        for row in self._candidates(question):
            # Neither the question itself nor a copy of it in another row.
            if row != question.row_in_pool and self.digest_at(row) != question.digest:
                rows.append(row)
            if len(rows) == self.shots:
                return rows
        raise TaskError(
            f"{self.shots} examples are asked for, the pool has {len(rows)} besides the question"
        )

    def _candidates(self, question: Question) -> Iterable[int]:
        if self.first_n:
            return range(len(self.pool))
        key = f"{self.seed}/{self.task}/{question.digest}/{question.occurrence}"
        return _shuffled(len(self.pool), random.Random(key))  # noqa: S311


def _shuffled(length: int, generator: random.Random) -> Iterator[int]:
    """0 to length - 1 in random order, drawn as needed: a pool may have a million rows."""
    moved: dict[int, int] = {}
    for last in range(length - 1, -1, -1):
        row = generator.randrange(last + 1)
        yield moved.get(row, row)
        moved[row] = moved.get(last, last)
