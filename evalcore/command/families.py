"""`evalcore families`: the task files of every family, written from its list."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from evalcore.command.selection import folder_to_change
from evalcore.errors import TaskError
from evalcore.task.family_files import differences, family_files, write
from evalcore.task.library.family import FAMILY
from evalcore.task.yaml_file import OWN_TASKS

NOT_WRITTEN = 1
"""Exit status when, under `--check`, a file is not what its list says."""


def families(options: argparse.Namespace) -> int:
    """Writes what each `family.yaml` below the folders means, or only says what would change."""
    changed = 0
    folders: list[Path] = options.folders
    if not folders:
        folders = [OWN_TASKS if options.check else folder_to_change(None)]
    for path in _families(folders):
        changes = differences(path) if options.check else write(path)
        for file in changes.wrong:
            sys.stdout.write(f"{'not as its list says' if options.check else 'written'}: {file}\n")
        for file in changes.left_over:
            sys.stdout.write(f"{'no longer meant' if options.check else 'removed'}: {file}\n")
        changed += len(changes.wrong) + len(changes.left_over)
    if options.check and changed:
        sys.stdout.write(f"{changed} files differ: run `evalcore families`\n")
        return NOT_WRITTEN
    return 0


def _families(folders: Sequence[Path]) -> list[Path]:
    found = [path for folder in folders for path in family_files(folder)]
    if not found:
        named = ", ".join(map(str, folders))
        raise TaskError(f"There is no {FAMILY} in {named} or below it: name another folder")
    return found
