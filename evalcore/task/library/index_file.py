"""The index of a large folder of tasks, kept on disk until one of its files changes.

What is kept is only names and paths; a file that cannot be read, or is damaged, is made anew.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcore.cache_folder import cache_folder
from evalcore.digest import digest_of
from evalcore.task.library.family_list import FAMILY

Plain = dict[str, Any]

_IGNORED_FOLDERS = {"__pycache__", ".ipynb_checkpoints"}
_LARGE = 500
"""From so many task files on, reading an index is quicker than making it."""
_OF_A_FAMILY = 50
"""A family's file is so many: it means hundreds of tasks."""
_FORM = 2
"""Changes with what an index holds or how names are read."""

Stamp = tuple[str, int, int]
"""A file's path, when it was changed (nanoseconds), and its size (bytes)."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """The files below a folder that task files may be, or include."""

    folder: Path
    files: tuple[Stamp, ...]
    """Sorted by path, so that the first of two tasks with one name is always the same."""

    @classmethod
    def of(cls, folder: Path) -> FolderState:
        return cls(folder, tuple(sorted(_stamps(str(folder)))))

    @property
    def digest(self) -> str:
        return digest_of([_FORM, str(self.folder), self.files])

    @property
    def is_large(self) -> bool:
        return sum(map(_weight, (path for path, _, _ in self.files))) >= _LARGE


def _weight(path: str) -> int:
    return _OF_A_FAMILY if path.endswith(f"/{FAMILY}") else path.endswith(".yaml")


def _stamps(folder: str) -> Iterator[Stamp]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _IGNORED_FOLDERS:
                    yield from _stamps(entry.path)
            elif not entry.name.endswith((".py", ".md")) and entry.is_file():
                yield _stamp(entry.path, entry.stat())


def _stamp(path: str, stat: os.stat_result) -> Stamp:
    return path, stat.st_mtime_ns, stat.st_size


def stamp_of(path: Path) -> Stamp:
    """The state of a file; that of one which is not there is a state, too."""
    try:
        return _stamp(str(path), path.stat())
    except OSError:
        return str(path), 0, 0


def _place(state: FolderState) -> Path:
    return cache_folder() / "index" / f"{digest_of(str(state.folder))}.json"


def read_kept(state: FolderState) -> Plain | None:
    """The index of the folder as it is, if it was kept."""
    if not state.is_large:
        return None
    try:
        kept = json.loads(_place(state).read_bytes())
        if kept["state"] == state.digest and all(
            stamp_of(Path(stamp[0])) == tuple(stamp) for stamp in kept["outside"]
        ):
            return {"entries": kept["entries"], "unreadable": kept["unreadable"]}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def keep(state: FolderState, index: Plain, outside: Iterable[Path]) -> None:
    """Writes the index; `outside` are files of other folders that its files include.

    A folder that cannot be written to is no fault: the index is made anew next time.
    """
    if not state.is_large:
        return
    place = _place(state)
    unfinished = place.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        stamps = [stamp_of(path) for path in outside]
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps({"state": state.digest, "outside": stamps, **index}))
        unfinished.replace(place)
