"""Which examples precede a question.

`compat` draws as lm-eval 0.4.13 does in one process, leaks included: one stream of random numbers
per task, consumed document by document, so an example depends on all documents before it.
`strict` draws for each document by itself, keyed by (seed, benchmark, document), so that all styles
of a benchmark show it the same examples, and never shows a question among its own; or, `fixed`,
once for all documents of a task, so that their prompts begin alike. The balanced draw, which
lm-eval does not have, is that of strict. A change of what strict draws is a new `DRAW_VERSION`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol, TypeVar

from evalcore.errors import TaskError
from evalcore.task.asking.likeness import Asked
from evalcore.task.asking.prompt import Doc

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """The document that examples are drawn for."""

    doc: Doc
    row_digest: str
    """Of the row of the data set that the document was made from, whatever a style made of it."""
    occurrence: int
    """How many rows of the split before this one are identical to it."""
    row_in_pool: int | None
    """Where the document itself lies in the pool, if it does."""
    asked: Callable[[], Asked]
    """What it asks, read where it is needed: some functions of tasks draw as they read."""

    def key(self, seed: int, benchmark: str) -> str:
        """What a draw that depends on nothing but the document is seeded by."""
        return f"{seed}/{benchmark}/{self.row_digest}/{self.occurrence}"


class Sampler(Protocol):
    """Draws the examples of one document."""

    def draw(self, question: Question) -> list[int]:
        """The examples as rows of the pool."""
        ...

    def doc(self, row: int) -> Doc:
        """The document at a row that was drawn."""
        ...


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
        self._docs: dict[int, Doc] = {}

    def draw(self, question: Question) -> list[int]:
        drawn = self._first(question.doc) if self.first_n else self._at_random(question.doc)
        if len(drawn) < self.shots:
            raise TaskError(f"{self.shots} examples are asked for, the pool has {len(drawn)}")
        return drawn

    def doc(self, row: int) -> Doc:
        if row not in self._docs:  # the same few are compared with every question
            self._docs[row] = self.pool[row]
        return self._docs[row]

    def _first(self, doc: Doc) -> list[int]:
        rows = range(len(self.pool))
        usable = (row for row in rows if not self.exclude or self.doc(row) != doc)
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
        return [row for row in rows if self.doc(row) != doc]

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
    benchmark: str
    asked_at: Callable[[int], Asked]
    """What a document of the pool asks."""
    first_n: bool
    indices: Sequence[int] | None = None
    """The rows of the pool that may be shown; None: all."""

    def draw(self, question: Question) -> list[int]:
        asked = question.asked()
        usable = (
            row
            for row in self._candidates(question)
            if self._may_be_shown(row, question.row_in_pool, asked)
        )
        rows = list(islice(usable, self.shots))
        if len(rows) < self.shots:
            raise self._too_few(len(rows))
        return rows

    def _may_be_shown(self, row: int, own_row: int | None, asked: Asked) -> bool:
        """Neither the question itself nor a copy of it in another row."""
        return row != own_row and not self.asked_at(row).is_copy(asked)

    def _too_few(self, found: int) -> TaskError:
        return TaskError(
            f"{self.shots} examples are asked for, the pool has {found} besides the question"
        )

    def doc(self, row: int) -> Doc:
        return self.pool[row]

    @property
    def _rows(self) -> Sequence[int]:
        return range(len(self.pool)) if self.indices is None else self.indices

    def _candidates(self, question: Question) -> Iterable[int]:
        if self.first_n:
            return self._rows
        return _shuffled(self._rows, random.Random(question.key(self.seed, self.benchmark)))  # noqa: S311


@dataclass
class FixedSampler(StrictSampler):
    """One seeded draw of k + 1 examples for all documents of the task; the last is the spare.

    A question that is among the first k, or a copy of one, has the spare in that place.
    """

    pool_key: str = ""
    """What tells the pools of a benchmark's parts from one another, the same for its styles."""

    def draw(self, question: Question) -> list[int]:
        asked, shown = question.asked(), self._drawn[: self.shots]
        usable = [
            row for row in self._drawn if self._may_be_shown(row, question.row_in_pool, asked)
        ]
        if len(usable) < self.shots:
            raise self._too_few(len(usable))
        spare = iter(row for row in usable if row not in shown)
        return [row if row in usable else next(spare) for row in shown]

    @cached_property
    def _drawn(self) -> list[int]:
        """At most k + 1 rows, no two of them the same question."""
        generator = random.Random(f"{self.seed}/{self.benchmark}/{self.pool_key}")  # noqa: S311
        rows: list[int] = []
        for row in _shuffled(self._rows, generator):
            if not any(self.asked_at(row).is_copy(self.asked_at(other)) for other in rows):
                rows.append(row)
            if len(rows) > self.shots:
                break
        return rows


@dataclass
class BalancedSampler(StrictSampler):
    """Strict's draw, from every answer equally often as far as there are examples of each."""

    answer_at: Callable[[int], str] = str
    """The answer of a document of the pool."""

    def draw(self, question: Question) -> list[int]:
        rows = super().draw(question)
        # In turns, the answers would foretell one another.
        order = random.Random(f"{question.key(self.seed, self.benchmark)}/order")  # noqa: S311
        return order.sample(rows, len(rows))

    def _candidates(self, question: Question) -> Iterator[int]:
        generator = random.Random(question.key(self.seed, self.benchmark))  # noqa: S311
        answers = _shuffled(list(self._rows_of), generator)
        waiting: Iterable[Iterator[int]] = (
            _shuffled(self._rows_of[answer], generator) for answer in answers
        )
        while True:
            again = []
            for rows in waiting:
                if (row := next(rows, None)) is not None:
                    yield row
                    again.append(rows)
            if not again:
                return
            waiting = again

    @cached_property
    def _rows_of(self) -> dict[str, list[int]]:
        rows_of: dict[str, list[int]] = {}
        for row in self._rows:
            rows_of.setdefault(self.answer_at(row), []).append(row)
        return rows_of


def _shuffled(entries: Sequence[T], generator: random.Random) -> Iterator[T]:
    """The entries in random order, drawn as needed: a pool may have a million rows."""
    moved: dict[int, int] = {}
    for last in range(len(entries) - 1, -1, -1):
        index = generator.randrange(last + 1)
        yield entries[moved.get(index, index)]
        moved[index] = moved.get(last, last)
