"""Task files as YAML: includes merged, functions named but not run, mistakes with their line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evalcore.errors import TaskError
from evalcore.task.functions import FunctionRef
from evalcore.task.metadata import WrittenVersion

_ENGINE = Path(__file__).resolve().parents[1]

INSTALLED_TASKS = _ENGINE / "tasks"
"""Where our own task files lie in an installed package (setup.py puts them there)."""

OWN_TASKS = INSTALLED_TASKS if INSTALLED_TASKS.is_dir() else _ENGINE.parent / "tasks"
"""Our own task files: read more strictly than others, which must load as they are."""


def is_own(path: Path | None) -> bool:
    return path is not None and path.is_relative_to(OWN_TASKS)


_TEXT, _NUMBER = "tag:yaml.org,2002:str", "tag:yaml.org,2002:float"
_WRITTEN = "!version"
_NUMBER_WITH_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a key is stated: a file, and the keys that lead there."""

    file: Path
    steps: tuple[str, ...] = ()

    def inside(self, *steps: str) -> Origin:
        return Origin(self.file, (*self.steps, *steps))

    def __str__(self) -> str:
        """`file:line`, for messages; the file if the line is unknown."""
        line = _line_of(self.file, self.steps)
        return f"{self.file}:{line}" if line else str(self.file)


Origins = Mapping[str, Path | Origin]
"""For each key (`metadata`, or a part of one, `metadata.chance`) the file that states it; where it
is called otherwise there, the place in that file."""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """What a task file says itself, or with everything that it includes."""

    path: Path
    values: dict[str, Any]
    origins: Origins = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    """Keys that are given twice in it or in what it includes, as sentences; the last one counts."""
    rest: Origin | None = None
    """Where to look for a key that nobody states; None: in the file."""
    files: tuple[Path, ...] = ()
    """It, and those that it includes; empty before these are read."""

    def origin(self, *steps: str) -> Origin:
        """Where a key is stated, or the key inside it that the further steps lead to."""
        for known in range(len(steps), 0, -1):
            stated = self.origins.get(".".join(steps[:known]))
            if isinstance(stated, Origin):
                return stated.inside(*steps[known:])
            if stated is not None:
                return Origin(stated, steps)
        return (self.rest or Origin(self.path)).inside(*steps)

    def place_of(self, key: str) -> str:
        """Where `key` was set, for messages: `file:line`, or the file if the line is unknown.

        A key may be a path such as `metric_list[0].metric`.
        """
        return str(self.origin(*_steps(key)))


class TaskFileReader:
    """Reads task files, each file once however often it is included."""

    def __init__(self) -> None:
        self._read: dict[Path, TaskFile] = {}
        self._found: dict[tuple[Path, str], Path] = {}
        """Included files, by the folder and the name by which they are included."""

    def read(self, path: Path) -> TaskFile:
        """The file at `path` and what it includes, merged: later includes win, its own keys win.

        Raises TaskError: no such file, not YAML, not a mapping, a cycle of includes.
        """
        return self._read_through(path.expanduser().resolve(), ())

    def outside(self, folder: Path) -> list[Path]:
        """The files read so far that lie in other folders: included ones."""
        return [path for path in self._read if not path.is_relative_to(folder)]

    def merged(self, own: TaskFile, including: tuple[Path, ...] = ()) -> TaskFile:
        """These keys over those of the files that they include."""
        values: dict[str, Any] = {}
        origins: dict[str, Path | Origin] = {}
        repeated = own.repeated
        files: tuple[Path, ...] = (own.path,)
        for other in self.paths_included(own):
            parent = self._read_through(other, including)
            files += parent.files
            values.update(parent.values)
            origins.update(parent.origins)
            repeated += parent.repeated
        # A list of tasks belongs to the file that states it, not to those that include it.
        values.pop("task_list", None)
        values.update(own.values)
        values.pop("include", None)
        origins.update(own.origins)
        return TaskFile(own.path, values, origins, repeated, own.rest, files)

    def paths_included(self, own: TaskFile) -> Iterator[Path]:
        """The files that it includes. Raises TaskError where one is not there."""
        for name in names_of(own.values.get("include", [])):
            if not isinstance(name, str):
                raise TaskError(
                    f"{own.place_of('include')}: include: expected a file name, got {name!r}"
                )
            place = (own.path.parent, name)
            if place not in self._found:
                other = (own.path.parent / name).resolve()
                if not self._is_there(other):
                    raise TaskError(f"{own.place_of('include')}: include: there is no file {other}")
                self._found[place] = other
            yield self._found[place]

    def _read_through(self, path: Path, including: tuple[Path, ...]) -> TaskFile:
        if path in including:
            cycle = " -> ".join(file.name for file in (*including[including.index(path) :], path))
            raise TaskError(f"{including[0]}: the includes form a cycle: {cycle}")
        if path not in self._read:
            self._read[path] = self.merged(self.own_keys(path), (*including, path))
        return self._read[path]

    def _is_there(self, path: Path) -> bool:
        return path.is_file()

    def own_keys(self, path: Path) -> TaskFile:
        """What the file at `path` says itself."""
        values, repeated = _parse(path)
        return TaskFile(path, values, dict.fromkeys(values, path), repeated)


