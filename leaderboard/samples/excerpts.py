"""A few questions out of a sample file: the first ones, one about a document, or how some begin.

Files in the artifact store never change, so what was read once is kept for the next reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from leaderboard.samples import store as artifacts
from leaderboard.samples.listing import question_in
from leaderboard.samples.question import Question, read_question


@contextmanager
def locked_database(files: dict[str, Path]) -> Iterator[Any]:
    """A database in memory with one view for each parquet file, able to read those files only.

    One for each request: one thread, a memory limit, and a configuration that no later statement
    can change.
    """
    import duckdb  # imported late: 14 MB that only pages with excerpts need

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


LENGTH = 160
"""Letters of a question where one line has to do."""


@dataclass(frozen=True)
class Excerpt:
    """A sample, ready to be shown."""

    task: str
    doc_id: int
    doc_digest: str
    question: Question


@lru_cache(maxsize=64)
def first(sha256: str, n: int) -> tuple[Excerpt, ...]:
    """The first samples of a stored file. Raises FileNotFoundError where the store has none."""
    with _opened(sha256) as database:
        return tuple(_read(database, place) for place in range(min(n, _rows(database))))


@lru_cache(maxsize=64)
def about(sha256: str, doc_digest: str) -> Excerpt | None:
    """The sample about a document; None where there is none. Raises FileNotFoundError."""
    with _opened(sha256) as database:
        found = database.execute(
            "SELECT min(file_row_number) FROM samples WHERE doc_digest = ?", [doc_digest]
        ).fetchone()
        return _read(database, found[0]) if found and found[0] is not None else None


@lru_cache(maxsize=64)
def openings(sha256: str, keys: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], str]:
    """How the questions with these tasks and numbers begin; without those of unknown words.

    Raises FileNotFoundError.
    """
    if not keys:
        return {}
    wanted = ", ".join(["(?, ?)"] * len(keys))
    with _opened(sha256) as database:
        rows = database.execute(
            f"SELECT task, doc_id, doc FROM samples WHERE (task, doc_id) IN ({wanted})",  # noqa: S608
            [value for key in keys for value in key],
        ).fetchall()
    words = {(task, doc_id): " ".join(question_in(doc).split()) for task, doc_id, doc in rows}
    return {key: text[:LENGTH] for key, text in words.items() if text}


def there(sha256: str) -> bool:
    """Whether the store has the file."""
    return artifacts.path_of(sha256).is_file()


def _opened(sha256: str) -> Any:
    if not there(sha256):
        raise FileNotFoundError(sha256)
    return locked_database({"samples": artifacts.path_of(sha256)})


def _rows(database: Any) -> int:
    found = database.execute("SELECT count(*) FROM samples").fetchone()
    return int(found[0]) if found else 0


def _read(database: Any, place: int) -> Excerpt:
    """By its place in the file, so that one block of it is read."""
    cursor = database.execute("SELECT * FROM samples WHERE file_row_number = ?", [place])
    names = [column[0] for column in cursor.description or ()]
    row = dict(zip(names, cursor.fetchone() or (), strict=True))
    return Excerpt(row["task"], row["doc_id"], row["doc_digest"], read_question(row))
