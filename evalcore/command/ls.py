"""`evalcore ls`: the names that there are, with what they are and where they come from."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path

from evalcore.command.importing import backend
from evalcore.command.options import OptionError
from evalcore.model.capabilities import Capabilities
from evalcore.model.registry import MODELS
from evalcore.selection import library_of
from evalcore.values import folders

KINDS = {
    "tasks": "all that --tasks takes",
    "groups": "tasks with a number for all of them",
    "subtasks": "single tasks",
    "tags": "names for several tasks",
    "models": "all that --model takes, and what each can do at most",
}

ABILITIES: tuple[tuple[str, Callable[[Capabilities], object]], ...] = (
    ("continuations", lambda can: can.loglikelihood),
    ("whole texts", lambda can: can.rolling),
    ("writing", lambda can: can.generate),
    ("conversations", lambda can: f"as {can.chat}" if can.chat else None),
    ("images", lambda can: can.images),
    ("sound", lambda can: can.sounds),
    ("adapters", lambda can: can.adapters),
    ("quantised", lambda can: can.quantised),
    ("copies", lambda can: can.copies),
)
"""What `ls models` tells: of how likely a continuation and a whole text are, what is written, how a
conversation is sent, and what else is taken."""


def ls(options: argparse.Namespace) -> int:
    """Names, one a line, with tabs before what else is asked for.

    Unreadable files go to standard error. Raises OptionError where no kind is given.
    """
    if options.kind == "models":
        for row in abilities():
            sys.stdout.write("\t".join(row) + "\n")
        return 0
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


def abilities() -> list[tuple[str, ...]]:
    """A table with its head: what the backend of each name says that its models can do at most."""
    table: list[tuple[str, ...]] = [("--model", *(what for what, _ in ABILITIES))]
    for name in MODELS:
        can = backend(name).capabilities
        told = (ability(can) for _, ability in ABILITIES)
        table.append((name, *(one if isinstance(one, str) else _in_a_word(one) for one in told)))
    return table


def _in_a_word(able: object) -> str:
    return "yes" if able else "no"


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
