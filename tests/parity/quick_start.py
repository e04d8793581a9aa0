"""What an engine's process does first in a test, to spend its time on what is tested.

`datasets` reads a data set's README again for each of its configurations: minutes for MMLU's 57
subjects in the parser of YAML that is written in Python. The one written in C reads the same
language. And what is imported stays: a fifth of the imports' time goes into looking for garbage.
"""

from __future__ import annotations

import gc
import pickle
from functools import cache
from typing import Any

import yaml


def start_quickly() -> None:
    """YAML is read in C, and each text once; garbage is looked for seldom."""
    gc.set_threshold(10_000, 20, 50)
    yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]
    yaml.safe_load = _safe_load


def _safe_load(stream: Any) -> Any:
    """Each caller has objects of its own."""
    if isinstance(stream, str):
        return pickle.loads(_read(stream))
    return yaml.load(stream, yaml.CSafeLoader)


@cache
def _read(text: str) -> bytes:
    return pickle.dumps(yaml.load(text, yaml.CSafeLoader))
