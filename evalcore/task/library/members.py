"""What groups are made of: from entries of the index to tasks and groups.

The rules are those of lm-eval 0.4.13: a key of a group that is none of a group's own goes to all
its tasks; what an entry of its list says goes over that.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.families import TaskFiles
from evalcore.task.library.index import Entry, EntryKind
from evalcore.task.library.promptsource import expanded
from evalcore.task.parse import GROUP_KINDS, parse_group, parse_task
from evalcore.task.yaml_file import TaskFile, is_own

log = logging.getLogger(__name__)

PlaceOf = Callable[[str], str]
Specs = list[TaskSpec | GroupSpec]

_NOT_FOR_MEMBERS = {*GROUP_KINDS, "tag", "task_list"}
_NOT_OF_A_TASK = {"group", "task_list"}


@dataclass(frozen=True)
class _Stated:
    """Keys that go over those of a task's own file, and where each was stated."""

    values: Mapping[str, Any]
    places: Mapping[str, PlaceOf]

    @classmethod
    def at(cls, values: Mapping[str, Any], place_of: PlaceOf) -> _Stated:
        return cls(values, dict.fromkeys(values, place_of))

    def over(self, others: _Stated) -> _Stated:
        return _Stated({**others.values, **self.values}, {**others.places, **self.places})

    def place_in(self, file: TaskFile) -> PlaceOf:
        """Where a key of a task was stated, whose own file is `file`."""

        def place_of(key: str) -> str:
            return self.places.get(key.split(".")[0].split("[")[0], file.place_of)(key)

        return place_of


