"""A task with its data: documents in, requests out, every one with what is needed to score it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from evalcore.errors import TaskError
from evalcore.model.base import Request
from evalcore.task.config import TaskSpec
from evalcore.task.documents import Documents
from evalcore.task.fewshot import CompatSampler, Sampler, StrictSampler
from evalcore.task.fields import did_you_mean
from evalcore.task.prompt import Doc, DocReader, Prompter
from evalcore.task.support import check_supported

Mode = Literal["strict", "compat"]

NO_CHOICE = -100
"""In compat the gold of an answer that is none of the choices: it scores 0, as in lm-eval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One document as it is asked: everything that scoring and the sample file need."""

    doc_id: int
    """Row in the (processed) split."""
    split: str
    doc: Doc
    doc_digest: str
    shots: list[tuple[str, int]]
    """Split and row of each example, in the order of the prompt."""
    prompt: str
    """Exactly as sent; of several contexts (choices in the context) the first."""
    choices: list[str]
    gold: list[int]
    """Right choices by position."""
    target: str
    """`doc_to_target` as text."""
    requests: list[Request]
    """One for each choice."""


class Task:
    """One multiple_choice task, ready to be asked. Data are loaded at the first need of them."""

    def __init__(
        self,
        spec: TaskSpec,
        *,
        mode: Mode = "strict",
        num_fewshot: int | None = None,
        fewshot_seed: int = 1234,
        limit: float | None = None,
    ) -> None:
        """`limit`: so many first documents, or below 1 that share of them (rounded up).

        Raises TaskError for a task that this version cannot run, ValueError for a bad limit.
        """
        check_supported(spec)
        if limit is not None and limit <= 0:
            raise ValueError(f"limit: expected a number above 0, got {limit}")
        if num_fewshot is not None and num_fewshot < 0:
            raise ValueError(f"num_fewshot: expected a number from 0, got {num_fewshot}")
        self.spec = spec
        self.mode = mode
        self.fewshot_seed = fewshot_seed
        self.limit = limit
        self.shots = _shots(spec, mode, num_fewshot)
        self._documents = Documents(spec, limit)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def split(self) -> str:
        """The split whose documents are scored."""
        return self._documents.split

    @property
    def dataset_commit(self) -> str | None:
        return self._documents.data.commit

    @property
    def n_original(self) -> int:
        """Documents in the split, before any limit."""
        return len(self._documents.whole)

    @property
    def docs(self) -> list[Doc]:
        """The documents that are scored, in order."""
        return self._documents.scored

    def subset_of(self, item: Item) -> str | None:
        """The part of the task that the document belongs to: `metadata.subset`."""
        subset = self.spec.about.subset
        if subset is None or subset not in item.doc:
            return subset
        return _stated("subset", subset, item.doc)

    def cluster_of(self, item: Item) -> str | None:
        """What the document depends on together with others: the column `metadata.cluster`.

        None where the task names no such column. `items` raises where a document has no value.
        """
        cluster = self.spec.about.cluster
        return None if cluster is None else _stated("cluster", cluster, item.doc)

    def items(self) -> list[Item]:
        """All documents as they are asked. Raises TaskError that names the document at fault."""
        _ = self._documents.digests  # a document without one is named first
        builder = _ItemBuilder(self, self._documents)
        items = []
        for doc_id, doc in enumerate(self.docs):
            try:
                item = builder.build(doc_id, doc)
                # Scoring needs both: what is wrong with them is said before the model is asked.
                self.subset_of(item)
                self.cluster_of(item)
                items.append(item)
            except TaskError as error:
                place = f"The task {self.name}, document {doc_id} of {self.split}"
                raise TaskError(f"{place}: {error.args[0]}") from error
        return items


def _stated(key: str, column: str, doc: Doc) -> str:
    """The value of a column that the metadata name."""
    if column not in doc:
        raise TaskError(
            f"metadata.{key}: there is no column {column!r}{did_you_mean(column, doc)}; "
            f"the columns are {', '.join(doc)}"
        )
    if doc[column] is None:
        raise TaskError(
            f"metadata.{key}: the column {column!r} is null: give every document a value "
            "(in process_docs), or name another column"
        )
    return str(doc[column])


def _shots(spec: TaskSpec, mode: Mode, num_fewshot: int | None) -> int:
    """lm-eval never overrides a 0 that the task file states."""
    if num_fewshot is None or (mode == "compat" and spec.num_fewshot == 0):
        return spec.num_fewshot or 0
    return num_fewshot


class _ItemBuilder:
    """Builds items one by one, in the documents' order (compat's examples depend on it)."""

    def __init__(self, task: Task, documents: Documents) -> None:
        self._task = task
        self._spec = task.spec
        self._documents = documents
        self._reader = DocReader(documents.columns)
        self._prompter = Prompter(task.spec, self._reader)
        self._sampler = _sampler(task, documents) if task.shots else None
        self._examples: dict[int, str] = {}
        self._first_contexts_kind: bool | None = None
        self._first_gold: Any = None

    def build(self, doc_id: int, doc: Doc) -> Item:
        text = self._reader.text(self._spec.doc_to_text, doc)
        choices_are_contexts = self._choices_are_contexts(text)
        rows = self._sampler.draw(self._documents.question(doc_id)) if self._sampler else []
        before = self._prompter.description(doc) + "".join(
            self._example(row, choices_are_contexts) for row in rows
        )
        choices = self._reader.choices(self._spec.doc_to_choice, doc)
        target = self._reader.target(self._spec.doc_to_target, doc)
        gold = target
        if choices_are_contexts:
            gold = text
            contexts = [
                before + self._prompter.choice_as_question(choice, doc) for choice in choices
            ]
            continuations = [str(target)] * len(choices)
        else:
            contexts = [before + self._prompter.question(text, doc)] * len(choices)
            continuations = choices
        return Item(
            doc_id=doc_id,
            split=self._documents.split,
            doc=doc,
            doc_digest=self._documents.digests[doc_id],
            shots=[(self._documents.pool_split, row) for row in rows],
            prompt=contexts[0],
            choices=choices,
            gold=self._gold(gold, choices),
            target=str(target),
            requests=[
                Request("loglikelihood", context, self._spec.target_delimiter + continuation)
                for context, continuation in zip(contexts, continuations, strict=True)
            ],
        )

    def _choices_are_contexts(self, text: Any) -> bool:
        """lm-eval decides on the first document for all; strict refuses a mixture."""
        kind = self._first_contexts_kind
        if kind is not None and self._task.mode == "compat":
            return kind
        found = isinstance(text, int)
        if kind is None:
            self._first_contexts_kind = found
        elif kind != found:
            raise TaskError(
                f"doc_to_text gives {text!r} here and {'a position' if kind else 'text'} for "
                "document 0: it must give a question for every document, or the position of the "
                "right choice for every document"
            )
        return found

    def _example(self, row: int, choices_are_contexts: bool) -> str:
        if row not in self._examples:
            self._examples[row] = self._prompter.example(
                self._documents.pool[row], choices_are_contexts=choices_are_contexts
            )
        return self._examples[row]

    def _check_one_or_several(self, target: Any) -> None:
        """One right choice for every document, or a list for every one; a mixture is refused.

        lm-eval decides on the first document, and stops at one of the other kind; except that it
        takes a list of one for its entry.
        """
        first = target if self._first_gold is None else self._first_gold
        self._first_gold = first
        several = isinstance(target, list)
        if several == isinstance(first, list):
            return
        if self._task.mode == "compat" and several and len(target) == 1:
            return
        raise TaskError(
            f"doc_to_target gives {target!r} here and {first!r} for document 0: it must give one "
            "right choice for every document, or a list of them for every document"
        )

    def _gold(self, target: Any, choices: list[str]) -> list[int]:
        self._check_one_or_several(target)
        stated = target if isinstance(target, list) else [target]
        gold = [self._position(answer, choices) for answer in stated]
        if self._task.mode == "strict" and (not gold or NO_CHOICE in gold):
            raise TaskError(
                f"the right answer is {target!r}, which is none of the {len(choices)} choices"
            )
        return gold

    def _position(self, answer: Any, choices: list[str]) -> int:
        if isinstance(answer, str):
            return choices.index(answer) if answer in choices else NO_CHOICE
        if isinstance(answer, int) and 0 <= answer < len(choices):
            return int(answer)
        return NO_CHOICE


def _sampler(task: Task, documents: Documents) -> Sampler:
    spec = task.spec
    first_n = spec.fewshot.sampler == "first_n"
    if task.mode == "compat":
        return CompatSampler(
            pool=documents.pool,
            shots=task.shots,
            seed=task.fewshot_seed,
            exclude=spec.fewshot.split == spec.test_split,
            first_n=first_n,
        )
    documents.require_same_rows()
    return StrictSampler(
        pool=documents.pool,
        shots=task.shots,
        seed=task.fewshot_seed,
        task=spec.name,
        digest_at=documents.pool_digest,
        first_n=first_n,
    )
