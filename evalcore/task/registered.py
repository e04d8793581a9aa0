"""What task code registers by name: filters, metrics and aggregations.

lm-evaluation-harness keeps one list for the whole process and refuses the second file with a name.
Here a name belongs to the code that registered it: to the file that a task's `!function` names,
with what that file imports. Two tasks may each have their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from evalcore.errors import TaskError

Kind = Literal["filter", "metric", "aggregation"]


@dataclass(frozen=True, slots=True)
class Registered:
    """A filter class, or the function of a metric or aggregation."""

    kind: Kind
    name: str
    value: Any
    file: str
    """Where it is defined."""
    higher_is_better: bool | None = None
    """Of a metric, as the next one."""
    aggregation: str | None = None

    def is_like(self, other: Registered) -> bool:
        """Whether both are of one definition: a file may be run for several that import it."""
        return (self.file, self._own_name) == (other.file, other._own_name)

    @property
    def _own_name(self) -> str:
        return getattr(self.value, "__qualname__", "")


class Code(Protocol):
    """A function that a task names, by the file that registers things beside it."""

    @property
    def is_reviewed(self) -> bool: ...
    @property
    def module_name(self) -> str: ...

    def names(self, text: str) -> bool: ...

    def value(self) -> Any: ...


_by_module: dict[str, dict[tuple[Kind, str], Registered]] = {}
_loading: list[str] = []
"""The modules that are being loaded, the innermost last; their loader holds a lock."""


@contextmanager
def attributed_to(module: str) -> Iterator[None]:
    """What is registered inside belongs to this module, whichever file below it does so."""
    _loading.append(module)
    try:
        yield
    except BaseException:
        _by_module.pop(module, None)
        raise
    finally:
        _loading.pop()


def register(kind: Kind, name: str, value: Any, **about: Any) -> None:
    """Makes the class or function known by name to the code that is being loaded.

    Raises ValueError for a name that is taken.
    """
    made_in = str(getattr(value, "__module__", ""))
    file = str(getattr(sys.modules.get(made_in), "__file__", made_in))
    made = Registered(kind, name, value, file, **about)
    for module in _loading:
        earlier = _by_module.setdefault(module, {}).setdefault((kind, name), made)
        if not earlier.is_like(made):
            raise ValueError(
                f"the {kind} {name!r} is registered twice, in {earlier.file} and in {made.file}: "
                "rename one of them"
            )
    for module in (*_loading, made_in):
        _by_module.setdefault(module, {})[kind, name] = made


def registered(kind: Kind, name: str, functions: Iterable[Code]) -> Registered | None:
    """What the code of a task registers by that name; `functions` are those that the task names.

    Loads the files in which the name stands, and the others where none of those registers it.
    Raises TaskError if one cannot be loaded, or if several register different things.
    """
    named = [function for function in functions if not function.is_reviewed]
    naming = [one for one in named if one.names(f'"{name}"') or one.names(f"'{name}'")]
    return _found(kind, name, naming) or _found(kind, name, named)


def _found(kind: Kind, name: str, functions: Iterable[Code]) -> Registered | None:
    found: Registered | None = None
    for function in functions:
        function.value()
        one = _by_module.get(function.module_name, {}).get((kind, name))
        if found and one and not found.is_like(one):
            raise TaskError(
                f"the {kind} {name!r} is registered by two files of the task, {found.file} and "
                f"{one.file}: rename one of them"
            )
        found = found or one
    return found
