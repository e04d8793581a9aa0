"""Task files for lm-evaluation-harness: those of families written out, those of people beside them.

A file lies where it would lie among our own, so that what it includes is found; code beside a task
file goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.functions import functions_in
from evalcore.task.library.family import Family, Part
from evalcore.task.library.family_files import (
    WRITTEN,
    as_yaml,
    base_keys,
    base_of,
    file_of,
    included_from,
    place_of,
    style_of_base,
)
from evalcore.task.library.family_list import Style
from evalcore.task.library.load import INSIDE, TaskLibrary
from evalcore.task.library.promptsource import SIGN
from evalcore.task.yaml_file import TaskFile, names_of


@dataclass
class Export:
    """The files of tasks and groups, by their place below the folder that they are written to."""

    library: TaskLibrary
    files: dict[Path, bytes] = field(default_factory=dict)
    _origins: dict[Path, Path] = field(default_factory=dict)
    _styles: set[Style] = field(default_factory=set)

    def add_all(self) -> None:
        """Every task and group of the library. Raises TaskError where a file is unreadable."""
        for reason in self.library.unreadable.values():
            raise TaskError(reason)
        for name in (*self.library.tasks, *self.library.groups):
            path, _ = self.library.place_of(name)
            self._add(path, name)

    def add(self, specs: Iterable[TaskSpec | GroupSpec]) -> None:
        """These tasks and groups, with those that are in them. Raises TaskError."""
        for spec in specs:
            for part in spec.parts():
                self._add(part.source, own_name(part.name))

    def write(self, folder: Path) -> None:
        for place, text in self.files.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)

    def _add(self, path: Path | None, name: str) -> None:
        if path is None:
            return
        family = self.library.files.family(path)
        if family is None:
            self._add_file(path)
        else:
            self._add_part(family, family.parts[name])

    def _add_file(self, path: Path) -> None:
        """A file that lies there, with all that it includes; or that a family means."""
        near = None if path.is_file() else self.library.files.family_near(path.parent)
        family = self.library.files.family(near) if near else None
        if family:
            style = style_of_base(family, path)
            if style:
                self._add_base(family, style)
            else:
                self._add_part(family, family.parts[path.stem])
        elif self._put(path, path.read_bytes(), path):
            keys = self.library.files.own_keys(path)
            self._add_code(keys.values, path.parent)
            self._add_included(keys)

    def _add_part(self, family: Family, part: Part) -> None:
        if not part.is_group:
            self._add_base(family, part.style)
        keys = file_of(family, part)
        place = place_of(family, part)
        if self._put(place, _text(keys), family.path):
            self._add_code(keys, place.parent)
            self._add_included(family.own_keys(part.name))

    def _add_base(self, family: Family, style: Style) -> None:
        base = base_of(family, style)
        if base is None or style in self._styles:
            return
        self._styles.add(style)
        keys = base_keys(family, style)
        text = _text(included_from(family, base.parent, keys.values))
        if self._put(base, text, family.path):
            self._add_code(keys.values, base.parent)
            self._add_included(keys)

    def _add_included(self, keys: TaskFile) -> None:
        for name in names_of(keys.values.get("include", [])):
            self._add_file((keys.path.parent / name).resolve())

    def _add_code(self, keys: Mapping[str, Any], beside: Path) -> None:
        """The code that a file names, beside the file."""
        folders = {function.folder for function in functions_in(keys) if not function.is_installed}
        for folder in folders:
            for code in sorted(folder.rglob("*.py")):
                self._put(beside / code.relative_to(folder), code.read_bytes(), code)

    def _put(self, place: Path, text: bytes, origin: Path) -> bool:
        """Whether the file is new here."""
        target = self._target(place)
        if target not in self.files:
            self.files[target], self._origins[target] = text, origin
            return True
        if self.files[target] != text:
            raise TaskError(
                f"{origin} and {self._origins[target]} would both be written to {target}: export "
                "them one by one, by --tasks, to folders of their own"
            )
        return False

    def _target(self, place: Path) -> Path:
        for folder in reversed(self.library.folders):
            if place.is_relative_to(folder):
                return place.relative_to(folder)
        raise TaskError(
            f"{place} lies in none of the folders of tasks "
            f"({', '.join(map(str, self.library.folders))}): name its folder by --include_path"
        )


def own_name(name: str) -> str:
    """The name in the file: `a` of `a::b`, a part that only it has, and of `a@b`, a prompt."""
    return name.split(SIGN)[0].split(INSIDE)[0]


def _text(keys: dict[str, object]) -> bytes:
    return (WRITTEN + as_yaml(keys)).encode()
