"""A task's questions whose key may be wrong: what answers suspect, what people say.

The questions are those of the task's newest version, read from the sample file of a stored run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from django.http import Http404

from evalcore.task.identity.digest import docs_digest
from leaderboard.corrections.reports import Question
from leaderboard.corrections.second_figures import Counts, counts_of
from leaderboard.models import Artifact, Run, SuiteEntry, TaskVersion
from leaderboard.models.task import is_share
from leaderboard.samples import (
    NO_PICK,
    Facts,
    excerpts,
    facts_of,
    is_withheld,
    letter,
    path_of,
    question_in,
    rows_in,
)
from leaderboard.tasks import column as task_column
from leaderboard.tasks import items

MAX_RUNS_TRIED = 5
"""Runs whose files are looked for: the store may have lost one."""
STRONGEST = 5
"""Models whose answers are shown beside a key."""
MAX_STRONG_TRIED = 25
"""The first of the column, of which so many may have lost their file."""
MAX_KEY_CHARACTERS = 80
"""Of an answer in the list."""
ALL, SUSPECTED, JUDGED, DISPUTED = "", "suspected", "ruled", "disputed"
SHOWN = {ALL: "All", SUSPECTED: "Suspected", JUDGED: "Reported", DISPUTED: "Disputed"}
SUSPICION, REPORTS, NUMBER = "suspicion", "rulings", "number"
ORDERS = {SUSPICION: "Most suspicious", REPORTS: "Most reports", NUMBER: "As asked"}

Key = tuple[str, int]
"""Leaf task and number of a question."""


@dataclass(frozen=True)
class TaskQuestions:
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


def questions_of_task(name: str) -> TaskQuestions:
    """Raises Http404 for a task that no suite of this site has asked."""
    task = TaskVersion.objects.filter(name=name).order_by("created", "pk").last()
    if task is None:
        raise Http404(f"no task {name} in a suite of this site")
    entries = task_column.entries_of(name)
    column = next(iter(task_column.columns_of(task, entries)), None)
    run, samples = next(_with_samples(task, column), (None, ""))
    return TaskQuestions(task, task_column.title_of(task, entries), column, run, samples)


def _with_samples(task: TaskVersion, column: SuiteEntry | None) -> Iterator[tuple[Run, str]]:
    """The newest runs of which the file is at hand, those in the column first."""
    files = Artifact.objects.filter(
        run__task=task, run__state=Run.State.DONE, kind=Artifact.Kind.SAMPLES
    )
    files = files.select_related("run__task").order_by("-run__finished", "pk")
    keys = [key for _, key in column.keys if key] if column else []
    for found in (files.filter(run__results__comparability_key__in=keys).distinct(), files):
        for file in found[:MAX_RUNS_TRIED]:
            if excerpts.there(file.sha256):
                yield file.run, file.sha256


@lru_cache(maxsize=16)
def _documents(sha256: str) -> tuple[str, ...]:
    """The digest of each document of a stored file, which never changes."""
    with pq.ParquetFile(path_of(sha256)) as file:
        column = file.read(columns=["doc_digest"], use_threads=False)["doc_digest"]
    return tuple(column.to_pylist())


@dataclass(frozen=True)
class QuestionLine:
    """A question in the list; texts are empty where they are not known."""

    key: Key
    called: str
    label: str
    counts: Counts
    suspected: bool
    right: float | None
    """Share of the models that are right; None without an item analysis."""
    discrimination: float | None
    opening: str = ""
    answer: str = ""
    """What is marked as right."""
    instead: StrongAnswer | None = None
    instead_text: str = ""


def lines(questions: TaskQuestions) -> list[QuestionLine]:
    """Every question that is suspected or was reported, without its texts."""
    counts = counts_of(questions.task, questions.docs_digest) if questions.docs_digest else {}
    table = questions.items
    places = [] if table is None else np.flatnonzero(table.suspicious).tolist()
    keys = [table.key(place) for place in places] if table else []
    return [
        _line(questions, key, counts.get(key, Counts())) for key in dict.fromkeys([*keys, *counts])
    ]


def line_of(questions: TaskQuestions, part: str, doc_id: int) -> QuestionLine:
    """One question, whether anybody suspects it or not."""
    counts = counts_of(questions.task, questions.docs_digest)
    line = _line(questions, (part, doc_id), counts.get((part, doc_id), Counts()))
    return with_texts(questions, [line])[0]


def _line(questions: TaskQuestions, key: Key, counts: Counts) -> QuestionLine:
    table = questions.items
    place = table.place(*key) if table else None
    several = len(questions.facts.tasks) > 1
    part = within(questions.task, key[0])
    known = table is not None and place is not None
    return QuestionLine(
        key=key,
        called=f"{part} {key[1] + 1}" if several else str(key[1] + 1),
        label=f"{key[0]}:{key[1]}",
        counts=counts,
        suspected=bool(table.suspicious[place]) if table and known else False,
        right=float(table.difficulty[place]) if table and known else None,
        discrimination=float(table.discrimination[place]) if table and known else None,
    )


def chosen(found: Sequence[QuestionLine], which: str, order: str) -> list[QuestionLine]:
    kept = [line for line in found if _is_shown(line, which)]
    return sorted(kept, key=lambda line: (*_place(line, order), *line.key))


def count(found: Sequence[QuestionLine], which: str) -> int:
    return sum(_is_shown(line, which) for line in found)


def _is_shown(line: QuestionLine, which: str) -> bool:
    return {
        ALL: True,
        SUSPECTED: line.suspected,
        JUDGED: line.counts.n > 0,
        DISPUTED: line.counts.disputed,
    }[which]


def _place(line: QuestionLine, order: str) -> tuple[float, ...]:
    suspicion = (not line.suspected, line.discrimination or 0.0)
    return {
        SUSPICION: (*suspicion, -line.counts.n),
        REPORTS: (-line.counts.n, *suspicion),
        NUMBER: (),
    }[order]


def with_texts(questions: TaskQuestions, shown: Sequence[QuestionLine]) -> list[QuestionLine]:
    """Some lines with the words of question and key, and what the strongest models answer."""
    places = {line.key: questions.facts.place(*line.key) for line in shown}
    rows = rows_in(
        path_of(questions.samples),
        [place for place in places.values() if place is not None],
        ["doc", "choices", "gold", "target"],
    )
    files = _files_of_strongest(questions.column)
    told = []
    for line in shown:
        place = places[line.key]
        row = rows.get(place) if place is not None else None
        told.append(_with_texts(line, row, strong_answer(files, *line.key)))
    return told


def _with_texts(
    line: QuestionLine, row: dict[str, Any] | None, other: StrongAnswer | None
) -> QuestionLine:
    if row is None:
        return line
    withheld = is_withheld(row["doc"])
    choices = [] if withheld else row["choices"] or []
    marked = [_choice(choices, place) for place in row["gold"] or [] if place >= 0]
    if not marked and not withheld:
        marked = [_short(row["target"] or "")]
    return replace(
        line,
        opening=begins(row),
        answer=" or ".join(marked),
        instead=other,
        instead_text=_choice(choices, other.place) if other else "",
    )


def _choice(choices: Sequence[str], place: int) -> str:
    text = _short(choices[place]) if place < len(choices) else ""
    return f"{letter(place)}: {text}" if text not in ("", letter(place)) else letter(place)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_KEY_CHARACTERS else f"{words[:MAX_KEY_CHARACTERS]}…"


@dataclass(frozen=True)
class StrongAnswer:
    """What most of them pick."""

    place: int
    """Of the choice."""
    n: int
    of: int
    is_key: bool
    """Most of them pick what is marked as right."""

    @property
    def letter(self) -> str:
        return letter(self.place)


def _files_of_strongest(column: SuiteEntry | None) -> list[str]:
    """Digests of the sample files of the best models, the best first."""
    board = task_column.board(column) if column else None
    place = task_column.place_on(board, column) if board and column else None
    if board is None or place is None:
        return []
    values = board.scores.value[:, place]
    rows = board.comparable_rows
    rows = rows[~np.isnan(values[rows])]
    sign = -1.0 if is_share(board.columns[place].metric) else 1.0
    best = rows[np.argsort(sign * values[rows], kind="stable")][:MAX_STRONG_TRIED].tolist()
    runs = [run for row in best if (run := board.run_id(row, place))]
    files = dict(
        Artifact.objects.filter(run__in=runs, kind=Artifact.Kind.SAMPLES).values_list(
            "run", "sha256"
        )
    )
    known = [files[run] for run in runs if run in files]
    found: list[str] = []
    for sha256 in known:
        if len(found) < STRONGEST and excerpts.there(sha256):
            found.append(sha256)
    return found


def strong_answer(files: list[str], part: str, doc_id: int) -> StrongAnswer | None:
    """None where there are no choices, or nobody's answers are at hand."""
    picks: Counter[int] = Counter()
    key: list[int] = []
    for sha256 in files:
        facts = facts_of(path_of(sha256))
        place = facts.place(part, doc_id)
        if place is not None and facts.pick[place] != NO_PICK:
            picks[int(facts.pick[place])] += 1
            key = facts.gold_of(place)
    if not picks:
        return None
    most = max(picks.values())
    place = min(pick for pick, n in picks.items() if n == most)
    return StrongAnswer(place, most, picks.total(), place in key)
