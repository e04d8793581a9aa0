"""How a command imports what computes a model: some thousand modules, which all stay."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evalcore.command.compiler import imported_when_compiling
from evalcore.command.undivided import undivided

if TYPE_CHECKING:
    from evalcore.model.base import Backend

LATER = {"scipy.optimize": ("linear_sum_assignment",)}
"""Functions that transformers imports with every model and calls in the training of a few that find
objects in pictures; to import their module takes a tenth of the whole start."""

COMPUTES_HERE = "evalcore.model.hf."
"""Backends whose code with torch is ours; vLLM, or a backend of one's own, compiles and divides."""


def backend(name: str) -> Backend:
    """What `--model` names, imported as a command does it; raises as `backend_of`."""
    with importing():
        from evalcore.model.registry import MODELS, backend_of

        with spared() if MODELS.get(name, "").startswith(COMPUTES_HERE) else nullcontext():
            return backend_of(name)


@contextmanager
def importing() -> Iterator[None]:
    """For a command's own process: imports within are quicker.

    Nobody looks for garbage meanwhile, nor ever again among what was imported; and the functions of
    `LATER` are imported when they are called.
    """
    collects, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    stand_ins = [_StandIn(*later) for later in LATER.items() if later[0] not in sys.modules]
    sys.modules |= {each.__name__: each for each in stand_ins}
    try:
        yield
    finally:
        for each in stand_ins:
            each.leave()
        if len(sys.modules) > known:
            gc.freeze()
        if collects:
            gc.enable()


@contextmanager
def spared() -> Iterator[None]:
    """Torch's compiler is imported when something is compiled, and what divides a model only where
    several processes were started for it. In effect from then on, not only while this lasts."""
    with imported_when_compiling(), undivided():
        yield


class _StandIn(ModuleType):
    """Stands in a module's place until something of it is wanted besides these functions."""

    def __init__(self, name: str, functions: tuple[str, ...]) -> None:
        super().__init__(name)
        for function in functions:
            setattr(self, function, self._calling(function))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # such as `inspect` asks of all modules
            raise AttributeError(name)
        return getattr(self._module(), name)

    def _calling(self, function: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            return getattr(self._module(), function)(*arguments, **named)

        return call

    def _module(self) -> ModuleType:
        self.leave()
        return importlib.import_module(self.__name__)

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
