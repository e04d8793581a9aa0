"""That a stored file cannot be had for the moment, or cannot be read at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

logger = logging.getLogger(__name__)


class Unavailable(OSError):
    """The bucket does not answer, or refuses: what is in it is as it was."""


class Damaged(Unavailable):
    """The file is there, and is not what an engine writes: nobody can read it."""


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Raises Damaged where the file at `path`, which is read meanwhile, has another form."""
    try:
        yield
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as problem:
        logger.error(
            "the samples in %s cannot be read: %s: %s", path.name, type(problem).__name__, problem
        )
        raise Damaged(f"{path.name} is not what an engine writes") from problem
