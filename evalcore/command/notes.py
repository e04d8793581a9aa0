"""Notes on task files, on standard error: each once, however many tasks it is true of."""

from __future__ import annotations

import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_PLACE = re.compile(r"\S*[/\\]\S+")
"""A file, perhaps with its line: what differs between alike notes."""


class Notes(logging.Handler):
    """Writes a note the first time; at the end how many alike there were in other files."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._alike: dict[str, list[str]] = defaultdict(list)
        """By what they have in common."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        alike = self._alike[_PLACE.sub("", text)]
        if not alike:
            sys.stderr.write(f"evalcore: {text}\n")
        if text not in alike:
            alike.append(text)

    def end(self) -> None:
        for first, *others in self._alike.values():
            if others:
                sys.stderr.write(f"evalcore: {len(others)} more files with: {first}\n")


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
