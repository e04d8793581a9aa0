"""The names that folders of task files define: tasks, groups and tags, and where each comes from.

Nothing is checked and no task code runs here, so that thousands of files are indexed in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.yaml_file import TaskFile, TaskFileReader

log = logging.getLogger(__name__)

_IGNORED_FOLDERS = {"__pycache__", ".ipynb_checkpoints"}

_ONLY_IN_TASKS = ("dataset_path", "custom_dataset", "output_type", "doc_to_text")


class EntryKind(Enum):
    TASK = "task"
    GROUP = "group"
    TAG = "tag"


@dataclass(slots=True)
class Entry:
    """What a name stands for."""

    name: str
    kind: EntryKind
    file: TaskFile | None = None
    """None for a tag, which many files make up."""
    tasks: set[str] = field(default_factory=set)
    """The tasks of a tag."""


@dataclass(slots=True)
class TaskIndex:
    """All names of one or more folders; in a later folder they override those of an earlier one."""

    entries: dict[str, Entry] = field(default_factory=dict)
    unreadable: dict[Path, str] = field(default_factory=dict)
    """Files that are no valid YAML or include what is not there, and why."""


def build_index(folders: Iterable[Path], reader: TaskFileReader) -> TaskIndex:
    """Indexes every *.yaml below `folders`; files without the extension are for inclusion only.

    Raises TaskError if a folder does not exist.
    """
    index = TaskIndex()
    for folder in folders:
        if not folder.is_dir():
            raise TaskError(f"There is no folder of tasks at {folder}")
        found: dict[str, Entry] = {}
        for path in _yaml_files(folder):
            try:
                _add(entries_of(reader.read(path)), found)
            except TaskError as error:
                index.unreadable[path] = str(error)
        for name in found.keys() & index.entries.keys():
            log.info("%s from %s overrides the one indexed before", name, folder)
        index.entries.update(found)
    return index


def entries_of(file: TaskFile) -> list[Entry]:
    """The names that one file defines: its task or group, and the tags it joins.

    A file that is neither (a suite, a template) defines none.
    """
    values = file.values
    if "class" not in values and _is_group(values):
        return [Entry(str(values["group"]), EntryKind.GROUP, file)]
    if not isinstance(values.get("task"), str):
        return []
    name = values["task"]
    tags = [Entry(tag, EntryKind.TAG, tasks={name}) for tag in tags_of(values)]
    return [Entry(name, EntryKind.TASK, file), *tags]


def tags_of(values: dict[str, Any]) -> list[str]:
    """A task's tags. The key `group` in a task file is the old spelling of `tag`."""
    tags: list[str] = []
    for stated in (values.get("tag"), values.get("group")):
        tags += [stated] if isinstance(stated, str) else stated or []
    return [tag for tag in tags if tag != values.get("task")]


def _is_group(values: dict[str, Any]) -> bool:
    """lm-eval's guide and paper write `group` into task files, where it means `tag`."""
    if "group" not in values or isinstance(values["group"], list):
        return False
    one_task = isinstance(values.get("task"), str)
    return not (one_task and any(key in values for key in _ONLY_IN_TASKS))


def _add(entries: list[Entry], found: dict[str, Entry]) -> None:
    for entry in entries:
        known = found.setdefault(entry.name, entry)
        if known is entry:
            continue
        if known.kind is entry.kind is EntryKind.TAG:
            known.tasks |= entry.tasks
        else:
            log.warning("%s is defined twice; %s is ignored", entry.name, entry.file)
            if entry.kind is EntryKind.TASK:
                return


def _yaml_files(folder: Path) -> Iterator[Path]:
    """In a fixed order, so that the first of two files with one name is always the same."""
    files = (
        path
        for path in folder.glob("**/*.yaml")
        if not _IGNORED_FOLDERS.intersection(path.relative_to(folder).parts)
    )
    return iter(sorted(files, key=lambda path: path.as_posix()))
