"""A task with its data: documents in, requests out, every one with what is needed to score it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.model.base import Mode as Mode
from evalcore.task.asking.documents import Documents
from evalcore.task.asking.gold import NO_CHOICE as NO_CHOICE
from evalcore.task.asking.how_asked import HowAsked
from evalcore.task.asking.item import Item as Item
from evalcore.task.asking.item import ItemBuilder
from evalcore.task.asking.prompt import Doc, DocReader, call
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import json_ready

log = logging.getLogger(__name__)

ProcessResults = Callable[[Doc, list[Any]], dict[str, Any]]
"""A task's own scoring: from a document and its filtered responses to metrics."""


class Task(HowAsked):
    """One task, ready to be asked. Data are loaded at the first need of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._documents = Documents(
            self.spec, self.limit, self.samples, self.data, as_lm_eval=self.mode == "compat"
        )

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

    @cached_property
    def reader(self) -> DocReader:
        """What reads the questions, choices and answers from the documents."""
        return DocReader(self._documents.columns, self.spec.doc_to_choice is not None)

    @property
    def own_process_results(self) -> ProcessResults | None:
        """The task's own scoring, which replaces the metrics' (key `process_results`)."""
        function = self.spec.process_results
        return None if function is None else function.load()

    @property
    def own_aggregations(self) -> Mapping[str, Callable[..., Any]]:
        """By metric; a task that is described by keys names its aggregations there."""
        return {}

    @property
    def own_higher_is_better(self) -> Mapping[str, bool]:
        return {}

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

    def query_of(self, item: Item) -> str:
        """What of the document is looked for in training text: the stated query, else its question.

        Raises TaskError where that is no text.
        """
        source = self.spec.doc_to_decontamination_query
        if isinstance(source, FunctionRef):
            query = call(source, item.doc)
        elif source is not None:
            query = self.reader.field(source, item.doc)
        else:
            query = self.reader.text(self.spec.doc_to_text, item.doc)
            if item.choices_are_contexts:
                query = " ".join(item.choices)
        if not isinstance(query, str):
            raise TaskError(
                f"The task {self.name}, document {item.doc_id} of {self.split}: "
                f"doc_to_decontamination_query must give text, got {query!r}"
            )
        return query

    @property
    def doc_digests(self) -> list[str]:
        """Of the documents that are asked, in order; nothing of a prompt is made for it."""
        return self._documents.digests

    def items(self) -> list[Item]:
        """All documents as they are asked. Raises TaskError that names the document at fault."""
        for key in ("doc_to_text", "doc_to_target"):
            if getattr(self.spec, key) is None:
                raise TaskError(f"The task {self.name}: {key} is missing: it must be stated")
        if self.spec.python_class is None:
            _ = self._documents.data  # nobody waits for a download to draw
        with FixedRandomness() as randomness:  # some functions of tasks draw
            return self._built(randomness)

    def _built(self, randomness: FixedRandomness) -> list[Item]:
        digests = self._documents.digests  # a document without one is named first
        builder = ItemBuilder(self, self._documents, self.reader)
        file = f" ({self.spec.source})" if self.spec.source else ""
        place = f"The task {self.name}{file}, document {{row}} of {self.split}"
        self._refuse_misspelt_columns()
        items = []
        row = 0
        try:
            builder.decide(self._documents.whole[row])
            for position, row in enumerate(self._documents.rows):
                item = builder.build(position, row, self.docs[position], digests[position])
                # Scoring needs both: what is wrong with them is said before the model is asked.
                self.subset_of(item)
                self.cluster_of(item)
                items.append(item)
                randomness.let_others()
        except TaskError as error:
            raise TaskError(f"{place.format(row=row)}: {error.args[0]}") from error
        return items

    def _refuse_misspelt_columns(self) -> None:
        """A word that is nearly a column would be the same text for every document."""
        columns = self.reader.columns
        for key in ("doc_to_text", "doc_to_target"):
            source = getattr(self.spec, key)
            if not isinstance(source, str) or not source.isidentifier() or source in columns:
                continue
            if near := did_you_mean(source, columns):
                problem = (
                    f"The task {self.name}: {key}: {source!r} is no column{near}, so that every "
                    f"document has just this text; if it is meant, write {{{{ {source!r} }}}}"
                )
                if self.mode == "strict":
                    raise TaskError(problem)
                log.warning("%s", problem)


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
    # As the file of samples has it: whoever reads a document there finds the same name.
    return str(json_ready(doc[column]))