def names_of(stated: Any) -> list[Any]:
    """What may be one name or a list of them, as a list."""
    return stated if isinstance(stated, list) else [stated]


def _parse(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The keys of one file, and which of them are given twice."""
    loader_class = _StrictLoader if is_own(path) else _TaskLoader
    try:
        with path.open("rb") as stream:
            loader = loader_class(stream)
            loader.path = path
            loader.repeated = []
            try:
                values = loader.get_single_data()
            finally:
                loader.dispose()
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise TaskError(_not_utf8(path) or f"{path} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise TaskError(f"{path}: expected a mapping of keys, got {type(values).__name__}")
    return values, tuple(loader.repeated)


def _not_utf8(path: Path) -> str | None:
    """The first line that is not UTF-8, for which YAML has no words."""
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            line.decode()
        except UnicodeDecodeError:
            return f"{path}:{number}: the line is not UTF-8: save the file as UTF-8"
    return None


class _TaskLoader(yaml.CSafeLoader):
    """Safe YAML plus `!function`; notes keys that are given twice, of which YAML takes the last."""

    path: Path
    repeated: list[str]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, value_node in node.value:
            key = key_node.value
            _keep_version(key, value_node)
            if key in seen:
                self.repeat(key, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def repeat(self, key: Any, mark: yaml.Mark) -> None:
        place = f"{self.path}:{mark.line + 1}"
        self.repeated.append(f"{place}: the key {key!r} is given twice; this one counts")


def _keep_version(key: Any, node: yaml.Node) -> None:
    """Keeps the text of a version that YAML would shorten: 1.10 is not 1.1."""
    if key == "version" and _is_shortened(node):
        node.tag = _WRITTEN
    if key == "changelog" and isinstance(node, yaml.MappingNode):
        for version, _ in node.value:
            if _is_shortened(version):
                version.tag = _TEXT


def _is_shortened(node: yaml.Node) -> bool:
    text = str(node.value)
    is_decimal = node.tag == _NUMBER and re.fullmatch(r"[0-9]+\.[0-9]+", text)
    return bool(is_decimal) and str(float(text)) != text


class _StrictLoader(_TaskLoader):
    """Refuses what YAML lets pass and people do not mean."""

    def repeat(self, key: Any, mark: yaml.Mark) -> None:
        raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", mark)


def _function(loader: _TaskLoader, node: yaml.ScalarNode) -> FunctionRef:
    place = f"{loader.path}:{node.start_mark.line + 1}"
    return FunctionRef(str(loader.construct_scalar(node)), loader.path.parent, place=place)


def _text(loader: _StrictLoader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if not node.style and _NUMBER_WITH_EXPONENT.fullmatch(text):
        raise yaml.constructor.ConstructorError(
            None, None, f"{text} is read as text: write {text} as a decimal number", node.start_mark
        )
    return text


_TaskLoader.add_constructor("!function", _function)
_TaskLoader.add_constructor(_WRITTEN, lambda _, node: WrittenVersion(str(node.value)))
_StrictLoader.add_constructor(_TEXT, _text)


def _steps(key: str) -> list[str]:
    """The parts of a path such as `metric_list[0].metric`."""
    return re.findall(r"[^.\[\]]+", key) or [key]


def _line_of(path: Path, steps: Sequence[str]) -> int | None:
    """Line of a key, or of the innermost one on the way to it that is there.

    Found by reading the file again: it is only needed for messages.
    """
    try:
        node = yaml.compose(path.read_bytes(), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError):
        return None
    line = None
    for step in steps:
        found = _child(node, step)
        if found is None:
            break
        mark, node = found
        line = int(mark.line) + 1
    return line


def _child(node: yaml.Node | None, step: str) -> tuple[yaml.Mark, yaml.Node] | None:
    """Where a key of a mapping, or an entry of a list, begins, and its value."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value in node.value:
            if key_node.value == step:
                return key_node.start_mark, value
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)].start_mark, node.value[int(step)]
    return None
