"""`!function module.name` in a task file: named when it is read, run only when a task is built.

The module is a file beside the YAML (dots are folders), else an importable module. Code is
honoured only in folders that the operator installed; nothing that came through the site gets here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from evalcore.digest import digest_of, digest_of_file
from evalcore.errors import TaskError, keep_ours
from evalcore.task.registered import Kind, Registered, attributed_to, by_module
from evalcore.task.stand_ins import stand_ins


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function that a task file names; `folder` is the folder of that file."""

    name: str
    folder: Path
    place: str = dataclasses.field(default="", compare=False, kw_only=True)
    """The file and line that name it, for messages."""

    def __str__(self) -> str:
        return f"!function {self.name}"

    def load(self) -> Callable[..., Any]:
        """The function itself; runs its module, once for each state of the file.

        Raises TaskError if it cannot be had, or is none.
        """
        value = self.value()
        if not callable(value):
            raise TaskError(
                f"{self} (named in {self._where}) is a {type(value).__name__}, not a function"
            )
        return value  # type: ignore[no-any-return]

    def value(self) -> Any:
        """What has that name: a function, or a list or text in place of one that a key may hold.

        Raises TaskError if it cannot be had.
        """
        file = self._file_beside()
        return _loaded(self, file, file.stat().st_mtime_ns if file else 0)

    def _load(self, file: Path | None) -> Any:
        module_name, _, function_name = self.name.rpartition(".")
        try:
            with stand_ins(self.folder):
                with attributed_to(self.module_name):
                    module = _module_from(file) if file else importlib.import_module(module_name)
                function = getattr(module, function_name)
        except BaseException as error:  # the module is somebody else's code
            keep_ours(error)
            raise TaskError(
                f"{self} (named in {self._where}) cannot be loaded: "
                f"{type(error).__name__}: {error}. Install what it imports, or correct the name"
            ) from error
        return function

    @property
    def _where(self) -> str:
        return self.place or str(self.folder)

    def digest(self) -> str:
        """SHA-256 of the function's name and of the whole file that defines it, read but not run.

        The whole file, because a function changes with the helpers beside it. Of our own transforms
        the files that it names in turn count as well; other imported files are not covered.
        """
        file = self._file_beside() or self._installed_file()
        source: Any = digest_of_file(file)
        if self.is_reviewed:
            named = {other.stem: _pinned_digest(other) for other in _named_beside(file)}
            source = [source, named] if named else source
        return digest_of({"function": self.name, "source": source})

    @property
    def module_name(self) -> str:
        """The name that its module has once it is loaded."""
        file = self._file_beside()
        return _name_of_module(file) if file else self.name.rpartition(".")[0]

    @property
    def is_installed(self) -> bool:
        """Whether the function is that of an installed module, not of a file beside the YAML."""
        return self._file_beside() is None

    @property
    def is_reviewed(self) -> bool:
        """Whether it is one of our own transforms, which register nothing."""
        return self.name.startswith(TRANSFORMS)

    def names(self, text: str) -> bool:
        """Whether the file beside the YAML that defines the function contains `text`."""
        file = self._file_beside()
        return file is not None and text in file.read_text(encoding="utf-8", errors="replace")

    def _file_beside(self) -> Path | None:
        module_name, dot, _ = self.name.rpartition(".")
        if not dot:
            raise TaskError(
                f"{self} (named in {self._where}) has no module: write `!function file.name`"
            )
        file = self.folder / f"{module_name.replace('.', '/')}.py"
        if file.is_file():
            return file
        if "/" in module_name or module_name.startswith("."):  # which no installed module is called
            raise TaskError(
                f"{self} (named in {self._where}): there is no such file. A function is named by "
                "the file beside the task's, file.name, or by one below, folder.file.name: `..` "
                "leads nowhere, so put the file there"
            )
        return None

    def _installed_file(self) -> Path:
        module_name = self.name.rpartition(".")[0]
        try:
            spec = importlib.util.find_spec(module_name)
        except ModuleNotFoundError:
            spec = None
        if spec is None or spec.origin is None:
            beside = self.folder / module_name.replace(".", "/")
            raise TaskError(
                f"{self} (named in {self._where}): neither {beside}.py "
                f"nor an installed module {module_name} exists"
            )
        return Path(spec.origin)


