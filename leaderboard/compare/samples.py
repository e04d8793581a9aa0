"""What sample files say of two answers to one question: the numbers of all, the text of a few.

Who was right is known from the vectors. Picks and likelihoods are read from their own columns once
and kept, since a file never changes; texts are read for the questions that are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leaderboard.models import Artifact
from leaderboard.samples import rows_at
from leaderboard.samples import store as artifacts

_LIKELIHOODS = "responses.list.element.loglikelihood"
_ANSWERS = ("pick", "gold", "choices", _LIKELIHOODS)
NONE = -1
"""No pick."""


@dataclass(frozen=True, eq=False)
class Answers:
    """One run's answers, each array with one entry a question in the order of the file."""

    pick: NDArray[np.int32]
    """Place of the chosen choice; NONE where there are no choices."""
    margin: NDArray[np.float64]
    """Loglikelihood of the likeliest right choice less that of the likeliest wrong one, in nats;
    NaN where there are no choices."""
    gold: pa.Array
    """Places of the right choices."""

    @property
    def n(self) -> int:
        return len(self.pick)

    @property
    def has_choices(self) -> bool:
        return bool((self.pick != NONE).any())

    def gold_of(self, place: int) -> list[int]:
        return self.gold[place].as_py() or []


def stored(runs: Iterable[UUID], kind: Artifact.Kind) -> dict[UUID, str]:
    """By run the digest of its file of this kind."""
    files = Artifact.objects.filter(run__in=list(runs), kind=kind)
    return dict(files.values_list("run_id", "sha256"))


def answers(sha256: str) -> Answers | None:
    """The answers in a stored sample file; None where the store does not have it."""
    path = artifacts.path_of(sha256)
    return read(path) if path.is_file() else None


@lru_cache(maxsize=64)
def read(path: Path) -> Answers:
    """The answers in a sample file, whose name stands for what is in it."""
    with pq.ParquetFile(path) as file:
        table = file.read(columns=list(_ANSWERS), use_threads=False)
    pick = pc.fill_null(table["pick"], NONE).to_numpy().astype(np.int32)
    gold = table["gold"].combine_chunks()
    choices = pc.fill_null(pc.list_value_length(table["choices"]), 0).to_numpy()
    margin = _margins(table["responses"].combine_chunks(), gold, choices)
    return Answers(pick, margin, gold)


def _margins(responses: pa.Array, gold: pa.Array, choices: NDArray[Any]) -> NDArray[np.float64]:
    """By question; the first so many responses are those to its choices."""
    row, place = _indices(responses)
    likelihoods = responses.flatten().field("loglikelihood").to_numpy(zero_copy_only=False)
    of_choice = place < choices[row]
    row, place, likelihoods = row[of_choice], place[of_choice], likelihoods[of_choice]
    gold_row, _ = _indices(gold)
    golden = gold.flatten().to_numpy()
    width = int(max(choices.max(initial=0), golden.max(initial=0))) + 1
    right = np.isin(row * width + place, gold_row * width + golden)
    best = np.full((2, len(choices)), np.nan)
    for side, which in enumerate((right, ~right)):
        np.fmax.at(best[side], row[which], likelihoods[which])
    with np.errstate(invalid="ignore"):  # two choices that are both impossible
        return np.asarray(best[0] - best[1])


def _indices(lists: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each element of a column of lists its row, and its place in that row's list."""
    row = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    first = np.searchsorted(row, np.arange(len(lists)))
    return row, np.arange(len(row)) - first[row]


def rows(path: Path, places: Iterable[int], columns: Sequence[str] | None = None) -> dict[int, Any]:
    """By place in the file these rows of it as dicts; only their blocks are read."""
    with pq.ParquetFile(path) as file:
        return rows_at(file, sorted(places), columns)
