"""The documents of one task: loaded once, processed once, and kept.

lm-eval runs `process_docs` again between asking and scoring; where it shuffles, answers are then
scored against other choices. Here the document that was asked is the one that is scored.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from evalcore.errors import TaskError
from evalcore.task.config import TaskSpec
from evalcore.task.dataset import TaskData, load_data
from evalcore.task.digest import doc_digest
from evalcore.task.fewshot import Question
from evalcore.task.functions import FunctionRef
from evalcore.task.prompt import call

Doc = dict[str, Any]

INLINE = "(inline)"
"""Stands for the split of examples that are written in the task file; no split can be named so."""


@dataclass(frozen=True)
class Documents:
    """The documents that a task scores, and the pool of its examples."""

    spec: TaskSpec
    limit: float | None = None
    """So many first documents, or below 1 that share of them (rounded up)."""

    @cached_property
    def data(self) -> TaskData:
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
        docs = self._processed(self.split, self.spec.process_docs)
        if not len(docs):
            raise TaskError(f"{self.data.described}: the split {self.split} has no document")
        return docs

    @cached_property
    def scored(self) -> list[Doc]:
        """The documents that are scored, in order."""
        wanted = len(self.whole) if self.limit is None else self.limit
        count = math.ceil(len(self.whole) * wanted) if wanted < 1 else int(wanted)
        return list(islice(self.whole, count))

    @cached_property
    def columns(self) -> Collection[str]:
        features = getattr(self.whole, "features", None)
        return frozenset(self.scored[0] if features is None else features)

    @cached_property
    def digests(self) -> list[str]:
        """The digests of `scored`. Raises TaskError that names a document without one."""
        task, split = self.spec.name, self.split
        return [
            _digest(doc, f"The task {task}, document {row} of {split}")
            for row, doc in enumerate(self.scored)
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
            samples = call(few.samples) if isinstance(few.samples, FunctionRef) else few.samples
            if not isinstance(samples, list):
                raise TaskError(f"fewshot_config.samples must be a list, got {samples!r}")
            return samples
        process = few.process_docs if few.split else self.spec.process_docs
        if self.pool_split == self.split and process == self.spec.process_docs:
            return self.whole
        return self._processed(self.pool_split, process)

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
        rows = len(self.data.split(self.split))
        if not len(self.pool) == len(self.whole) == rows:
            raise TaskError(
                f"The task {self.spec.name} takes its examples from the split that it scores, "
                "processes them otherwise, and drops rows: use the task's process_docs for both, "
                "or name another fewshot_split"
            )

    def question(self, row: int) -> Question:
        """The scored document at `row`, as the drawing of examples needs it."""
        return Question(
            doc=self.scored[row],
            digest=self.digests[row],
            occurrence=self._occurrences[row],
            row_in_pool=row if self.pool_split == self.split else None,
        )

    @cached_property
    def _occurrences(self) -> list[int]:
        seen: Counter[str] = Counter()
        occurrences = []
        for digest in self.digests:
            occurrences.append(seen[digest])
            seen[digest] += 1
        return occurrences

    def _processed(self, split: str, process: FunctionRef | None) -> Sequence[Doc]:
        docs: Sequence[Doc] = self.data.split(split)
        if process is None:
            return docs
        with _fixed_randomness():
            processed: Sequence[Doc] = call(process, docs)
        return processed


def _digest(doc: Doc, place: str) -> str:
    """Raises TaskError that says at which `place` the document lies."""
    try:
        return doc_digest(doc)
    except TaskError as error:
        raise TaskError(f"{place}: {error.args[0]}") from error


@contextmanager
def _fixed_randomness() -> Iterator[None]:
    """lm-eval's seeds for code that draws from the global generators, whatever ran before."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    random.seed(0)
    np.random.seed(1234)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
