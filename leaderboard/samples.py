"""The samples of a run, read page by page from its parquet file with DuckDB.

One connection per request: one thread, a memory limit, nothing but this file to be read, and a
configuration that no later statement can change. The file is never loaded whole: one pass over
the columns that a search needs makes a small table, and only the shown question is read in full. It
is read by pyarrow, which takes half the time for one block of all columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leaderboard.sample_search import MEASURED, Excerpt, Search, excerpt

PAGE = 12
LENGTH = 140
"""Letters of a line of the list."""

# Columns in which the benchmarks of the field keep the question.
_QUESTION_COLUMNS = ("question", "query", "ctx", "sentence", "text")


@dataclass(frozen=True)
class Line:
    """A question in the list: enough to recognise it."""

    task: str
    doc_id: int
    correct: float | None
    opening: Excerpt

    @property
    def right(self) -> bool | None:
        return None if self.correct is None else self.correct >= 1


@dataclass(frozen=True)
class Place:
    """Where a question stands in the filtered list, counted from 1, and its neighbours there."""

    number: int
    before: tuple[str, int] | None
    after: tuple[str, int] | None


class Samples:
    """The questions of one run that a search leaves, in its order."""

    def __init__(self, database: duckdb.DuckDBPyConnection, path: Path, search: Search) -> None:
        """One pass over the file: `listed` has a row for each question, and in `number` its place
        among those that were found."""
        self._database = database
        self._path = path
        self._search = search
        self._filters = search.conditions
        passed = [f", coalesce({test}, false) AS by_{name}" for name, test in self._filters.items()]
        found = " AND ".join(f"by_{name}" for name in self._filters) or "true"
        database.execute(
            f"""
            CREATE TEMP TABLE listed AS
            SELECT *, CASE WHEN found THEN row_number() OVER
                (PARTITION BY found ORDER BY sorted_by NULLS LAST, place) END AS number
            FROM (
                SELECT *, {found} AS found
                FROM (
                    SELECT file_row_number AS place, task, doc_id, part, correct,
                        len(gold) AS keys, {search.order} AS sorted_by {"".join(passed)}
                    FROM ({MEASURED})
                )
            )
            """,  # noqa: S608
            search.values,
        )

    @classmethod
    @contextmanager
    def open(cls, path: Path, search: Search) -> Iterator[Self]:
        """The samples in `path`; raises FileNotFoundError where the store does not have it."""
        if not path.is_file():
            raise FileNotFoundError(path)
        with locked_database({"samples": path}) as database:
            yield cls(database, path, search)

    @property
    def parts(self) -> list[str]:
        """Names of the parts that the questions come from; empty where there is one only."""
        names = sorted({row["part"] for row in self._groups})
        return names if len(names) > 1 else []

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the leaf tasks, in the order of the file."""
        return tuple(dict.fromkeys(row["task"] for row in self._groups))

    @property
    def total(self) -> int:
        return sum(row["n"] for row in self._groups)

    @property
    def has_choices(self) -> bool:
        """Whether any question has choices, so that there is a margin between them."""
        return any(row["keys"] for row in self._groups)

    @cached_property
    def _groups(self) -> list[dict[str, Any]]:
        return self._rows(
            "SELECT task, part, count(*) AS n, coalesce(max(keys), 0) AS keys FROM listed "
            "GROUP BY task, part ORDER BY min(place)"
        )

    @cached_property
    def count(self) -> int:
        """How many questions the search leaves."""
        return int(self._rows("SELECT count(number) AS n FROM listed")[0]["n"])

    @cached_property
    def outcomes(self) -> dict[str, int]:
        """By outcome how many questions there are, under all filters but that of the outcome."""
        rows = self._rows(
            "SELECT count(*) AS all, count(*) FILTER (correct >= 1) AS right, "  # noqa: S608
            "count(*) FILTER (correct < 1) AS wrong, "
            "count(*) FILTER (correct IS NULL) AS unmeasured "
            f"FROM listed WHERE {self._all_but('outcome')}"
        )
        return rows[0]

    @property
    def pages(self) -> int:
        return max(1, -(-self.count // PAGE))

    def count_without(self, filter: str) -> int:
        """How many questions there would be without one of the search's filters."""
        query = f"SELECT count(*) AS n FROM listed WHERE {self._all_but(filter)}"  # noqa: S608
        return int(self._rows(query)[0]["n"])

    def page(self, number: int) -> list[Line]:
        """The lines of a page, counted from 1."""
        listed = self._rows(
            "SELECT place, task, doc_id, correct FROM listed "
            "WHERE number > $start AND number <= $start + $size ORDER BY number",
            start=(number - 1) * PAGE,
            size=PAGE,
        )
        openings = self._openings([row["place"] for row in listed])
        return [
            Line(row["task"], row["doc_id"], row["correct"], openings[row["place"]])
            for row in listed
        ]

    def one(self, task: str, doc_id: int) -> dict[str, Any] | None:
        """A whole sample, with the fields of evalcore's SAMPLE_SCHEMA; None where there is none."""
        rows = self._rows(
            "SELECT place FROM listed WHERE task = $task AND doc_id = $doc_id",
            task=task,
            doc_id=doc_id,
        )
        return _sample_at(rows[0]["place"], self._path) if rows else None

    def place(self, task: str, doc_id: int) -> Place | None:
        """Where a question stands in the list; None where the search leaves it out."""
        rows = self._rows(
            "SELECT other.number - here.number AS step, here.number, other.task, other.doc_id "
            "FROM listed AS here JOIN listed AS other ON abs(other.number - here.number) <= 1 "
            "WHERE here.task = $task AND here.doc_id = $doc_id",
            task=task,
            doc_id=doc_id,
        )
        if not rows:
            return None
        beside = {row["step"]: (row["task"], row["doc_id"]) for row in rows}
        return Place(rows[0]["number"], beside.get(-1), beside.get(1))

    def _all_but(self, filter: str) -> str:
        return " AND ".join(f"by_{name}" for name in self._filters if name != filter) or "true"

    def _openings(self, places: list[int]) -> dict[int, Excerpt]:
        """By its place in the file how each of these questions begins, or where the search hit."""
        if self._search.text:
            columns = "doc, choices, list_transform(responses, lambda r: r.text) AS written, prompt"
            return {row["place"]: self._hit(row) for row in self._at(places, columns)}
        begin = {row["place"]: question_in(row["doc"]) for row in self._at(places, "doc")}
        # Prompts are long and lie in blocks of their own: only where the document does not say.
        unsaid = [place for place, question in begin.items() if not question]
        begin |= {row["place"]: _last_part(row["prompt"]) for row in self._at(unsaid, "prompt")}
        return {place: Excerpt(" ".join(text.split())[:LENGTH]) for place, text in begin.items()}

    def _hit(self, row: dict[str, Any]) -> Excerpt:
        written = [text for text in row["written"] if text]
        question = question_in(row["doc"]) or _last_part(row["prompt"])
        texts = [question, *_texts_in(json.loads(row["doc"])), *row["choices"], *written]
        hit = excerpt([*texts, row["prompt"]], self._search.text, LENGTH)
        return hit or Excerpt(" ".join(question.split())[:LENGTH])

    def _at(self, places: list[int], columns: str) -> list[dict[str, Any]]:
        """Some columns of the questions at these places in the file."""
        if not places:
            return []
        numbers = ", ".join(str(int(place)) for place in places)
        return self._rows(
            f"SELECT file_row_number AS place, {columns} FROM samples "  # noqa: S608
            f"WHERE file_row_number IN ({numbers})"
        )

    def _rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        cursor = self._database.execute(query, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def whole_sample(path: Path, task: str, doc_id: int) -> dict[str, Any] | None:
    """One sample, with the fields of evalcore's SAMPLE_SCHEMA; None where the file has none such.

    Raises FileNotFoundError where the store does not have the file.
    """
    keys = pq.read_table(path, columns=["task", "doc_id"], use_threads=False)
    wanted = pc.and_(pc.equal(keys["task"], task), pc.equal(keys["doc_id"], doc_id))
    place = int(pc.index(wanted, True).as_py())
    return _sample_at(place, path) if place >= 0 else None


def _sample_at(place: int, path: Path) -> dict[str, Any]:
    """The sample in this row of the file, counted from 0; no other block of it is read."""
    with pq.ParquetFile(path) as file:
        block = 0
        while place >= (rows := file.metadata.row_group(block).num_rows):
            place, block = place - rows, block + 1
        table = file.read_row_group(block, use_threads=False)
        sample: dict[str, Any] = table.slice(place, 1).to_pylist()[0]
    return sample


@contextmanager
def locked_database(files: dict[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory with one view for each parquet file, able to read those files only."""
    database = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "256MB"})
    try:
        quoted = {view: "'" + str(path).replace("'", "''") + "'" for view, path in files.items()}
        database.execute(f"SET allowed_paths = [{', '.join(quoted.values())}]")
        database.execute("SET parquet_metadata_cache = true")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        for view, path in quoted.items():
            database.execute(
                f"CREATE VIEW {view} AS FROM read_parquet({path}, file_row_number = true)"
            )
        yield database
    finally:
        database.close()


def question_in(doc: str) -> str:
    """The question's own words, where the document has a column that is known to hold them."""
    fields = json.loads(doc)
    for column in _QUESTION_COLUMNS:
        text = fields.get(column) if isinstance(fields, dict) else None
        if isinstance(text, str) and text.strip():
            return text.strip()
    return ""


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
