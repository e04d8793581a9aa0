"""evalcore: the evaluation engine of Plumbline. Read `evaluation.py` first.

`evaluate` and `simple_evaluate` are the engine as a library; they are imported when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalcore.engine import VERSION

if TYPE_CHECKING:
    from evalcore.library import evaluate as evaluate
    from evalcore.library import simple_evaluate as simple_evaluate

__version__ = VERSION

__all__ = ["__version__", "evaluate", "simple_evaluate"]


def __getattr__(name: str) -> Any:
    if name in ("evaluate", "simple_evaluate"):
        from evalcore import library

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
