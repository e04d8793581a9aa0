"""A task's questions, as the court looks at them: the newest version's, out of a stored run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow.parquet as pq
from django.http import Http404

from evalcore.task.identity.digest import docs_digest
from leaderboard.court.order import Question
from leaderboard.models import Artifact, Run, SuiteEntry, TaskVersion
from leaderboard.samples import Facts, excerpts, facts_of, path_of, question_in, rows_in
from leaderboard.tasks import column as task_column
from leaderboard.tasks import items

TRIED = 5
"""Runs whose files are looked for: the store may have lost one."""


@dataclass(frozen=True)
class Bench:
    """The newest version of a task with the column that shows it and a file of its questions."""

    task: TaskVersion
    title: str
    column: SuiteEntry | None
    run: Run | None
    samples: str
    """Digest of the run's sample file; empty where none is at hand."""

    @cached_property
    def facts(self) -> Facts:
        return facts_of(path_of(self.samples))

    @cached_property
    def docs_digest(self) -> str:
        """Of all its questions; empty where no file is at hand."""
        return docs_digest(list(_documents(self.samples))) if self.samples else ""

    @cached_property
    def items(self) -> items.Table | None:
        """The item analysis, where it is of these very questions."""
        key = self.column.comparability_key if self.column else ""
        found = items.newest(key) if key else None
        return items.table(found) if found and found.docs_digest == self.docs_digest else None

    def question(self, label: str) -> Question:
        """Raises Http404 where the address names no question of the task."""
        place = self.facts.called(label) if self.samples else None
        if place is None:
            raise Http404(f"{self.task.name} has no question {label!r} here")
        part, doc_id = self.facts.key(place)
        return Question(
            task=self.task,
            docs_digest=self.docs_digest,
            part=part,
            doc_id=doc_id,
            doc_digest=_documents(self.samples)[place],
            begins=begins(self.row(place)),
        )

    def row(self, place: int) -> dict[str, Any]:
        """A whole sample."""
        return rows_in(path_of(self.samples), [place])[place]


def within(task: TaskVersion, name: str) -> str:
    """A leaf task or question of a group beside the group's title: what begins all of them is
    left out."""
    return name.removeprefix(f"{task.name}_")


def begins(row: dict[str, Any]) -> str:
    """The question's first words; empty where they are not known, or may not be put online."""
    return " ".join(question_in(row["doc"]).split())[: excerpts.LENGTH]


def bench(name: str) -> Bench:
    """Raises Http404 for a task that no suite of this site has asked."""
    task = TaskVersion.objects.filter(name=name).order_by("created", "pk").last()
    if task is None:
        raise Http404(f"no task {name} in a suite of this site")
    entries = task_column.entries_of(name)
    column = next(iter(task_column.columns_of(task, entries)), None)
    run, samples = next(_with_samples(task, column), (None, ""))
    return Bench(task, task_column.title_of(task, entries), column, run, samples)


def _with_samples(task: TaskVersion, column: SuiteEntry | None) -> Iterator[tuple[Run, str]]:
    """The newest runs of which the file is at hand, those in the column first."""
    files = Artifact.objects.filter(
        run__task=task, run__state=Run.State.DONE, kind=Artifact.Kind.SAMPLES
    )
    files = files.select_related("run__task").order_by("-run__finished", "pk")
    keys = [key for _, key in column.keys if key] if column else []
    for found in (files.filter(run__results__comparability_key__in=keys).distinct(), files):
        for file in found[:TRIED]:
            if excerpts.there(file.sha256):
                yield file.run, file.sha256


@lru_cache(maxsize=16)
def _documents(sha256: str) -> tuple[str, ...]:
    """The digest of each document of a stored file, which never changes."""
    with pq.ParquetFile(path_of(sha256)) as file:
        column = file.read(columns=["doc_digest"], use_threads=False)["doc_digest"]
    return tuple(column.to_pylist())