@dataclass(frozen=True, slots=True)
class GivenFunction(FunctionRef):
    """A function that is at hand, in place of one that a file names."""

    function: Callable[..., Any]
    source: str
    """What decides what the function gives, as text."""

    def __str__(self) -> str:
        return self.name

    @property
    def module_name(self) -> str:
        return self.function.__module__

    @property
    def is_installed(self) -> bool:
        return False

    def value(self) -> Any:
        return self.function

    def digest(self) -> str:
        return digest_of({"function": self.name, "source": self.source})


TRANSFORMS = "evalcore.task.transforms."
COUNTS_AS = {
    # What confines a program moved to evalcore/sandbox/; how one is run and judged is as it was.
    "6a1c546dc840ca56cdbfe8f8d97a93ed54bc2422b2f877ad8268051d436c9f42": (
        "6bf08ca81be9fbde0a8a4a70c3a92fa23df076f59f9a17dc44c323163ec22ca6"
    ),
    "35c29b273037fb1debb6a74e2b3b94ba59c4d07dc1a42de97b3bde472dbd6fc6": (
        "79dccb0928b839a2703eb8ddff496dac06cb502179708bfb8d9eee917593a808"
    ),
}
"""By the digest of a transform's file, as which it counts: one that was changed so that no score
can. Any other change of such a file is a new version of the tasks that use it."""


def _pinned_digest(file: Path) -> str:
    digest = digest_of_file(file)
    return COUNTS_AS.get(digest, digest)


@functools.cache
def _named_beside(file: Path) -> tuple[Path, ...]:
    """The modules beside `file` that it names, those that they name, and so on."""
    found: dict[Path, None] = {}
    waiting = [file]
    while waiting:
        source = waiting.pop().read_text(encoding="utf-8")
        for other in sorted(file.parent.glob("*.py")):
            names = (f"{TRANSFORMS}{other.stem}", f"{other.stem}.py", f"import {other.stem}")
            used = any(re.search(rf"{re.escape(name)}\b", source) for name in names)
            if used and other != file and other not in found:
                found[other] = None
                waiting.append(other)
    return tuple(sorted(found))


@functools.cache
def _loaded(function: FunctionRef, file: Path | None, _changed: int) -> Any:
    return function._load(file)


class _SourceLoader(SourceFileLoader):
    """Compiles what the file says now.

    Bytecode counts as current where size and second of the file are the same: a file that was
    changed at once, by a letter, would run as it was, under the digest of what it is.
    """

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  it is of one file
        return self.source_to_code(self.get_data(self.path), self.path)


def _module_from(file: Path) -> ModuleType:
    """The module in `file`, run once for each content."""
    name = _name_of_module(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file, loader=_SourceLoader(name, str(file)))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _name_of_module(file: Path) -> str:
    """Carries a digest of the file's place and content.

    So caches which name a function by its module (such as those of `datasets`) never serve the
    results of an older version, and a copy elsewhere imports what lies beside itself.
    """
    return f"evalcore_task_code_{file.stem}_{digest_of([str(file), digest_of_file(file)])[:16]}"


def functions_in(part: Any) -> Iterator[FunctionRef]:
    """Every function that a task, or a part of its configuration, names."""
    if isinstance(part, FunctionRef):
        yield part
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from functions_in(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from functions_in(value)
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from functions_in(getattr(part, field.name))


def at_hand(part: Any) -> Any:
    """A part of a configuration with what stands for the functions that it names."""
    if isinstance(part, FunctionRef):
        return part.value()
    if isinstance(part, Mapping):
        return {key: at_hand(value) for key, value in part.items()}
    return [at_hand(value) for value in part] if isinstance(part, list) else part


def registered(kind: Kind, name: str, functions: Iterable[FunctionRef]) -> Registered | None:
    """What the code of a task registers by that name; `functions` are those that the task names.

    Loads the files in which the name stands, and the others where none of those registers it.
    Raises TaskError if one cannot be loaded, or if several register different things.
    """
    named = [function for function in functions if not function.is_reviewed]
    naming = [
        function for function in named if function.names(f'"{name}"') or function.names(f"'{name}'")
    ]
    return _found(kind, name, naming) or _found(kind, name, named)


def _found(kind: Kind, name: str, functions: Iterable[FunctionRef]) -> Registered | None:
    found: Registered | None = None
    for function in functions:
        function.value()
        one = by_module.get(function.module_name, {}).get((kind, name))
        if found and one and not found.is_like(one):
            raise TaskError(
                f"the {kind} {name!r} is registered by two files of the task, {found.file} and "
                f"{one.file}: rename one of them"
            )
        found = found or one
    return found
