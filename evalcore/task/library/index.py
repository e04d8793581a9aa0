"""The names that folders of task files define: tasks, groups and tags, and where each comes from.

Nothing is checked and no task code runs here, so that thousands of files are indexed in seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.library.families import TaskFiles
from evalcore.task.library.family_list import FAMILY
from evalcore.task.library.index_file import FolderState, Plain, keep, read_kept
from evalcore.task.yaml_file import TaskFile

log = logging.getLogger(__name__)

_ONLY_IN_TASKS = ("dataset_path", "custom_dataset", "output_type", "doc_to_text")


SHOWN = 3
"""Names that a message lists."""


class EntryKind(Enum):
    TASK = "task"
    GROUP = "group"
    TAG = "tag"


@dataclass(slots=True)
class Entry:
    """What a name stands for."""

    name: str
    kind: EntryKind
    path: Path | None = None
    """Its file, or its family's; None for a tag, which many files make up."""
    tasks: set[str] = field(default_factory=set)
    """The tasks of a tag."""

    def __str__(self) -> str:
        """What stands behind the name, as messages say it."""
        if self.kind is not EntryKind.TAG:
            return str(self.path)
        names = sorted(self.tasks)
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f"the tag of {', '.join(names[:SHOWN])}{more}"

    def taken_apart(self, entries: Mapping[str, Entry]) -> list[Entry]:
        """The tasks of a tag, found in `entries`; a task or group is one thing."""
        return [entries[task] for task in sorted(self.tasks)] if self.tasks else [self]


@dataclass(slots=True)
class TaskIndex:
    """All names of one or more folders; in a later folder they override those of an earlier one."""

    entries: dict[str, Entry] = field(default_factory=dict)
    replaced: dict[str, Entry] = field(default_factory=dict)
    """What a name stood for in an earlier folder, where a later one has it, too."""
    unreadable: dict[Path, str] = field(default_factory=dict)
    """Files that are no valid YAML or include what is not there, and why."""


def build_index(folders: Iterable[Path], reader: TaskFiles) -> TaskIndex:
    """Indexes every *.yaml below `folders`; files without the extension are for inclusion only.

    The index of a large folder is kept on disk until one of its files changes. Raises TaskError if
    a folder does not exist.
    """
    index = TaskIndex()
    for folder in folders:
        if not folder.is_dir():
            raise TaskError(f"There is no folder of tasks at {folder}")
        state = FolderState.of(folder)
        kept = read_kept(state)
        found = _from_plain(kept, folder) if kept else _index_of(state, reader)
        if not kept:
            keep(state, _as_plain(found, folder), reader.outside(folder))
        for name in found.entries.keys() & index.entries.keys():
            if found.entries[name] != index.entries[name]:  # the same folder, named twice
                index.replaced[name] = index.entries[name]
        index.entries.update(found.entries)
        index.unreadable.update(found.unreadable)
    return index


def _index_of(state: FolderState, reader: TaskFiles) -> TaskIndex:
    index = TaskIndex()
    # Families first: what a list means is not changed unseen by a file of that name.
    paths = (Path(path) for path, _, _ in state.files if path.endswith(".yaml"))
    for path in sorted(paths, key=lambda path: path.name != FAMILY):
        try:
            _add(entries_at(path, reader), index.entries)
        except TaskError as error:
            index.unreadable[path] = error.reason
    return index


def _as_plain(index: TaskIndex, folder: Path) -> Plain:
    """The index of one folder as JSON can hold it, paths from the folder."""
    return {
        "entries": [
            [
                entry.name,
                entry.kind.value,
                None if entry.path is None else str(entry.path.relative_to(folder)),
                sorted(entry.tasks),
            ]
            for entry in index.entries.values()
        ],
        "unreadable": {
            str(path.relative_to(folder)): reason for path, reason in index.unreadable.items()
        },
    }


def _from_plain(plain: Plain, folder: Path) -> TaskIndex:
    paths = {path: folder / path for _, _, path, _ in plain["entries"] if path}
    return TaskIndex(
        entries={
            name: Entry(name, EntryKind(kind), paths.get(path), set(tasks))
            for name, kind, path, tasks in plain["entries"]
        },
        unreadable={folder / path: reason for path, reason in plain["unreadable"].items()},
    )


def entries_at(path: Path, reader: TaskFiles) -> list[Entry]:
    """The names that the file at `path` defines: one file's, or all of a family's."""
    family = reader.family(path)
    if family is None:
        return entries_of(reader.read(path))
    entries: list[Entry] = []
    included: dict[str, Mapping[str, Any]] = {}
    for part in family.parts.values():
        if part.naming is None:
            entries.append(Entry(part.name, EntryKind.GROUP, path))
            continue
        # Only what names it: nothing else of the task is made before somebody asks for it.
        named = str(part.naming.values.get("include"))
        if named not in included:
            included[named] = reader.included(part.naming)
        tags = tags_of({**included[named], **part.naming.values, "task": part.name})
        entries.append(Entry(part.name, EntryKind.TASK, path))
        entries += [Entry(tag, EntryKind.TAG, tasks={part.name}) for tag in tags]
    return entries


def entries_of(file: TaskFile) -> list[Entry]:
    """The names that one file defines: its task or group, and the tags it joins.

    A file that is neither (a suite, a template) defines none. Raises TaskError for a task whose
    name is a number.
    """
    values = file.values
    if "class" not in values and _is_group(values):
        return [Entry(str(values["group"]), EntryKind.GROUP, file.path)]
    name = values.get("task")
    if isinstance(name, int | float):
        raise TaskError(f"{file.place_of('task')}: task: expected text, got {name!r}: quote it")
    if not isinstance(name, str):
        return []
    tags = [Entry(tag, EntryKind.TAG, tasks={name}) for tag in tags_of(values)]
    return [Entry(name, EntryKind.TASK, file.path), *tags]


def tags_of(values: Mapping[str, Any]) -> list[str]:
    """A task's tags. The key `group` in a task file is the old spelling of `tag`."""
    tags: list[str] = []
    for stated in (values.get("tag"), values.get("group")):
        listed = stated if isinstance(stated, list) else [stated]
        tags += [tag for tag in listed if isinstance(tag, str)]  # others: told when it is parsed
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
            log.warning(
                "%s is defined twice; %s is ignored",
                entry.name,
                entry.path or f"the tag of {', '.join(sorted(entry.tasks))}",
            )
            if entry.kind is EntryKind.TASK:
                return
