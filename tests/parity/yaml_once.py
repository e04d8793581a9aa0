"""YAML by the parser written in C, and each text once, for the process of an engine.

`datasets` reads a data set's README again for each of its configurations: minutes for MMLU's 57
subjects in the parser that is written in Python. The one written in C reads the same language.
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import yaml


def read_yaml_once() -> None:
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
