"""What an engine's process does first in a test, to spend its time on what is tested.

`datasets` reads a data set's README again for each of its configurations: minutes for MMLU's 57
subjects in the parser of YAML that is written in Python. The one written in C reads the same
language. And what is imported stays: a fifth of the imports' time goes into looking for garbage.
"""

from __future__ import annotations

import gc
import os
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rouge_score.scoring import BootstrapAggregator

INDEX = "PARITY_INDEX"
"""Names the file that keeps lm-evaluation-harness's index of its own tasks."""


def start_quickly() -> None:
    """YAML is read in C, and each text once; garbage is looked for seldom."""
    gc.set_threshold(10_000, 20, 50)
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]
    yaml.safe_load = _safe_load
    _draw_from_one_row_once()


def _draw_from_one_row_once() -> None:
    """Of one score a task of lm-evaluation-harness's draws a thousand samples: that score each."""
    drawn = BootstrapAggregator._bootstrap_resample

    def resample(self: Any, matrix: Any) -> Any:
        if len(matrix) == 1:
            return np.repeat(matrix.astype(float), 3, axis=0)
        return drawn(self, matrix)

    BootstrapAggregator._bootstrap_resample = resample


def keep_index() -> None:
    """Have lm-evaluation-harness read its 14,000 files once for all processes that share a file."""
    from lm_eval.tasks._index import TaskIndex

    if INDEX not in os.environ:
        return
    file, build = Path(os.environ[INDEX]), TaskIndex.build

    def kept(paths: Any, **options: Any) -> Any:
        wanted = (sorted(map(str, paths)), options)
        if file.is_file():
            of, index = pickle.loads(file.read_bytes())
            if of == wanted:
                return index
        index = build(paths, **options)
        if not file.is_file():
            file.write_bytes(pickle.dumps((wanted, index)))
        return index

    TaskIndex.build = staticmethod(kept)


def _safe_load(stream: Any) -> Any:
    """Each caller has objects of its own."""
    if isinstance(stream, str):
        return pickle.loads(_read(stream))
    return yaml.load(stream, yaml.CSafeLoader)


@cache
def _read(text: str) -> bytes:
    return pickle.dumps(yaml.load(text, yaml.CSafeLoader))
