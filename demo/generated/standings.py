"""What of a real board is missing: models not measured yet, runs that failed, wait or differ."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from demo.generated.benchmarks import Column

FAILURES = (
    (
        "ModelError",
        "Invented case: out of memory while loading the weights on our largest worker (80 GB).",
    ),
    ("ModelError", "Invented case: tokenizer.json names a token that the model does not have."),
    ("TaskError", "Invented case: the data set's column “choices” is empty in row 17."),
    ("InfraError", "Invented case: the Hub did not answer in three attempts."),
)


class Cell(IntEnum):
    DONE = 0
    OTHER_DATA = 1
    """Done on a later commit of the data set: in this column not comparable."""
    FAILED = 2
    QUEUED = 3
    NONE = 4


SHARES = {Cell.NONE: 0.02, Cell.FAILED: 0.01, Cell.QUEUED: 0.008, Cell.OTHER_DATA: 0.008}
"""Of models with some cell of a kind, one at least; all others are complete."""


def cells(models: int, columns: Sequence[Column], *, seed: int) -> NDArray[np.int8]:
    """The kind of each cell, shape (models, columns)."""
    rng = np.random.default_rng([seed, *b"cells"])
    kinds = np.full((models, len(columns)), Cell.DONE, np.int8)
    benchmarks = sorted({column.benchmark.name for column in columns})
    place = np.array([benchmarks.index(column.benchmark.name) for column in columns])
    fates = rng.permutation(models)
    for kind, share in SHARES.items():
        chosen, fates = np.split(fates, [max(1, round(share * models))])
        for model in chosen:
            most = 2 + len(benchmarks) // 6
            concerned = rng.choice(len(benchmarks), rng.integers(1, most), replace=False)
            kinds[model, np.isin(place, concerned)] = kind
    return kinds
