"""The samples of a run, read page by page from its parquet file with DuckDB.

One connection per request: one thread, a memory limit, nothing but this file to be read, and a
configuration that no later statement can change. The file is never loaded whole.
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

OUTCOMES = {"all": "All", "right": "Right", "wrong": "Wrong"}
_CONDITION = {"all": "true", "right": "correct >= 1", "wrong": "correct < 1"}
_PART = "coalesce(subset, task)"
PAGE = 12
OPENING_LENGTH = 140

# Columns in which the benchmarks of the field keep the question.
_QUESTION_COLUMNS = ("question", "query", "ctx", "sentence", "text")


@dataclass(frozen=True)
class Line:
    """A question in the list: enough to recognise it."""

    task: str
    doc_id: int
    correct: float | None
    opening: str

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
    """The questions of one run under one filter, in the order of the file."""

    def __init__(
        self, database: duckdb.DuckDBPyConnection, *, outcome: str = "all", subset: str = ""
    ) -> None:
        self._database = database
        self._filter = f"{_CONDITION[outcome]} AND ($subset = '' OR {_PART} = $subset)"
        self._subset = subset

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, outcome: str = "all", subset: str = "") -> Iterator[Self]:
        """The samples in `path`; raises FileNotFoundError where the store does not have it."""
        if not path.is_file():
            raise FileNotFoundError(path)
        with locked_database({"samples": path}) as database:
            yield cls(database, outcome=outcome, subset=subset)

    @cached_property
    def subsets(self) -> list[str]:
        """Names of the parts that the questions come from; empty where there is one only."""
        rows = self._rows(f"SELECT DISTINCT {_PART} AS name FROM samples ORDER BY name")  # noqa: S608
        return [row["name"] for row in rows] if len(rows) > 1 else []

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Names of the leaf tasks, in the order of the file."""
        rows = self._rows("SELECT task FROM samples GROUP BY task ORDER BY min(file_row_number)")
        return tuple(row["task"] for row in rows)

    @cached_property
    def total(self) -> int:
        return int(self._rows("SELECT count(*) AS n FROM samples")[0]["n"])

    @cached_property
    def count(self) -> int:
        """How many questions the filter leaves."""
        rows = self._rows(f"SELECT count(*) AS n FROM samples WHERE {self._filter}")  # noqa: S608
        return int(rows[0]["n"])

    @property
    def pages(self) -> int:
        return max(1, -(-self.count // PAGE))

    def page(self, number: int) -> list[Line]:
        """The lines of a page, counted from 1."""
        rows = self._rows(
            "SELECT task, doc_id, correct, doc, prompt FROM samples "  # noqa: S608
            f"WHERE {self._filter} ORDER BY file_row_number LIMIT $size OFFSET $start",
            size=PAGE,
            start=(number - 1) * PAGE,
        )
        return [
            Line(row["task"], row["doc_id"], row["correct"], _opening(row["doc"], row["prompt"]))
            for row in rows
        ]

    def one(self, task: str, doc_id: int) -> dict[str, Any] | None:
        """A whole sample, with the fields of evalcore's SAMPLE_SCHEMA; None where there is none."""
        rows = self._rows(
            "SELECT * EXCLUDE (file_row_number) FROM samples "
            "WHERE task = $task AND doc_id = $doc_id",
            task=task,
            doc_id=doc_id,
        )
        return rows[0] if rows else None

    def place(self, task: str, doc_id: int) -> Place | None:
        """Where a question stands in the filtered list; None where the filter leaves it out."""
        rows = self._rows(
            "SELECT * FROM (SELECT task, doc_id, row_number() OVER w AS number, "  # noqa: S608
            "lag(task) OVER w AS task_before, lag(doc_id) OVER w AS before, "
            "lead(task) OVER w AS task_after, lead(doc_id) OVER w AS after "
            f"FROM samples WHERE {self._filter} WINDOW w AS (ORDER BY file_row_number)) "
            "WHERE task = $task AND doc_id = $doc_id",
            task=task,
            doc_id=doc_id,
        )
        if not rows:
            return None
        row = rows[0]
        return Place(
            number=row["number"],
            before=None if row["before"] is None else (row["task_before"], row["before"]),
            after=None if row["after"] is None else (row["task_after"], row["after"]),
        )

    def _rows(self, query: str, **values: object) -> list[dict[str, Any]]:
        if "$subset" in query:
            values["subset"] = self._subset
        cursor = self._database.execute(query, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@contextmanager
def locked_database(files: dict[str, Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory with one view for each parquet file, able to read those files only."""
    database = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "256MB"})
    try:
        paths = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files.values())
        database.execute(f"SET allowed_paths = [{paths}]")
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        for view, path in files.items():
            database.read_parquet(str(path), file_row_number=True).create_view(view)
        yield database
    finally:
        database.close()


def _opening(doc: str, prompt: str) -> str:
    text = question_in(doc) or prompt.strip().rpartition("\n\n")[2]
    return " ".join(text.split())[:OPENING_LENGTH]


def question_in(doc: str) -> str:
    """The question's own words, where the document has a column that is known to hold them."""
    fields = json.loads(doc)
    for column in _QUESTION_COLUMNS:
        text = fields.get(column) if isinstance(fields, dict) else None
        if isinstance(text, str) and text.strip():
            return text.strip()
    return ""
