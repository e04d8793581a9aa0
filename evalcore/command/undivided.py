"""transformers without what divides a model among processes, where there is one process.

It imports torch's distributed tensors with every model, a tenth of a whole start
(docs/benchmarks.md), unless torch was built without them. Whether it was is asked once and kept:
here it is told so in a process that no launcher has started. All that divides a model is missing
then, as it is on such a build; `--model_args tp_plan=auto` is refused there anyway, and the
processes that it starts import what they need by themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

DIVIDING = "transformers.distributed"
"""What is imported first of all that asks."""

LAUNCHED = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
"""What torchrun and its like tell the processes that they start."""


@contextmanager
def undivided() -> Iterator[None]:
    """While models are imported; once they are, it changes nothing."""
    finder = _Finder()
    if DIVIDING not in sys.modules and not any(name in os.environ for name in LAUNCHED):
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == DIVIDING:
            sys.meta_path.remove(self)
            _answer_for_good()
        return None


def _answer_for_good() -> None:
    from torch import distributed

    there = distributed.is_available
    distributed.is_available = lambda: False
    try:
        import_module("transformers.utils.import_utils").is_torch_distributed_available()
    finally:
        distributed.is_available = there
