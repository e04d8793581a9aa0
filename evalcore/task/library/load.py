"""From names to tasks: what `--tasks a,b` means, resolved against folders of task files.

Imports neither torch nor datasets, and runs no task code: the site reads its tasks by it, too.
"""

from __future__ import annotations

import fnmatch
import glob
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError, did_you_mean
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.library.families import TaskFiles
from evalcore.task.library.family_list import FAMILY
from evalcore.task.library.index import SHOWN, Entry, EntryKind, build_index, entries_at
from evalcore.task.library.members import Members
from evalcore.task.library.promptsource import SIGN, prompted
from evalcore.task.old_names import renamed

INSIDE = "::"
"""Between the name of a group, or of a task, and that of a part which only it has."""

log = logging.getLogger(__name__)

_FAMILY_NAME = re.compile(r"""^family:\s*['"]?([^'"\s]+)""", re.M)


def _names_in(specs: Iterable[TaskSpec | GroupSpec]) -> Iterator[str]:
    for spec in specs:
        for part in spec.parts():
            yield part.name


class TaskLibrary:
    """The tasks, groups and tags of some folders; a later folder overrides an earlier one."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises TaskError if a folder does not exist."""
        self.folders = tuple(Path(folder).resolve() for folder in folders)
        self.files = TaskFiles()
        index = build_index(self.folders, self.files)
        self._entries = index.entries
        self._replaced = index.replaced
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

    def place_of(self, name: str) -> tuple[Path | None, int]:
        """The file that defines a name, or its family's; a tag has none, but so many tasks."""
        entry = self._entries[name]
        return entry.path, len(entry.tasks)

    def select(
        self,
        names: Iterable[str | Mapping[str, Any]],
        metadata: Mapping[str, Any] | None = None,
    ) -> list[TaskSpec | GroupSpec]:
        """The tasks and groups that `names` mean, each once, in order.

        A name is that of a task, group or tag, a pattern with `*`, the path of a YAML file (or a
        pattern of paths), a folder of such files, or a task with a prompt or a pattern of prompts
        (`x@name`, `x@*`); or a mapping of keys, as of a task file (`Members.stated`). `metadata` is
        merged over that of every task and group. Raises TaskError: unknown name, a file with
        mistakes, a task in two of the selected groups.
        """
        selected: dict[str, TaskSpec | GroupSpec] = {}
        for number, name in enumerate(names):
            if not isinstance(name, str):
                members = Members(self._entries, self.files, metadata or {})
                specs = members.stated(name, f"tasks[{number}]")
                selected.update({spec.name: spec for spec in specs})
                continue
            task, sign, prompt = name.rpartition(SIGN)
            if sign and name not in self._entries and self._named(task):
                spec = prompted(self.one(task, metadata), prompt, f"--tasks {name}")
                selected[spec.name] = spec
                continue
            entries = self._entries_for(name)
            members = Members(self._entries, self.files, metadata or {})
            specs = [spec for entry in entries for spec in members.build(entry)]
            meant = self._meant(name, specs)
            asked = fnmatch.filter(sorted(self._replaced), name)
            self._tell_replaced(dict.fromkeys([*asked, *_names_in(meant)]))
            selected.update({spec.name: spec for spec in meant})
        self._refuse_task_twice(selected.values())
        return list(selected.values())

    def _tell_replaced(self, names: Iterable[str]) -> None:
        """Of names that are asked for: what else they stood for, but for a later folder."""
        replaced = [name for name in names if name in self._replaced]
        for name in replaced[:SHOWN]:
            log.warning(
                "%s is %s, which replaces %s", name, self._entries[name], self._replaced[name]
            )
        if len(replaced) > SHOWN:
            others = len(replaced) - SHOWN
            log.warning("so it is with %d more names under %s", others, self.folders[-1])

    def one(self, name: str, metadata: Mapping[str, Any] | None = None) -> TaskSpec | GroupSpec:
        """The single task or group of that name. Raises TaskError, also for a tag of several."""
        found = self.select([name], metadata)
        if len(found) != 1:
            raise TaskError(f"{name} stands for {len(found)} tasks, one is expected")
        return found[0]

    def _meant(self, name: str, specs: list[TaskSpec | GroupSpec]) -> list[TaskSpec | GroupSpec]:
        """Of a folder or family what is in no other of its groups; of `a::b` the part of `a` called
        so."""
        if name in self._entries:
            return specs
        if Path(name).is_dir() or Path(name).name == FAMILY:
            inside = {part.name for spec in specs for part in spec.parts() if part is not spec}
            return [spec for spec in specs if spec.name not in inside]
        if INSIDE not in name:
            return specs
        parts = [part for spec in specs for part in spec.parts()]
        found = [part for part in parts if part.name == name]
        if not found:
            raise TaskError(
                f"{name.split(INSIDE)[0]} has no part {name!r}"
                f"{did_you_mean(name, [part.name for part in parts])}"
            )
        return found[:1]

    def _entries_for(self, name: str) -> list[Entry]:
        """Tags are taken apart; what is left are tasks and groups."""
        found = self._named(name)
        if not found:
            raise self._unreadable(name) or self._unknown(name)
        each = (part for entry in found for part in entry.taken_apart(self._entries))
        return list({entry.name: entry for entry in each}.values())

    def _named(self, name: str) -> list[Entry]:
        if name in self._entries:
            return [self._entries[name]]
        if name.endswith((".yaml", ".yml")):
            paths = sorted(glob.glob(name)) or [name]  # noqa: PTH207 (a path may be absolute)
            return self._of_files([Path(path) for path in paths])
        outer = name.split(INSIDE)[0]
        if outer != name and outer in self._entries:
            return [self._entries[outer]]
        if any(sign in name for sign in "*?["):
            return [self._entries[match] for match in fnmatch.filter(sorted(self._entries), name)]
        if Path(name).is_dir():
            # Of the files in it, not below; its groups may name their tasks and groups.
            found = self._of_files(sorted(Path(name).glob("*.yaml")))
            self._entries = {**{entry.name: entry for entry in found}, **self._entries}
            return found
        return []

    def _of_files(self, paths: Iterable[Path]) -> list[Entry]:
        found: list[Entry] = []
        for path in paths:
            entries = entries_at(path.expanduser().resolve(), self.files)
            named = [entry for entry in entries if entry.kind is not EntryKind.TAG]
            if path.name == FAMILY:  # whose groups name its tasks
                named.sort(key=lambda entry: entry.name)
                self._entries = {**{entry.name: entry for entry in named}, **self._entries}
            found += named
        return found

    def _unreadable(self, name: str) -> TaskError | None:
        """What is wrong with the file that is called so, or says that it defines the name."""
        states = re.compile(rf"""^(task|group):\s*['"]?{re.escape(name)}['"]?\s*(#.*)?$""", re.M)
        for path, reason in self.unreadable.items():
            text = path.read_text(errors="replace")
            of_family = path.name == FAMILY and _FAMILY_NAME.search(text)
            if of_family and f"{name}_".startswith(f"{of_family[1]}_"):
                return TaskError(f"{name}: {reason}")
            if path.stem == name or states.search(text):
                return TaskError(f"{name}: {reason}")
        return None

    def _unknown(self, name: str) -> TaskError:
        unreadable = ""
        if self.unreadable:
            first = next(iter(self.unreadable.values()))
            unreadable = f". {len(self.unreadable)} task files could not be read, e.g. {first}"
        hint = renamed(name) or did_you_mean(name, self._entries)
        return TaskError(
            f"There is no task, group or tag {name!r}{hint}; "
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
