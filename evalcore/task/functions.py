"""`!function module.name` in a task file: named when it is read, run only when a task is built.

The module is a file beside the YAML (dots are folders), else an importable module. Code is
honoured only in folders that the operator installed; nothing that came through the site gets here.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from evalcore.digest import digest_of, digest_of_file
from evalcore.errors import TaskError


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function that a task file names; `folder` is the folder of that file."""

    name: str
    folder: Path

    def __str__(self) -> str:
        return f"!function {self.name}"

    def load(self) -> Callable[..., Any]:
        """The function itself; runs its module, once for each state of the file.

        Raises TaskError if it cannot be had.
        """
        file = self._file_beside()
        return _loaded(self, file, file.stat().st_mtime_ns if file else 0)

    def _load(self, file: Path | None) -> Callable[..., Any]:
        module_name, _, function_name = self.name.rpartition(".")
        try:
            module = _module_from(file) if file else importlib.import_module(module_name)
            function = getattr(module, function_name)
        except (Exception, SystemExit) as error:  # the module is somebody else's code
            raise TaskError(
                f"{self} (named in {self.folder}) cannot be loaded: "
                f"{type(error).__name__}: {error}. Install what it imports, or correct the name"
            ) from error
        if not callable(function):
            raise TaskError(f"{self} (named in {self.folder}) is not callable")
        return function  # type: ignore[no-any-return]

    def digest(self) -> str:
        """SHA-256 of the function's name and of the whole file that defines it, read but not run.

        The whole file, because a function changes with the helpers beside it. Files that the module
        imports in turn are not covered.
        """
        file = self._file_beside() or self._installed_file()
        return digest_of({"function": self.name, "source": digest_of_file(file)})

    def _file_beside(self) -> Path | None:
        module_name, dot, _ = self.name.rpartition(".")
        if not dot:
            raise TaskError(
                f"{self} (named in {self.folder}) has no module: write `!function file.name`"
            )
        file = self.folder / f"{module_name.replace('.', '/')}.py"
        return file if file.is_file() else None

    def _installed_file(self) -> Path:
        module_name = self.name.rpartition(".")[0]
        try:
            spec = importlib.util.find_spec(module_name)
        except ModuleNotFoundError:
            spec = None
        if spec is None or spec.origin is None:
            raise TaskError(
                f"{self}: neither {self.folder / module_name.replace('.', '/')}.py "
                f"nor an installed module {module_name} exists"
            )
        return Path(spec.origin)


@functools.cache
def _loaded(function: FunctionRef, file: Path | None, _changed: int) -> Callable[..., Any]:
    return function._load(file)


def _module_from(file: Path) -> ModuleType:
    """The module in `file`, run once for each content.

    Its name carries the content's digest, so that caches which name a function by its module (such
    as those of `datasets`) never serve the results of an older version of the file.
    """
    name = f"evalcore_task_code_{file.stem}_{digest_of_file(file)[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
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
