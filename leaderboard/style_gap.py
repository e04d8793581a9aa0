"""The same questions in two prompt styles: how far one model's score moves, and how sure that is.

Both files hold a score per question. Where they hold the same questions, the difference is paired
(docs/method.md); where they do not, its error is that of two independent scores, and it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isclose
from pathlib import Path

from evalcore.stats import difference_interval, interval
from leaderboard import artifacts
from leaderboard.board import Score
from leaderboard.samples import locked_database

# Questions are the same where part, number and digest agree: a row without partner unpairs all.
_PAIRS = """
    SELECT a.correct - b.correct, a.doc_digest = b.doc_digest, a.subset, a.cluster
    FROM a FULL JOIN b ON coalesce(a.subset, '') = coalesce(b.subset, '') AND a.doc_id = b.doc_id
"""


@dataclass(frozen=True)
class Gap:
    """A difference of two scores with its 95 % interval."""

    value: float
    low: float
    high: float
    paired: bool

    @property
    def clear(self) -> bool:
        """Whether the interval misses zero."""
        return self.low > 0 or self.high < 0


def gap(first: Score, second: Score, files: tuple[str, str] | None) -> Gap:
    """`first` minus `second`; `files` are the digests of their samples, where both have some."""
    if files is not None and all(artifacts.path_of(sha256).is_file() for sha256 in files):
        paired = _paired(*files)
        # Scores that are not plain means over questions do not differ by the mean difference.
        if paired and isclose(paired.value, first.value - second.value, abs_tol=1e-9):
            return paired
    difference = difference_interval(first.interval, second.interval)
    return Gap(difference.value, difference.low, difference.high, paired=False)


@lru_cache(maxsize=4096)
def _paired(first: str, second: str) -> Gap | None:
    """By digest, so that what was computed once stays true; None where nothing can be paired."""
    paths: dict[str, Path] = {"a": artifacts.path_of(first), "b": artifacts.path_of(second)}
    with locked_database(paths) as database:
        rows = database.execute(_PAIRS).fetchall()
    if len(rows) < 2 or not all(same and difference is not None for difference, same, *_ in rows):
        return None
    # Questions of one cluster may depend on each other; a label counts within its part only.
    labels = [(subset, cluster) for *_, subset, cluster in rows]
    clusters = labels if any(cluster is not None for _, cluster in labels) else None
    if clusters and len(set(clusters)) < 2:
        return None
    difference = interval([difference for difference, *_ in rows], clusters)
    if difference.low == difference.high:
        return None  # all questions differ alike: their spread says nothing of other questions
    return Gap(difference.value, difference.low, difference.high, paired=True)
