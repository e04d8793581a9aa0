"""From names to tasks: what `--tasks a,b` means, resolved against folders of task files.

Imports neither torch nor datasets, and runs no task code: the site reads its tasks by it, too.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.fields import did_you_mean
from evalcore.task.index import Entry, EntryKind, build_index, entries_of
from evalcore.task.parse import GROUP_KINDS, parse_group, parse_task
from evalcore.task.yaml_file import TaskFile, TaskFileReader

Overrides = Mapping[str, Any]

_NOT_FOR_MEMBERS = {*GROUP_KINDS, "tag", "task_list"}


class TaskLibrary:
    """The tasks, groups and tags of some folders; a later folder overrides an earlier one."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises TaskError if a folder does not exist."""
        self.folders = tuple(Path(folder).resolve() for folder in folders)
        self._reader = TaskFileReader()
        index = build_index(self.folders, self._reader)
        self._entries = index.entries
        self.unreadable = index.unreadable
        """Files that could not be read, and why; their names are unknown."""

    @property
    def tasks(self) -> list[str]:
        return self._names(EntryKind.TASK)

    @property
    def groups(self) -> list[str]:
        return self._names(EntryKind.GROUP)

    @property
    def tags(self) -> list[str]:
        return self._names(EntryKind.TAG)

    def _names(self, kind: EntryKind) -> list[str]:
        return sorted(name for name, entry in self._entries.items() if entry.kind is kind)

    def select(
        self, names: Iterable[str], overrides: Overrides | None = None
    ) -> list[TaskSpec | GroupSpec]:
        """The tasks and groups that `names` mean, each once, in order.

        A name is that of a task, group or tag, a pattern with `*`, or the path of a YAML file.
        `overrides` replace top-level keys of every task. Raises TaskError: unknown name, a file
        with mistakes, a task in two of the selected groups.
        """
        selected: dict[str, TaskSpec | GroupSpec] = {}
        for name in names:
            for entry in self._entries_for(name):
                spec = self._build(entry, overrides or {}, ())
                selected[spec.name] = spec
        self._refuse_task_twice(selected.values())
        return list(selected.values())

    def one(self, name: str) -> TaskSpec | GroupSpec:
        """The single task or group of that name. Raises TaskError, also for a tag of several."""
        found = self.select([name])
        if len(found) != 1:
            raise TaskError(f"{name} stands for {len(found)} tasks, one is expected")
        return found[0]

    def _entries_for(self, name: str) -> list[Entry]:
        """Tags are taken apart; what is left are tasks and groups."""
        if name in self._entries:
            found = [self._entries[name]]
        elif any(sign in name for sign in "*?["):
            found = [self._entries[match] for match in fnmatch.filter(sorted(self._entries), name)]
        elif name.endswith((".yaml", ".yml")):
            found = entries_of(self._reader.read(Path(name)))[:1]
        else:
            found = []
        if not found:
            raise self._unknown(name)
        entries = []
        for entry in found:
            members = [self._entries[task] for task in sorted(entry.tasks)]
            entries += members if entry.kind is EntryKind.TAG else [entry]
        return entries

    def _unknown(self, name: str) -> TaskError:
        unreadable = ""
        if self.unreadable:
            first = next(iter(self.unreadable.values()))
            unreadable = f". {len(self.unreadable)} task files could not be read, e.g. {first}"
        return TaskError(
            f"There is no task, group or tag {name!r}{did_you_mean(name, self._entries)}; "
            f"searched {', '.join(map(str, self.folders)) or 'no folder'}{unreadable}"
        )

    @staticmethod
    def _refuse_task_twice(selected: Iterable[TaskSpec | GroupSpec]) -> None:
        owner: dict[str, str] = {}
        for spec in selected:
            for task in spec.leaves():
                if owner.setdefault(task.name, spec.name) != spec.name:
                    raise TaskError(
                        f"The task {task.name} is asked for twice, by {owner[task.name]} and by "
                        f"{spec.name}: select one of them"
                    )

    def _build(
        self, entry: Entry, overrides: Overrides, inside: tuple[str, ...]
    ) -> TaskSpec | GroupSpec:
        file = entry.file
        if file is None:
            raise TaskError(f"The tag {entry.name} cannot be built as one task")
        if entry.kind is EntryKind.GROUP:
            return self._group(file, file.values, overrides, inside)
        return self._task(file, {**file.values, **overrides})

    @staticmethod
    def _task(file: TaskFile, values: dict[str, Any]) -> TaskSpec:
        structural = {"group", "task_list"}
        values = {key: value for key, value in values.items() if key not in structural}
        return parse_task(values, file.place_of, file.path)

    def _group(
        self,
        file: TaskFile,
        values: dict[str, Any],
        overrides: Overrides,
        inside: tuple[str, ...],
    ) -> GroupSpec:
        """A group with its members; its keys that are not a group's override those of its tasks."""
        own = {key: value for key, value in values.items() if key in GROUP_KINDS}
        group = parse_group(own, file.place_of, file.path)
        if group.name in inside:
            raise TaskError(
                f"{file.path}: the groups form a cycle: {' -> '.join((*inside, group.name))}"
            )
        for_members = {key: value for key, value in values.items() if key not in _NOT_FOR_MEMBERS}
        for_members.update(overrides)
        stated = own.get("task") or []
        members: list[TaskSpec | GroupSpec] = []
        for item in [stated] if isinstance(stated, str) else stated:
            members += self._members(file, item, for_members, (*inside, group.name))
        return dataclasses.replace(group, members=tuple(members))

    def _members(
        self, file: TaskFile, item: Any, overrides: Overrides, inside: tuple[str, ...]
    ) -> list[TaskSpec | GroupSpec]:
        """What one entry of a group's `task` list means."""
        if isinstance(item, str):
            item = {"task": item}
        if not isinstance(item, dict) or not ("group" in item or "task" in item):
            raise TaskError(
                f"{file.place_of('task')}: task: expected names, or mappings with `task` or "
                f"`group`, got {item!r}"
            )
        if "group" in item and item["group"] not in self._entries:
            return [self._inline_group(file, item, overrides, inside)]
        name = item.get("group", item.get("task"))
        own = {key: value for key, value in item.items() if key not in ("group", "task")}
        if name not in self._entries:
            return [self._inline_task(file, str(name), {**overrides, **own}, inside)]
        entry = self._entries[name]
        if entry.kind is EntryKind.TAG:
            entries = [self._entries[task] for task in sorted(entry.tasks)]
        else:
            entries = [entry]
        return [self._build(each, {**overrides, **own}, inside) for each in entries]

    def _inline_group(
        self, file: TaskFile, item: dict[str, Any], overrides: Overrides, inside: tuple[str, ...]
    ) -> GroupSpec:
        values = {**item, "group": f"{inside[-1]}::{item['group']}"}
        return self._group(file, values, overrides, inside)

    def _inline_task(
        self, file: TaskFile, name: str, values: dict[str, Any], inside: tuple[str, ...]
    ) -> TaskSpec:
        """A task that is defined inside a group's file."""
        if not values.get("dataset_path") and not values.get("custom_dataset"):
            raise TaskError(
                f"{file.place_of('task')}: task: the group {inside[-1]} names {name!r}, which is "
                f"no task, group or tag{did_you_mean(name, self._entries)}"
            )
        return self._task(file, {**values, "task": f"{inside[-1]}::{name}"})
