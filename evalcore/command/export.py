"""`evalcore export`: tasks as files that lm-evaluation-harness loads."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evalcore.authoring.export import Export
from evalcore.command.options import OptionError
from evalcore.errors import TaskError, did_you_mean
from evalcore.selection import library_of

TO = ("lm-eval",)
"""Whose form the files can have."""


def export(options: argparse.Namespace) -> int:
    """Writes the files. Raises OptionError or TaskError; then nothing is written."""
    folder: Path = options.folder
    if options.to not in TO:
        near = did_you_mean(options.to, TO) if options.to else ""
        got = repr(options.to) if options.to else "nothing"
        raise OptionError(f"--to: expected {' or '.join(TO)}, got {got}{near}: write --to {TO[0]}")
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"DIR: {folder} is a file: name a new or empty folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise OptionError(f"DIR: {folder} is not empty: name a new or empty folder")
    library = library_of(options.include_path)
    made = Export(library)
    if options.tasks is None:
        made.add_all()
    else:
        try:
            made.add(library.select(options.tasks))
        except TaskError as error:
            raise TaskError(f"--tasks: {error.reason}; `evalcore ls tasks` lists them") from error
    made.write(folder)
    sys.stdout.write(f"{len(made.files)} files written to {folder}\n")
    return 0
