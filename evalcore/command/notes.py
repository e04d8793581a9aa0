"""Notes on task files, on standard error: each once, however many tasks it is true of."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_PLACE = re.compile(r"\S*[/\\]\S+")
"""A file, perhaps with its line: what differs between alike notes."""


class Notes(logging.Handler):
    """Writes a note the first time; at the end how many alike there were in other files."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._count: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._first: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text in self._seen:
            return
        self._seen.add(text)
        kind = _PLACE.sub("", text)
        self._count[kind] += 1
        if self._count[kind] == 1:
            self._first[kind] = text
            sys.stderr.write(f"evalcore: {text}\n")

    def end(self) -> None:
        for kind, count in self._count.items():
            if count > 1:
                sys.stderr.write(f"evalcore: {count - 1} more files with: {self._first[kind]}\n")


@contextmanager
def noted_once() -> Iterator[None]:
    """While a command runs; whoever asks for a log by --verbosity gets that instead."""
    notes, ours = Notes(), logging.getLogger("evalcore")
    ours.addHandler(notes)
    try:
        yield
    finally:
        ours.removeHandler(notes)
        notes.end()
