"""`evalcore ls`: the names that there are, with what they are and where they come from."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from evalcore.command.options import OptionError
from evalcore.selection import library_of
from evalcore.values import folders

KINDS = {
    "tasks": "all that --tasks takes",
    "groups": "tasks with a number for all of them",
    "subtasks": "single tasks",
    "tags": "names for several tasks",
}


def ls(options: argparse.Namespace) -> int:
    """Names, one a line, with tabs before what else is asked for.

    Unreadable files go to standard error. Raises OptionError where no kind is given.
    """
    if options.kind is None:
        said = ", ".join(f"{kind} ({what})" for kind, what in KINDS.items())
        raise OptionError(f"ls: say what to list: {said}; such as `evalcore ls groups`")
    library = library_of(folders(options.include_path))
    names = {
        "tasks": {*library.tasks, *library.groups, *library.tags},
        "groups": library.groups,
        "subtasks": library.tasks,
        "tags": library.tags,
    }[options.kind]
    for name in sorted(names):
        path, members = library.place_of(name)
        line = [name]
        if options.paths:
            line.append(str(path or ""))
        if options.descriptions:
            line.append(f"{members} tasks" if path is None else _title(path, library.folders))
        sys.stdout.write("\t".join(line) + "\n")
    for problem in library.unreadable.values():
        sys.stderr.write(f"{problem}\n")
    return 0


def _title(path: Path, folders: tuple[Path, ...]) -> str:
    """The first heading of the README nearest to a task's file, within its folder of tasks."""
    for folder in path.parents:
        if title := _heading(folder / "README.md"):
            return title
        if folder in folders:
            break
    return ""


@functools.cache
def _heading(readme: Path) -> str:
    if not readme.is_file():
        return ""
    with readme.open(encoding="utf-8", errors="replace") as lines:
        return next((line.strip("# \n") for line in lines if line.startswith("#")), "")