@dataclass(frozen=True)
class Members:
    """Builds tasks and groups of the entries of an index."""

    entries: Mapping[str, Entry]
    reader: TaskFiles
    metadata: Mapping[str, Any]
    """Goes over the metadata of every task and group."""

    def build(self, entry: Entry) -> Specs:
        """The task or group; several where a task is asked by several prompts."""
        return self._build(entry, _Stated({}, {}), ())

    def stated(self, item: Mapping[str, Any], place: str) -> Specs:
        """What a program says in a mapping: a task of its own, whole; a task or group that there
        is, with other keys; or a group of such.

        `place` is where it says so. Raises TaskError.
        """

        def place_of(_key: str) -> str:
            return place

        kind = "group" if isinstance(item, Mapping) and "group" in item else "task"
        name = item.get(kind) if isinstance(item, Mapping) else None
        if not isinstance(name, str):
            raise TaskError(
                f"{place}: expected a name, or a mapping with a name as `task` or `group`, got "
                f"{item!r}"
            )
        if name in self.entries and not (kind == "group" and "task" in item):
            keys = {key: value for key, value in item.items() if key != kind}
            each = self.entries[name].taken_apart(self.entries)
            over = _Stated.at(keys, place_of)
            return [spec for entry in each for spec in self._build(entry, over, ())]
        if kind == "group":
            file = TaskFile(Path(place), dict(item))
            return [self._group(file, file.values, _Stated({}, {}), ())]
        known = {key: value for key, value in item.items() if key not in _NOT_OF_A_TASK}
        if not known.get("dataset_path") and not known.get("custom_dataset"):
            raise TaskError(
                f"{place}: there is no task, group or tag {name!r}"
                f"{did_you_mean(name, self.entries)}, and a task of its own names a dataset_path"
            )
        return list(expanded(parse_task(self._with_metadata(known), place_of, None), place_of))

    def _build(self, entry: Entry, overrides: _Stated, inside: tuple[str, ...]) -> Specs:
        if entry.path is None:
            raise TaskError(f"The tag {entry.name} cannot be built as one task")
        file = self.reader.named(entry.path, entry.name)
        for sentence in file.repeated:
            log.warning("%s", sentence)
        if entry.kind is EntryKind.GROUP:
            return [self._group(file, file.values, overrides, inside)]
        return self._tasks(file, {**file.values, **overrides.values}, overrides.place_in(file))

    def _tasks(self, file: TaskFile, values: Mapping[str, Any], place_of: PlaceOf) -> Specs:
        if "group" in values:
            log.warning("%s: group in the file of one task is read as tag", place_of("group"))
        known = {key: value for key, value in values.items() if key not in _NOT_OF_A_TASK}
        metadata = known.get("metadata", {})
        if not isinstance(metadata, dict | None) and not is_own(file.path):
            # As lm-eval keeps what is no mapping: it states no version.
            log.warning("%s: metadata: expected a mapping of keys", place_of("metadata"))
            known["metadata"] = {"_metadata": metadata}
        spec = parse_task(self._with_metadata(known), place_of, file.path)
        return list(expanded(spec, place_of))

    def _with_metadata(self, values: Mapping[str, Any]) -> dict[str, Any]:
        stated = values.get("metadata")
        if not self.metadata or not isinstance(stated, dict | None):
            return dict(values)
        return {**values, "metadata": {**(stated or {}), **self.metadata}}

    def _group(
        self,
        file: TaskFile,
        values: Mapping[str, Any],
        overrides: _Stated,
        inside: tuple[str, ...],
    ) -> GroupSpec:
        """A group with its members; its keys that are not a group's override those of its tasks."""
        own = {key: value for key, value in values.items() if key in GROUP_KINDS}
        group = parse_group(self._with_metadata(own), file.place_of, file.path)
        if group.name in inside:
            raise TaskError(
                f"{file.path}: the groups form a cycle: {' -> '.join((*inside, group.name))}"
            )
        own_keys = {key: value for key, value in values.items() if key not in _NOT_FOR_MEMBERS}
        for_members = overrides.over(_Stated.at(own_keys, file.place_of))
        stated = own.get("task") or []
        members: dict[str, TaskSpec | GroupSpec] = {}
        for number, item in enumerate([stated] if isinstance(stated, str) else stated):
            for member in self._members(file, number, item, for_members, (*inside, group.name)):
                if member.name in members:
                    log.warning("%s: %s is in it twice; the last counts", file.path, member.name)
                members[member.name] = member
        return dataclasses.replace(group, members=tuple(members.values()))

    def _members(
        self, file: TaskFile, number: int, item: Any, overrides: _Stated, inside: tuple[str, ...]
    ) -> Specs:
        """What one entry of a group's `task` list means."""

        def place_of(key: str = "") -> str:
            return file.place_of(f"task[{number}].{key}")

        if isinstance(item, str):
            item = {"task": item}
        if isinstance(item, dict) and "dataset_path" in item:
            parts = (item["dataset_path"], item.get("dataset_name"))
            item = {"task": "-".join(str(part) for part in parts if part), **item}
        if not isinstance(item, dict) or not ("group" in item or "task" in item):
            raise TaskError(
                f"{place_of()}: task: expected names, or mappings with `task` or `group`, got "
                f"{item!r}"
            )
        if "group" in item and (item["group"] not in self.entries or "task" in item):
            values = {**item, "group": f"{inside[-1]}::{item['group']}"}
            return [self._group(file, values, overrides, inside)]
        name = str(item.get("group", item.get("task")))
        own = {key: value for key, value in item.items() if key not in ("group", "task")}
        stated = _Stated.at(own, place_of).over(overrides)
        if name not in self.entries:
            if not stated.values.get("dataset_path") and not stated.values.get("custom_dataset"):
                raise TaskError(
                    f"{place_of()}: task: the group {inside[-1]} names {name!r}, which is no task, "
                    f"group or tag{did_you_mean(name, self.entries)}"
                )
            inline = {**stated.values, "task": f"{inside[-1]}::{name}"}
            return self._tasks(file, inline, stated.place_in(file))
        each = self.entries[name].taken_apart(self.entries)
        return [spec for member in each for spec in self._build(member, stated, inside)]
