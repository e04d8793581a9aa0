"""Task files as YAML: includes merged, functions named but not run, mistakes with their line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evalcore.errors import TaskError
from evalcore.task.functions import FunctionRef

OWN_TASKS = Path(__file__).resolve().parents[2] / "tasks"
"""Our own task files: read more strictly than others, which must load as they are."""

_NUMBER_WITH_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file with everything that it includes."""

    path: Path
    values: dict[str, Any]
    origins: dict[str, Path] = field(default_factory=dict)
    """For each key the file that set it."""

    def place_of(self, key: str) -> str:
        """Where `key` was set, for messages: `file:line`, or the file if the line is unknown."""
        file = self.origins.get(key, self.path)
        line = _line_of(file, key)
        return f"{file}:{line}" if line else str(file)


class TaskFileReader:
    """Reads task files, each file once however often it is included."""

    def __init__(self) -> None:
        self._read: dict[Path, TaskFile] = {}

    def read(self, path: Path) -> TaskFile:
        """The file at `path` and what it includes, merged: later includes win, its own keys win.

        Raises TaskError: no such file, not YAML, not a mapping, a cycle of includes.
        """
        return self._read_through(path.expanduser().resolve(), ())

    def _read_through(self, path: Path, including: tuple[Path, ...]) -> TaskFile:
        if path in including:
            cycle = " -> ".join(file.name for file in (*including[including.index(path) :], path))
            raise TaskError(f"{including[0]}: the includes form a cycle: {cycle}")
        if path not in self._read:
            self._read[path] = self._merge(path, (*including, path))
        return self._read[path]

    def _merge(self, path: Path, including: tuple[Path, ...]) -> TaskFile:
        own = _parse(path)
        included = own.pop("include", [])
        values: dict[str, Any] = {}
        origins: dict[str, Path] = {}
        for name in included if isinstance(included, list) else [included]:
            if not isinstance(name, str):
                raise TaskError(f"{path}: include: expected a file name, got {name!r}")
            other = (path.parent / name).resolve()
            if not other.is_file():
                raise TaskError(f"{path}: include: there is no file {other}")
            parent = self._read_through(other, including)
            values.update(parent.values)
            origins.update(parent.origins)
        # A list of tasks belongs to the file that states it, not to those that include it.
        values.pop("task_list", None)
        values.update(own)
        origins.update(dict.fromkeys(own, path))
        return TaskFile(path, values, origins)


def _parse(path: Path) -> dict[str, Any]:
    loader_class = _StrictLoader if path.is_relative_to(OWN_TASKS) else _TaskLoader
    try:
        with path.open("rb") as stream:
            loader = loader_class(stream)
            loader.folder = path.parent
            try:
                values = loader.get_single_data()
            finally:
                loader.dispose()
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise TaskError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise TaskError(f"{path}: expected a mapping of keys, got {type(values).__name__}")
    return values


class _TaskLoader(yaml.CSafeLoader):
    """Safe YAML plus `!function`."""

    folder = Path()


class _StrictLoader(_TaskLoader):
    """Refuses what YAML lets pass and people do not mean."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _function(loader: _TaskLoader, node: yaml.ScalarNode) -> FunctionRef:
    return FunctionRef(str(loader.construct_scalar(node)), loader.folder)


def _text(loader: _StrictLoader, node: yaml.ScalarNode) -> str:
    text = str(loader.construct_scalar(node))
    if not node.style and _NUMBER_WITH_EXPONENT.fullmatch(text):
        raise yaml.constructor.ConstructorError(
            None, None, f"{text} is read as text: write {text} as a decimal number", node.start_mark
        )
    return text


_TaskLoader.add_constructor("!function", _function)
_StrictLoader.add_constructor("tag:yaml.org,2002:str", _text)


def _line_of(path: Path, key: str) -> int | None:
    """Line of a top-level key, found by reading the file again: only needed for messages."""
    try:
        root = yaml.compose(path.read_bytes(), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError):
        return None
    for key_node, _ in root.value if isinstance(root, yaml.MappingNode) else ():
        if key_node.value == key:
            return int(key_node.start_mark.line) + 1
    return None
