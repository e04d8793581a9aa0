"""Task files as the library reads them: those on disk, and those that a family means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.library.family import Family
from evalcore.task.library.family_files import base_keys, place_of, style_of_base
from evalcore.task.library.family_list import FAMILY, STYLES
from evalcore.task.library.index_file import Stamp, stamp_of
from evalcore.task.yaml_file import TaskFile, TaskFileReader

LEFT_OVER = b"# Written by `evalcore families`"
"""How files begin that older releases wrote from families."""


class TaskFiles(TaskFileReader):
    """Reads task files; the tasks of a family are as files beside it, without being there."""

    def __init__(self) -> None:
        super().__init__()
        self._families = _families_as_they_are()
        self._asked: dict[Path, None] = {}
        self._named: dict[tuple[Path, str], TaskFile] = {}
        self._near: dict[Path, Path | None] = {}

    def family(self, path: Path) -> Family | None:
        """The family whose file is at `path`; None where that is no family's.

        Raises TaskError with what is wrong with it.
        """
        if path.name != FAMILY:
            return None
        self._asked[path] = None
        return self._families.at(path)

    def named(self, path: Path, name: str) -> TaskFile:
        """What the file at `path` says of a task or group: all of it, or one name of a family."""
        family = self.family(path)
        if family is None:
            return self.read(path)
        if name not in family.parts:
            raise TaskError(f"{path}: the family has no task or group {name!r}")
        if (path, name) not in self._named:
            self._named[path, name] = self.merged(family.own_keys(name))
        return self._named[path, name]

    def included(self, own: TaskFile) -> Mapping[str, Any]:
        """What the files say that these keys include."""
        files = list(self.paths_included(own))
        if len(files) == 1:
            return self.read(files[0]).values
        return self.merged(own).values if files else {}

    def outside(self, folder: Path) -> list[Path]:
        """The files that were read, or looked for by families, and lie in other folders."""
        of_families = [path for family in self._asked for path in self._families.files_of(family)]
        files = dict.fromkeys([*super().outside(folder), *of_families])
        return [path for path in files if not path.is_relative_to(folder)]

    def _is_there(self, path: Path) -> bool:
        return super()._is_there(path) or self._of_family(path) is not None

    def own_keys(self, path: Path) -> TaskFile:
        near = self.family_near(path.parent)
        if near is None or path.name in (FAMILY, STYLES):
            return super().own_keys(path)
        if super()._is_there(path):
            with path.open("rb") as file:
                if file.readline().startswith(LEFT_OVER):
                    raise TaskError(
                        f"{path} is left over from a release that wrote the tasks of {near}, which "
                        "is itself read now: delete the file"
                    )
            return super().own_keys(path)
        return self._of_family(path) or super().own_keys(path)

    def _of_family(self, path: Path) -> TaskFile | None:
        """What a file would say that a family means."""
        near = self.family_near(path.parent)
        family = self.family(near) if near else None
        if family is None:
            return None
        if style := style_of_base(family, path):
            return base_keys(family, style)
        part = family.parts.get(path.stem)
        if path.suffix == ".yaml" and part and place_of(family, part) == path:
            return family.own_keys(part.name)
        return None

    def family_near(self, folder: Path) -> Path | None:
        """The family's file in a folder, or in the one above it, where its tasks would lie."""
        if folder not in self._near:
            places = (folder / FAMILY, folder.parent / FAMILY)
            self._near[folder] = next((place for place in places if place.is_file()), None)
        return self._near[folder]


class _Families(TaskFileReader):
    """The families that this process has read, each once, and the files that they are made of."""

    def __init__(self) -> None:
        super().__init__()
        self._stamps: dict[Path, Stamp] = {}
        """What was read or looked for, as it was before that."""
        self._families: dict[Path, Family | None] = {}
        self._files: dict[Path, tuple[Path, ...]] = {}

    def own_keys(self, path: Path) -> TaskFile:
        self._stamps.setdefault(path, stamp_of(path))
        return super().own_keys(path)

    def at(self, path: Path) -> Family | None:
        if path not in self._families:
            self._families[path] = self._family(path)
        return self._families[path]

    def _family(self, path: Path) -> Family | None:
        file = self.read(path)
        if "task" in file.values or "group" in file.values:
            return None  # a task's file that happens to have the name
        place = path.parent.parent / STYLES
        self._stamps.setdefault(place, stamp_of(place))
        self._files[path] = (*file.files, place)
        styles = self.read(place) if place.is_file() else None
        self._files[path] += styles.files if styles else ()
        return Family(file, styles)

    def files_of(self, path: Path) -> tuple[Path, ...]:
        """What the family at `path` is made of, and `styles.yaml` where there is none."""
        return self._files.get(path, ())

    def are_as_they_were(self) -> bool:
        return all(stamp_of(path) == stamp for path, stamp in self._stamps.items())


_read_so_far: list[_Families] = []
"""One at most: a change of any file makes all anew."""


def _families_as_they_are() -> _Families:
    for families in _read_so_far[:1]:
        if families.are_as_they_were():
            return families
    families = _Families()
    _read_so_far[:] = [families]
    return families
