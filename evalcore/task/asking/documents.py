"""The documents of one task: loaded once, processed once, and kept.

lm-eval runs `process_docs` again between asking and scoring; where it shuffles, answers are then
scored against other choices. Here the document that was asked is the one that is scored.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from evalcore.errors import TaskError, said_of
from evalcore.task.asking.fewshot import Question
from evalcore.task.asking.likeness import AskedBy
from evalcore.task.asking.prompt import Doc, call
from evalcore.task.asking.replayed import Calls, drawing, may_draw
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import TaskData, load_data
from evalcore.task.data.rows import Rows
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.data.undecoded import undecoded
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import doc_digest

INLINE = "(inline)"
"""Stands for the split of examples that are written in the task file; no split can be named so."""


@dataclass(frozen=True)
class Documents:
    """The documents that a task scores, and the pool of its examples."""

    spec: TaskSpec
    limit: float | None = None
    """So many first documents, or below 1 that share of them (rounded up)."""
    samples: Sequence[int] | None = None
    """The rows to score, in any order, instead of all."""
    given: TaskData | None = None
    """The data to read instead of those that the task names."""
    as_lm_eval: bool = False
    """Whether `process_docs` that draws is called as often as lm-eval calls it."""

    @cached_property
    def data(self) -> TaskData:
        if self.given is not None:
            return self.given
        with said_of(self._place):
            return load_data(self.spec)

    @property
    def split(self) -> str:
        split = self.spec.eval_split
        if split is None:
            raise TaskError(f"The task {self.spec.name} names no test_split or validation_split")
        return split

    @cached_property
    def whole(self) -> Sequence[Doc]:
        """The scored split, processed, without the limit."""
        docs = undecoded(
            self._replayed[0]
            if self._replayed
            else self._processed(self.split, self.spec.process_docs)
        )
        if not len(docs):
            raise TaskError(f"{self._place}: {self._why_empty}")
        return docs

    @property
    def _why_empty(self) -> str:
        rows, process = len(self.data.rows(self.split)), self.spec.process_docs
        if process is not None and rows:
            return f"process_docs: {process} leaves none of the {rows} documents of {self.split}"
        return f"{self.data.described}: the split {self.split} has no document"

    @cached_property
    def _replayed(self) -> tuple[Sequence[Doc], Sequence[Doc] | None] | None:
        """The scored documents, and the pool where it is made by a function: as lm-eval has made
        them when it asks. None where nothing draws, or the calls are ours to make."""
        process, of_pool = self.spec.process_docs, self._processing_of_pool
        if not self.as_lm_eval or process is None or not may_draw(process):
            return None
        pool = None
        calls, data, few = Calls(), self.data.split(self.split), self.pool_split
        with drawing(process):
            if few != INLINE and of_pool is not None:
                pool = self._checked(of_pool, calls.of(of_pool, self.data.split(few)))
            calls.of(process, data)
            calls.names_drawn()
            # It is looked at to count for a share, and to check the rows, besides.
            for _ in range((self.limit is not None and self.limit < 1) + bool(self.samples)):
                calls.of(process, data)
            return self._checked(process, calls.of(process, data)), pool

    @property
    def _processing_of_pool(self) -> FunctionRef | None:
        few = self.spec.fewshot
        return few.process_docs if few.split else self.spec.process_docs

    @cached_property
    def rows(self) -> Sequence[int]:
        """Where the scored documents lie in the split, in its order."""
        length = len(self.whole)
        if self.samples:
            if outside := [row for row in self.samples if not 0 <= row < length]:
                raise TaskError(
                    f"The task {self.spec.name}: there is no document {outside[0]} to sample; "
                    f"{self.split} has those from 0 to {length - 1}"
                )
            return sorted(set(self.samples))
        wanted = length if self.limit is None else self.limit
        return range(min(length, math.ceil(length * wanted) if wanted < 1 else int(wanted)))

    @cached_property
    def scored(self) -> list[Doc]:
        """The documents that are scored, in order."""
        if isinstance(self.rows, range):
            return list(islice(self.whole, len(self.rows)))
        return [self.whole[row] for row in self.rows]

    @cached_property
    def columns(self) -> Collection[str]:
        if isinstance(self.whole, Rows):
            return frozenset(self.whole.columns)
        features = getattr(self.whole, "features", None)
        return frozenset(self.scored[0] if features is None else features)

    @cached_property
    def digests(self) -> list[str]:
        """The digests of `scored`. Raises TaskError that names a document without one."""
        place = f"The task {self.spec.name}, document {{}} of {self.split}"
        return [
            _digest(doc, place.format(row)) for row, doc in zip(self.rows, self.scored, strict=True)
        ]

    @property
    def pool_split(self) -> str:
        """Where examples come from: the split named for it, else inline, training, validation."""
        few = self.spec.fewshot
        if few.split:
            return few.split
        if few.samples is not None:
            return INLINE
        return self.spec.training_split or self.spec.validation_split or self.split

    @cached_property
    def pool(self) -> Sequence[Doc]:
        """The examples to draw from; not loaded before it is needed."""
        few = self.spec.fewshot
        if self.pool_split == INLINE:
            samples: Any = few.samples
            if isinstance(samples, FunctionRef):
                with FixedRandomness():
                    given = samples.value()
                    samples = call(samples) if callable(given) else given
            if not isinstance(samples, list) or not all(isinstance(doc, dict) for doc in samples):
                raise TaskError(
                    f"The task {self.spec.name}: fewshot_config.samples must be a list of "
                    f"mappings from column to value, got {samples!r}"
                )
            return samples
        if self._replayed and self._replayed[1] is not None:
            return undecoded(self._replayed[1])
        process = self._processing_of_pool
        if self.pool_split == self.split and process == self.spec.process_docs:
            return self.whole
        return undecoded(self._processed(self.pool_split, process))

    @cached_property
    def pool_digest(self) -> Callable[[int], str]:
        """The digest of the document in a row of the pool, computed at the first need."""
        split = self.pool_split
        return functools.cache(lambda row: _digest(self.pool[row], f"example {row} of {split}"))

    def require_same_rows(self) -> None:
        """Raises TaskError where a question cannot be told from the examples of its own split.

        That is where the examples are processed otherwise than the questions, and rows were lost.
        """
        if self.pool_split != self.split or self.pool is self.whole:
            return
        rows = len(self.data.rows(self.split))
        if not len(self.pool) == len(self.whole) == rows:
            raise TaskError(
                f"The task {self.spec.name} takes its examples from the split that it scores, "
                "processes them otherwise, and drops rows: use the task's process_docs for both, "
                "or name another fewshot_split"
            )

    def question(self, position: int, asked_by: AskedBy) -> Question:
        """The scored document at `position`, as the drawing of examples needs it."""
        doc = self.scored[position]
        row_digest, occurrence = self._identities[position]
        return Question(
            doc=doc,
            row_digest=row_digest,
            occurrence=occurrence,
            row_in_pool=self.rows[position] if self.pool_split == self.split else None,
            asked=lambda: asked_by(doc, self.digests[position]),
        )

    @cached_property
    def pool_key(self) -> str:
        """What tells the pool from those of a benchmark's other parts: its first row."""
        if self.pool_split == INLINE:
            return INLINE
        return self._row_digest(self.pool_split, self.pool, 0) if len(self.pool) else ""

    @cached_property
    def _identities(self) -> list[tuple[str, int]]:
        """For each scored document the digest of its row, and how many before it are identical."""
        unchanged = self._rows_of(self.split) is self.whole
        known = dict(zip(self.rows, self.digests, strict=True)) if unchanged else {}
        seen: Counter[str] = Counter()
        identities = []
        wanted = set(self.rows)
        # Those that are not scored count, too: the draw must not depend on which are.
        for row in range(max(wanted) + 1):
            digest = known.get(row) or self._row_digest(self.split, self.whole, row)
            if row in wanted:
                identities.append((digest, seen[digest]))
            seen[digest] += 1
        return identities

    def _row_digest(self, split: str, docs: Sequence[Doc], row: int) -> str:
        """Of the row of the data set that a document was made from, where each became one.

        Styles that make other documents of a row have the same row.
        """
        rows = self._rows_of(split)
        if len(rows) == len(docs) and rows is not docs:
            # A picture, say, that process_docs takes out: its decoder may raise whatever it likes.
            with suppress(Exception):
                return doc_digest(rows[row])
        return _digest(docs[row], f"The task {self.spec.name}, document {row} of {split}")

    def _rows_of(self, split: str) -> Sequence[Doc]:
        return self.data.rows(split)

    @property
    def _place(self) -> str:
        file = f" ({self.spec.source})" if self.spec.source else ""
        return f"The task {self.spec.name}{file}"

    def _processed(self, split: str, process: FunctionRef | None) -> Sequence[Doc]:
        data = self.data
        with said_of(": ".join((self._place, *_keys_of(self.spec, split)))):
            if process is None:
                return data.rows(split)
            docs = data.split(split)
        if may_draw(process):
            with drawing(process):
                return self._checked(process, call(process, docs))
        with FixedRandomness(), _processed_anew(process):
            return self._checked(process, call(process, docs))

    def _checked(self, process: FunctionRef, processed: Any) -> Sequence[Doc]:
        if not hasattr(processed, "__len__") or not hasattr(processed, "__getitem__"):
            raise TaskError(
                f"The task {self.spec.name}: process_docs: {process} must return the documents (a "
                f"data set or a list), it gave {type(processed).__name__}"
            )
        documents: Sequence[Doc] = processed
        return documents


@contextmanager
def _processed_anew(process: FunctionRef) -> Iterator[None]:
    """No results from the cache of `datasets` for a function of an installed module.

    It tells such functions apart by name, so that a changed one would get what the old one made.
    Those beside a task file have their source's digest in their module's name.
    """
    import datasets

    caching: bool = datasets.is_caching_enabled()
    if process.is_installed:
        datasets.disable_caching()
    try:
        yield
    finally:
        if caching:
            datasets.enable_caching()


def _keys_of(spec: TaskSpec, split: str) -> list[str]:
    """The keys that name the split, for messages."""
    stated = {f"{part}_split": getattr(spec, f"{part}_split") for part in _PARTS}
    if spec.fewshot.split != spec.fewshot_split:
        stated["fewshot_config.split"] = spec.fewshot.split
    return [key for key in stated if stated[key] == split]


_PARTS = ("test", "validation", "training", "fewshot")


def _digest(doc: Doc, place: str) -> str:
    """Raises TaskError that says at which `place` the document lies."""
    with said_of(place):
        return doc_digest(doc)
