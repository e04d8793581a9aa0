"""A few questions out of a sample file: the first ones, one about a document, or how some begin.

Files in the artifact store never change, so what was read once is kept for the next reader. Each
function raises FileNotFoundError where the store has no such file, and Damaged where nobody can
read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow.parquet as pq

from leaderboard.samples.facts import facts_of
from leaderboard.samples.listing import question_in, rows_at, rows_in
from leaderboard.samples.question import Question, read_question
from leaderboard.samples.store import as_written, path_of

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
    """The first samples of a stored file."""
    path = path_of(sha256)
    with as_written(path), pq.ParquetFile(path) as file:
        return _read(file, range(min(n, file.metadata.num_rows)))


@lru_cache(maxsize=64)
def about(sha256: str, doc_digest: str) -> Excerpt | None:
    """The sample about a document; None where there is none."""
    path = path_of(sha256)
    with as_written(path), pq.ParquetFile(path) as file:
        digests = file.read(columns=["doc_digest"], use_threads=False)["doc_digest"]
        place = digests.index(doc_digest).as_py()
        return _read(file, [place])[0] if place >= 0 else None


@lru_cache(maxsize=64)
def openings(sha256: str, keys: tuple[tuple[str, int], ...]) -> dict[tuple[str, int], str]:
    """How the questions with these tasks and numbers begin; without those of unknown words."""
    if not keys:
        return {}
    path = path_of(sha256)
    facts = facts_of(path)
    places = {place: key for key in keys if (place := facts.place(*key)) is not None}
    docs = rows_in(path, places, ["doc"])
    words = {
        places[place]: " ".join(question_in(row["doc"]).split()) for place, row in docs.items()
    }
    return {key: text[:LENGTH] for key, text in words.items() if text}


def there(sha256: str) -> bool:
    """Whether the store has the file."""
    return path_of(sha256).is_file()


def _read(file: pq.ParquetFile, places: Sequence[int]) -> tuple[Excerpt, ...]:
    return tuple(
        Excerpt(row["task"], row["doc_id"], row["doc_digest"], read_question(row))
        for row in rows_at(file, places).values()
    )
