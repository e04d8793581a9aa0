"""Task files as YAML: includes merged, functions named but not run, mistakes with their line."""

from __future__ import annotations

import re
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
class TaskFile:
    """A task file with everything that it includes."""

    path: Path
    values: dict[str, Any]
    origins: dict[str, Path] = field(default_factory=dict)
    """For each key the file that set it."""
    repeated: tuple[str, ...] = ()
    """Keys that are given twice in it or in what it includes, as sentences; the last one counts."""

    def place_of(self, key: str) -> str:
        """Where `key` was set, for messages: `file:line`, or the file if the line is unknown.

        A key may be a path such as `metric_list[0].metric`.
        """
        return _place(self.origins.get(_steps(key)[0], self.path), key)


class TaskFileReader:
    """Reads task files, each file once however often it is included."""

    def __init__(self) -> None:
        self._read: dict[Path, TaskFile] = {}

    def read(self, path: Path) -> TaskFile:
        """The file at `path` and what it includes, merged: later includes win, its own keys win.

        Raises TaskError: no such file, not YAML, not a mapping, a cycle of includes.
        """
        return self._read_through(path.expanduser().resolve(), ())

    def outside(self, folder: Path) -> list[Path]:
        """The files read so far that lie in other folders: included ones."""
        return [path for path in self._read if not path.is_relative_to(folder)]

    def _read_through(self, path: Path, including: tuple[Path, ...]) -> TaskFile:
        if path in including:
            cycle = " -> ".join(file.name for file in (*including[including.index(path) :], path))
            raise TaskError(f"{including[0]}: the includes form a cycle: {cycle}")
        if path not in self._read:
            self._read[path] = self._merge(path, (*including, path))
        return self._read[path]

    def _merge(self, path: Path, including: tuple[Path, ...]) -> TaskFile:
        own, repeated = _parse(path)
        included = own.pop("include", [])
        values: dict[str, Any] = {}
        origins: dict[str, Path] = {}
        for name in included if isinstance(included, list) else [included]:
            if not isinstance(name, str):
                raise TaskError(
                    f"{_place(path, 'include')}: include: expected a file name, got {name!r}"
                )
            other = (path.parent / name).resolve()
            if not other.is_file():
                raise TaskError(f"{_place(path, 'include')}: include: there is no file {other}")
            parent = self._read_through(other, including)
            values.update(parent.values)
            origins.update(parent.origins)
            repeated += parent.repeated
        # A list of tasks belongs to the file that states it, not to those that include it.
        values.pop("task_list", None)
        values.update(own)
        origins.update(dict.fromkeys(own, path))
        return TaskFile(path, values, origins, repeated)


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


def _written(_: _TaskLoader, node: yaml.ScalarNode) -> WrittenVersion:
    return WrittenVersion(str(node.value))


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
_TaskLoader.add_constructor(_WRITTEN, _written)
_StrictLoader.add_constructor(_TEXT, _text)


def _place(file: Path, key: str) -> str:
    line = _line_of(file, _steps(key))
    return f"{file}:{line}" if line else str(file)


def _steps(key: str) -> list[str]:
    """The parts of a path such as `metric_list[0].metric`."""
    return re.findall(r"[^.\[\]]+", key) or [key]


def _line_of(path: Path, steps: list[str]) -> int | None:
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
