"""What the strongest models of a column answer instead of the key, out of their stored answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from leaderboard.models import Artifact, SuiteEntry
from leaderboard.models.task import is_share
from leaderboard.samples import NO_PICK, excerpts, facts_of, letter, path_of
from leaderboard.tasks import column as task_column

MODELS = 5
"""So many are asked."""
LOOKED_AT = 25
"""The first of the column, of which so many may have lost their file."""


@dataclass(frozen=True)
class Instead:
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


def strongest(column: SuiteEntry | None) -> list[str]:
    """Digests of the sample files of the best models, the best first."""
    board = task_column.board(column) if column else None
    place = task_column.place_on(board, column) if board and column else None
    if board is None or place is None:
        return []
    values = board.scores.value[:, place]
    rows = board.comparable_rows
    rows = rows[~np.isnan(values[rows])]
    sign = -1.0 if is_share(board.columns[place].metric) else 1.0
    best = rows[np.argsort(sign * values[rows], kind="stable")][:LOOKED_AT].tolist()
    runs = [run for row in best if (run := board.run_id(row, place))]
    files = dict(
        Artifact.objects.filter(run__in=runs, kind=Artifact.Kind.SAMPLES).values_list(
            "run", "sha256"
        )
    )
    known = [files[run] for run in runs if run in files]
    found: list[str] = []
    for sha256 in known:
        if len(found) < MODELS and excerpts.there(sha256):
            found.append(sha256)
    return found


def instead(files: list[str], part: str, doc_id: int) -> Instead | None:
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
    return Instead(place, most, picks.total(), place in key)
