"""The samples of a run, searched, filtered, ordered, and read page by page from its parquet file.

The file is never loaded whole: the numbers that questions are filtered and sorted by are small and
kept (`facts`), a search for words reads the texts block by block, and only the blocks of the
questions that are shown are read in full, by one thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import isnan, log
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leaderboard.samples.facts import Facts, facts_of
from leaderboard.samples.store import as_written

QUESTIONS_ON_PAGE = 12
OPENING_LENGTH = 140
"""Letters of a line of the list."""

# Columns in which the benchmarks of the field keep the question.
_QUESTION_COLUMNS = ("question", "query", "ctx", "sentence", "text")
Mask = NDArray[np.bool_]
"""Of each question of a file, in its order."""

OUTCOMES = {"all": "All", "right": "✓ Right", "wrong": "✗ Wrong", "unmeasured": "Not scored"}
MARGINS = {
    "any": "Any distance",
    "close": "Close calls: within a factor of 2",
    "clear": "Clear cut: more than a factor of 10",
}
SORTS = {
    "file": "Order of the file",
    "close": "Closest call first",
    "wrong": "Most clearly wrong first",
    "surprise": "Least likely right answer first",
    "long": "Longest prompt first",
    "short": "Shortest prompt first",
}

LEAD = 10
"""Letters of an excerpt before the words that were searched for."""

LONGEST_TEXT = 200
"""Letters that can be searched for."""

_SPACE = r"[\s\p{Z}]+"
# In JSON a line break is written with an n, which must not join the word behind it; and a name of a
# field, whose closing quote a colon follows, is no text of the document.
_BEGIN_IN_JSON = r"(?:[^\\]|\\\\)"
_SPACE_IN_JSON = r"(?:[\s\p{Z}]|\\[bfnrt])+"
_END_IN_JSON = r"""(?:[^"\\]|\\.)*"[,}\]]"""

_ORDERS: dict[str, Callable[[Facts], NDArray[np.float64]]] = {
    "close": lambda facts: np.abs(facts.margin),
    "wrong": lambda facts: facts.margin,
    "surprise": lambda facts: facts.right,
    "long": lambda facts: -facts.tokens,
    "short": lambda facts: facts.tokens,
}
_MARGINS: dict[str, Callable[[Facts], Mask]] = {
    "close": lambda facts: np.abs(facts.margin) <= log(2),
    "clear": lambda facts: np.abs(facts.margin) > log(10),
}
_OUTCOMES: dict[str, Callable[[Facts], Mask]] = {
    "right": lambda facts: facts.correct >= 1,
    "wrong": lambda facts: facts.correct < 1,
    "unmeasured": lambda facts: np.isnan(facts.correct),
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is asked for; every field by itself leaves all questions as they are."""

    outcome: str = "all"
    subset: str = ""
    text: str = ""
    """Words as they stand one after the other, in either case and with any white space between
    them, in the document, in its choices or in what the model wrote; at most LONGEST_TEXT."""
    whole_prompt: bool = False
    """Whether `text` may also stand anywhere in the prompt: in instructions and worked examples."""
    margin: str = "any"
    at_least: int | None = None
    at_most: int | None = None
    """Tokens of the prompt."""
    sort: str = "file"

    def masks(self, facts: Facts, file: pq.ParquetFile) -> dict[str, Mask]:
        """By each field that filters whether it lets each question of the file through."""
        masks = {}
        if self.text:
            masks["text"] = self._with_text(file)
        if self.outcome in _OUTCOMES:
            masks["outcome"] = _OUTCOMES[self.outcome](facts)
        if self.subset:
            parts = facts.parts
            place = parts.index(self.subset) if self.subset in parts else len(parts)
            masks["subset"] = facts.part == place
        if self.margin in _MARGINS:
            masks["margin"] = _MARGINS[self.margin](facts)
        if self.at_least is not None:
            masks["at_least"] = facts.tokens >= self.at_least
        if self.at_most is not None:
            masks["at_most"] = facts.tokens <= self.at_most
        return masks

    def ordered(self, facts: Facts, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """These rows of the file in the order asked for; those without such a number come last."""
        if self.sort not in _ORDERS:
            return places
        return places[np.argsort(_ORDERS[self.sort](facts)[places], kind="stable")]

    def _with_text(self, file: pq.ParquetFile) -> Mask:
        """Block by block, by regular expressions that take linear time."""
        columns = ["doc", "choices", "responses.list.element.text"]
        columns += ["prompt"] if self.whole_prompt else []
        in_text, in_json = self._patterns()
        found = []
        for block in range(file.num_row_groups):
            table = file.read_row_group(block, columns=columns, use_threads=False)
            mask = _matches(table["doc"].combine_chunks(), in_json)
            choices = table["choices"].combine_chunks()
            mask |= _any_of(choices, _matches(choices.flatten(), in_text))
            responses = table["responses"].combine_chunks()
            written = responses.flatten().field("text")
            if written.null_count < len(written):
                mask |= _any_of(responses, _matches(written, in_text))
            if self.whole_prompt:
                mask |= _matches(table["prompt"].combine_chunks(), in_text)
            found.append(mask)
        return np.concatenate(found) if found else np.zeros(0, bool)

    def _patterns(self) -> tuple[str, str]:
        """Of the words in a text and in JSON."""
        words = self.text.split()
        in_json = (re.escape(json.dumps(word, ensure_ascii=False)[1:-1]) for word in words)
        return (
            "(?i)" + _SPACE.join(map(re.escape, words)),
            "(?i)" + _BEGIN_IN_JSON + _SPACE_IN_JSON.join(in_json) + _END_IN_JSON,
        )


def _matches(texts: Any, pattern: str) -> Mask:
    """Whether each text has the pattern in it; one that is null has not."""
    mask: Mask = pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(
        zero_copy_only=False
    )
    return mask.copy()


def _any_of(lists: Any, mask: Mask) -> Mask:
    """Whether each of these lists has a value for which `mask`, one entry a value, is true."""
    found = np.zeros(len(lists), bool)
    found[pc.list_parent_indices(lists).to_numpy()[mask]] = True
    return found


@dataclass(frozen=True)
class Excerpt:
    """A piece of a text around the words that were searched for; without them its beginning."""

    before: str
    hit: str = ""
    after: str = ""


def excerpt(texts: Iterable[str], wanted: str, length: int) -> Excerpt | None:
    """The first of the texts that has `wanted` in it, cut to about `length` characters.

    It begins shortly before the words, which so stay in sight in a narrow list. White space is
    joined. None where no text has it.
    """
    pattern = re.compile(" ".join(map(re.escape, wanted.split())), re.IGNORECASE)
    for text in texts:
        line = " ".join(text.split())
        if match := pattern.search(line):
            start = line.find(" ", max(0, match.start() - LEAD), match.start()) + 1
            start = start or max(0, match.start() - LEAD)
            before = ("…" if start else "") + line[start : match.start()]
            return Excerpt(before, match[0], line[match.end() : start + length])
    return None


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
        others = self._all_but("outcome")
        counts = {name: int((others & of(self.facts)).sum()) for name, of in _OUTCOMES.items()}
        return {"all": int(others.sum()), **counts}

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
