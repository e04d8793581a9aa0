"""The samples of a run, read page by page from its parquet file.

The file is never loaded whole: the numbers that questions are filtered and sorted by are small and
kept (`facts`), a search for words reads the texts block by block, and only the blocks of the
questions that are shown are read in full, by one thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.parquet as pq

from leaderboard.samples.facts import Facts, facts_of
from leaderboard.samples.search import Excerpt, Mask, Search, excerpt
from leaderboard.samples.unavailable import as_written

QUESTIONS_ON_PAGE = 12
OPENING_LENGTH = 140
"""Letters of a line of the list."""

# Columns in which the benchmarks of the field keep the question.
_QUESTION_COLUMNS = ("question", "query", "ctx", "sentence", "text")


@dataclass(frozen=True)
class Line:
    """A question in the list: enough to recognise it."""

    place: int
    """In the file, from 0."""
    task: str
    doc_id: int
    correct: float | None
    opening: Excerpt

    @property
    def number(self) -> int:
        """As readers count: from 1."""
        return self.doc_id + 1

    @property
    def right(self) -> bool | None:
        return None if self.correct is None else self.correct >= 1


@dataclass(frozen=True)
class Place:
    """Where a question stands in the filtered list, counted from 1; its neighbours' rows."""

    number: int
    before: int | None
    after: int | None


class Samples:
    """The questions of one run that a search leaves, in its order."""

    def __init__(self, file: pq.ParquetFile, facts: Facts, search: Search) -> None:
        self._file = file
        self.facts = facts
        self._search = search
        self._masks = search.masks(facts, file)
        self._order = search.ordered(facts, np.flatnonzero(self._all_but("")))

    @classmethod
    @contextmanager
    def open(cls, path: Path, search: Search) -> Iterator[Self]:
        """The samples in `path`; raises FileNotFoundError where the store does not have it, Damaged
        where nobody can read it."""
        with ExitStack() as open_file:
            with as_written(path):
                file = open_file.enter_context(pq.ParquetFile(path))
                found = cls(file, facts_of(path), search)
            yield found

    @property
    def filters(self) -> tuple[str, ...]:
        """Names of the search's fields that filter."""
        return tuple(self._masks)

    @property
    def parts(self) -> list[str]:
        """Names of the parts that the questions come from; empty where there is one only."""
        return sorted(self.facts.parts) if len(self.facts.parts) > 1 else []

    @property
    def count(self) -> int:
        """How many questions the search leaves."""
        return len(self._order)

    @cached_property
    def outcomes(self) -> dict[str, int]:
        """By outcome how many questions there are, under all filters but that of the outcome."""
        scores = self.facts.correct[self._all_but("outcome")]
        right, wrong = int(np.sum(scores >= 1)), int(np.sum(scores < 1))
        none = len(scores) - right - wrong
        return {"all": len(scores), "right": right, "wrong": wrong, "unmeasured": none}

    @property
    def pages(self) -> int:
        return max(1, -(-self.count // QUESTIONS_ON_PAGE))

    def count_without(self, filter: str) -> int:
        """How many questions there would be without one of the search's filters."""
        return int(np.sum(self._all_but(filter)))

    def page(self, number: int) -> list[Line]:
        """The lines of a page, counted from 1."""
        places = self._order[(number - 1) * QUESTIONS_ON_PAGE : number * QUESTIONS_ON_PAGE].tolist()
        openings = self._openings(places)
        scores = self.facts.correct[places].tolist()
        return [
            Line(place, *self.facts.key(place), None if isnan(score) else score, openings[place])
            for place, score in zip(places, scores, strict=True)
        ]

    def one(self, place: int) -> dict[str, Any]:
        """A whole sample, with the fields of evalcore's SAMPLE_SCHEMA."""
        return self._at([place])[place]

    def stands(self, place: int) -> Place | None:
        """Where a question stands in the list; None where the search leaves it out."""
        found = np.flatnonzero(self._order == place)
        if not len(found):
            return None
        here = int(found[0])
        before = int(self._order[here - 1]) if here else None
        after = int(self._order[here + 1]) if here + 1 < self.count else None
        return Place(here + 1, before, after)

    def _all_but(self, filter: str) -> Mask:
        passed = np.ones(self.facts.n, bool)
        for name, mask in self._masks.items():
            if name != filter:
                passed &= mask
        return passed

    def _openings(self, places: list[int]) -> dict[int, Excerpt]:
        """By its place in the file how each of these questions begins, or where the search hit."""
        if self._search.text:
            columns = ["doc", "choices", "responses.list.element.text", "prompt"]
            return {place: self._hit(row) for place, row in self._at(places, columns).items()}
        rows = self._at(places, ["doc"])
        begin = {place: question_in(row["doc"]) for place, row in rows.items()}
        # Prompts are long and lie in pages of their own: only where the document does not say.
        unsaid = self._at([place for place, text in begin.items() if not text], ["prompt"])
        begin |= {place: _last_part(row["prompt"]) for place, row in unsaid.items()}
        return {
            place: Excerpt(" ".join(text.split())[:OPENING_LENGTH]) for place, text in begin.items()
        }

    def _hit(self, row: dict[str, Any]) -> Excerpt:
        written = [response["text"] for response in row["responses"] or () if response["text"]]
        question = question_in(row["doc"]) or _last_part(row["prompt"])
        choices = row["choices"] or ()
        texts = [question, *_texts_in(document_in(row["doc"])), *choices, *written]
        hit = excerpt([*texts, row["prompt"]], self._search.text, OPENING_LENGTH)
        return hit or Excerpt(" ".join(question.split())[:OPENING_LENGTH])

    def _at(self, places: list[int], columns: list[str] | None = None) -> dict[int, dict[str, Any]]:
        return rows_at(self._file, places, columns)


def rows_at(
    file: pq.ParquetFile, places: Sequence[int], columns: Sequence[str] | None = None
) -> dict[int, dict[str, Any]]:
    """By their place in the file some questions, whole or in part; no other block is read."""
    rows: dict[int, dict[str, Any]] = {}
    first = 0
    for block in range(file.num_row_groups):
        end = first + file.metadata.row_group(block).num_rows
        here = [place for place in places if first <= place < end]
        if here:
            table = file.read_row_group(block, columns=columns, use_threads=False)
            taken = table.take([place - first for place in here]).to_pylist()
            rows |= dict(zip(here, taken, strict=True))
        first = end
    return rows


def rows_in(
    path: Path, places: Iterable[int], columns: Sequence[str] | None = None
) -> dict[int, dict[str, Any]]:
    """`rows_at` of the file at `path`. Raises Damaged."""
    with as_written(path), pq.ParquetFile(path) as file:
        return rows_at(file, sorted(places), columns)


def question_in(doc: str | None) -> str:
    """The question's own words, where the document has a column that is known to hold them."""
    fields = document_in(doc)
    for column in _QUESTION_COLUMNS:
        text = fields.get(column)
        if isinstance(text, str) and text.strip():
            return text.strip()
    return ""


def document_in(doc: str | None) -> dict[str, Any]:
    """The fields of a document; none where it is not one, as in files from before all were
    checked."""
    try:
        fields = json.loads(doc or "{}")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _last_part(prompt: str) -> str:
    """What stands after the prompt's last blank line."""
    return prompt.strip().rpartition("\n\n")[2]


def _texts_in(value: Any) -> Iterator[str]:
    """Every text in a document, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts_in(part)
