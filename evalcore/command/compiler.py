"""torch's compiler, imported when something is compiled: an evaluation compiles nothing.

transformers imports `torch._dynamo` with every model, to mark a few functions for it and for one
class that stands alone. That took a seventh of a whole start (docs/benchmarks.md). Here the package
is there without its body: what marks a function remembers it, and the first wish for anything else
runs the body and marks them all. Where a version of torch or transformers wants more of it, that
happens at once, which costs what it did before.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

NAME = "torch._dynamo"

ALONE = f"{NAME}._trace_wrapped_higher_order_op"
"""The part that transformers' masks use; it needs nothing of the package."""


@contextmanager
def imported_when_compiling() -> Iterator[None]:
    """While models are imported; what is not imported by then may be so at any time afterwards."""
    finder = _Finder()
    if NAME not in sys.modules:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if NAME not in sys.modules and finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == NAME:
            spec = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                spec.loader = _Later(spec.loader)
            return spec
        package = sys.modules.get(NAME)
        if name.startswith(f"{NAME}.") and name != ALONE and isinstance(package, _Package):
            package.run()
            if (part := sys.modules.get(name)) is not None:
                part.__spec__ = ModuleSpec(name, _There(part))  # which counts, not what is returned
                return part.__spec__
        return None


class _Later(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_Marks(module, self._loader).by_name())


class _There(Loader):
    """For a part of the package that its body has imported on the way."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Package(ModuleType):
    """The package before its body; afterwards an ordinary module, and the same object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # such as `inspect` asks of all modules
            raise AttributeError(name)
        self.run()  # or its body is running now, and asks what it has so far
        if name in vars(self):
            return vars(self)[name]
        raise AttributeError(f"module {NAME!r} has no attribute {name!r}")

    def run(self) -> None:
        """Run its body, once; another thread waits for it."""
        self.__dict__["_marks"].run()


class _Marks:
    """What marks functions for the compiler, and what they have marked before it was there."""

    def __init__(self, package: ModuleType, loader: Loader) -> None:
        self._package = package
        self._loader = loader
        self._lock = threading.RLock()
        self._has_begun = False
        self._allowed: list[Any] = []
        self._undisturbed: weakref.WeakSet[Any] = weakref.WeakSet()

    def by_name(self) -> dict[str, Any]:
        return {
            "_marks": self,
            "allow_in_graph": self.allow_in_graph,
            "assume_constant_result": self.assume_constant_result,
            "disable": self.disable,
        }

    def allow_in_graph(self, function: Any) -> Any:
        self._allowed.append(function)
        return function

    def assume_constant_result(self, function: Any) -> Any:
        function._dynamo_marked_constant = True
        return function

    def disable(self, fn: Any = None, recursive: bool = True, **others: Any) -> Any:
        if fn is None and not recursive:
            return functools.partial(self.disable, recursive=False, **others)
        if not isinstance(fn, FunctionType):
            self.run()
            return self._package.disable(fn, recursive, **others)
        marked = _undisturbed(fn, lambda: self._package.disable(fn, recursive, **others))
        self._undisturbed.add(marked)
        return marked

    def run(self) -> None:
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
            package = self._package
            try:
                self._loader.exec_module(package)
            except BaseException:
                self._has_begun = False  # the next wish tells the same error
                raise
            package.__class__ = ModuleType
            del package.__dict__["_marks"]
            for function in self._allowed:
                package.allow_in_graph(function)
            for marked in self._undisturbed:
                marked.compiles()


def _undisturbed(function: Callable[..., Any], disabled: Callable[[], Any]) -> Any:
    """The function, and as soon as there is a compiler what that has for one to leave alone."""
    called = function

    @functools.wraps(function)
    def marked(*arguments: Any, **named: Any) -> Any:
        return called(*arguments, **named)

    def compiles() -> None:
        nonlocal called
        called = disabled()
        told = {name: value for name, value in vars(called).items() if "torchdynamo" in name}
        vars(marked).update(told | {"_torchdynamo_wrapper_id": id(marked)})

    marked.compiles = compiles  # type: ignore[attr-defined]
    return marked
