"""The files that a command is given, read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evalcore.command.options import OptionError
from evalcore.formats.run_files import Run, read_runs


def read(paths: Iterable[Path]) -> list[Run]:
    """Raises OptionError naming a file that is no run."""
    try:
        return list(read_runs(paths))
    except ValueError as error:
        raise OptionError(str(error)) from error
