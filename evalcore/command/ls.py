"""`evalcore ls`: the names that there are."""

from __future__ import annotations

import argparse
import sys

from evalcore.command.selection import library_of
from evalcore.command.values import folders


def ls(options: argparse.Namespace) -> int:
    """Names, one a line; `tasks` are all of them. Unreadable files go to standard error."""
    library = library_of(folders(options.include_path))
    names = {
        "tasks": {*library.tasks, *library.groups, *library.tags},
        "groups": library.groups,
        "subtasks": library.tasks,
        "tags": library.tags,
    }[options.kind]
    sys.stdout.write("".join(f"{name}\n" for name in sorted(names)))
    for problem in library.unreadable.values():
        sys.stderr.write(f"{problem}\n")
    return 0
