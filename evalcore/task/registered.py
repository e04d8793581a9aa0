"""What task code registers by name: filters, metrics and aggregations.

lm-evaluation-harness keeps one list for the whole process and refuses the second file with a name.
Here a name belongs to the code that registered it: to the file that a task's `!function` names,
with what that file imports. Two tasks may each have their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["filter", "metric", "aggregation"]


@dataclass(frozen=True, slots=True)
class Registered:
    """A filter class, or the function of a metric or aggregation."""

    value: Any
    file: str
    """Where it is defined."""
    higher_is_better: bool | None = None
    """Of a metric, as the next one."""
    aggregation: str | None = None

    def is_like(self, other: Registered) -> bool:
        """Whether both are of one definition: a file may be run for several that import it."""
        own, others = (getattr(one.value, "__qualname__", "") for one in (self, other))
        return (self.file, own) == (other.file, others)


by_module: dict[str, dict[tuple[Kind, str], Registered]] = {}
_loading: list[str] = []
"""The modules that are being loaded, the innermost last; their loader holds a lock."""


@contextmanager
def attributed_to(module: str) -> Iterator[None]:
    """What is registered inside belongs to this module, whichever file below it does so."""
    _loading.append(module)
    try:
        yield
    except BaseException:
        by_module.pop(module, None)
        raise
    finally:
        _loading.pop()


def register(kind: Kind, name: str, value: Any, **about: Any) -> None:
    """Makes the class or function known by name to the code that is being loaded.

    Raises ValueError for a name that is taken.
    """
    made_in = str(getattr(value, "__module__", ""))
    file = str(getattr(sys.modules.get(made_in), "__file__", made_in))
    made = Registered(value, file, **about)
    for module in _loading:
        earlier = by_module.setdefault(module, {}).setdefault((kind, name), made)
        if not earlier.is_like(made):
            raise ValueError(
                f"the {kind} {name!r} is registered twice, in {earlier.file} and in {made.file}: "
                "rename one of them"
            )
    for module in (*_loading, made_in):
        by_module.setdefault(module, {})[kind, name] = made
