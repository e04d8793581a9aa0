"""The sampler that a task names: one of ours, or a class of the task's own code.

Such a class has lm-eval's interface: made from the pool, `set_rnd(seed)` sets its generator, and
`sample(n=, eval_doc=)` gives documents. One that knows nothing of modes is asked as lm-eval asks
it in compat; in strict a new one, with a generator of its own, is made for every document.
"""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evalcore.errors import TaskError, code_of_others
from evalcore.task.asking.documents import Documents
from evalcore.task.asking.fewshot import (
    BalancedSampler,
    CompatSampler,
    FixedSampler,
    Question,
    Sampler,
    StrictSampler,
)
from evalcore.task.asking.how_asked import HowAsked
from evalcore.task.asking.likeness import Asked, AskedBy
from evalcore.task.asking.prompt import Doc, Prompter
from evalcore.task.config import TaskSpec
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import doc_digest


def sampler_of(
    task: HowAsked, documents: Documents, asked_by: AskedBy, prompter: Prompter
) -> Sampler:
    """What draws the examples of a task. `asked_by`: what a document asks.

    Raises TaskError where the pool does not suit the draw.
    """
    spec, mode, shots, seed = task.spec, task.mode, task.shots, task.fewshot_seed
    named = spec.fewshot.sampler
    # lm-eval's rule, which holds, too, where neither split is named.
    exclude = spec.fewshot.split == spec.test_split
    if mode == "compat" and named in ("default", "first_n"):
        first_n = named == "first_n"
        return CompatSampler(documents.pool, shots, seed, exclude, first_n)
    indices = None
    if mode == "strict" or named == "balanced":
        documents.require_same_rows()
        indices = _indices(spec, documents)
    if isinstance(named, FunctionRef):
        pool = list(documents.pool)
        if indices is not None:
            pool = [pool[row] for row in indices]
        if mode == "strict":
            benchmark = spec.about.benchmark
            return StrictOwnSampler(
                named, pool, indices, shots, seed, exclude=True, benchmark=benchmark, by=asked_by
            )
        return OwnSampler(named, pool, indices, shots, seed, exclude)
    drawn_by: dict[str, Any] = {
        "pool": documents.pool,
        "shots": shots,
        "seed": seed,
        "benchmark": spec.about.benchmark,
        "asked_at": functools.cache(
            lambda row: asked_by(documents.pool[row], documents.pool_digest(row))
        ),
        "first_n": named == "first_n",
        "indices": indices,
    }
    if named == "balanced":
        return BalancedSampler(
            **drawn_by, answer_at=lambda row: str(prompter.example_answer(documents.pool[row]))
        )
    if named == "default" and task.fewshot_draw == "fixed":
        return FixedSampler(**drawn_by, pool_key=documents.pool_key)
    return StrictSampler(**drawn_by)


def _indices(spec: TaskSpec, documents: Documents) -> list[int] | None:
    """`fewshot_indices`, without repetitions; lm-eval never passes them to its samplers."""
    stated = spec.fewshot.fewshot_indices
    if not stated:
        return None
    length = len(documents.pool)
    for row in stated:
        if row not in range(length):
            raise TaskError(
                f"fewshot_config.fewshot_indices: there is no example {row!r} in "
                f"{documents.pool_split}; it has those from 0 to {length - 1}"
            )
    return list(dict.fromkeys(stated))


@dataclass
class OwnSampler:
    """A task's own sampler as lm-eval uses it: one, asked for the documents in order."""

    sampler: FunctionRef
    pool: list[Doc]
    rows: Sequence[int] | None
    """Where the pool's documents lie in the whole one; None: it is the whole one."""
    shots: int
    seed: int
    exclude: bool
    _rows: dict[int, int] = field(init=False)
    _drawn: dict[int, Doc] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        numbers = range(len(self.pool)) if self.rows is None else self.rows
        self._rows = {id(doc): row for doc, row in zip(self.pool, numbers, strict=True)}
        self._made = self._new(self.seed, self.pool)

    def draw(self, question: Question) -> list[int]:
        return self._ask(self._made, question.doc if self.exclude else None)

    def doc(self, row: int) -> Doc:
        """The document at a row; one that the sampler made itself has a number below 0."""
        return self._drawn[row]

    def _new(self, seed: int, pool: list[Doc]) -> Any:
        with code_of_others(f"fewshot_config.sampler: {self.sampler}"):
            made = self.sampler.load()(pool, rnd=None)
            made.set_rnd(seed)
        return made

    def _ask(self, made: Any, eval_doc: Doc | None) -> list[int]:
        with code_of_others(f"fewshot_config.sampler: {self.sampler}"):
            docs = list(made.sample(n=self.shots, eval_doc=eval_doc))
        return [self._row(doc) for doc in docs]

    def _row(self, doc: Doc) -> int:
        row = self._rows.get(id(doc))
        if row is None:
            row = next((self._rows[id(known)] for known in self.pool if known == doc), None)
        if row is None:
            made = {number: known for number, known in self._drawn.items() if number < 0}
            row = next((number for number in made if made[number] == doc), -1 - len(made))
        self._drawn[row] = doc
        return row


@dataclass
class StrictOwnSampler(OwnSampler):
    """A task's own sampler, made anew for every document."""

    benchmark: str
    by: AskedBy
    """What a document asks."""
    _known: dict[int, tuple[Doc, Asked]] = field(init=False, default_factory=dict)

    def draw(self, question: Question) -> list[int]:
        asked = question.asked()
        # Copies it cannot know from the question: from that it is told apart by `eval_doc`.
        alike = [(id(doc), self._asked(doc)) for doc in self._by_text.get(asked.text, ())]
        copies = {own for own, doc in alike if doc.is_copy(asked) and doc.digest != asked.digest}
        pool = [doc for doc in self.pool if id(doc) not in copies] if copies else self.pool
        key = random.Random(question.key(self.seed, self.benchmark))  # noqa: S311
        rows = self._ask(self._new(key.getrandbits(64), pool), question.doc)
        if any(self._asked(self.doc(row)).is_copy(asked) for row in rows):
            raise TaskError(
                f"fewshot_config.sampler: {self.sampler} shows the question among its own "
                "examples: leave out the document `eval_doc`"
            )
        return rows

    @cached_property
    def _by_text(self) -> Mapping[str, list[Doc]]:
        by_text: dict[str, list[Doc]] = defaultdict(list)
        for doc in self.pool:
            by_text[self._asked(doc).text].append(doc)
        return by_text

    def _asked(self, doc: Doc) -> Asked:
        if id(doc) not in self._known:  # which keeps the document, so that no other one gets its id
            self._known[id(doc)] = (doc, self.by(doc, doc_digest(doc)))
        return self._known[id(doc)][1]
