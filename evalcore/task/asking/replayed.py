"""`process_docs` that draws at random, called as often and in the order that lm-eval calls it.

It seeds its generators once, processes the examples' split, then the scored one at the first look
at it and again before it asks; and it scores what a further call gives, whatever was asked. Compat
asks what it asks, and scores that. What `map` of `datasets` made once comes from that library's
cache there, and draws nothing the second time.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from evalcore.task.asking.prompt import call
from evalcore.task.data.seeds import FixedRandomness, set_state, state
from evalcore.task.functions import FunctionRef

_WORDS = ("random", "shuffle", "sample(")
"""One of them stands in code that draws."""

_Generator = random.Random | np.random.Generator | np.random.RandomState


def may_draw(function: FunctionRef) -> bool:
    """Whether it could draw at random, as far as its file shows."""
    return any(function.names(word) for word in _WORDS)


class Calls:
    """The calls for one task, in a `with` of `drawing`."""

    def __init__(self) -> None:
        self._made: dict[str, Sequence[Any]] = {}

    def of(self, function: FunctionRef, docs: Any) -> Sequence[Any]:
        """What the function makes of them there: where the library keeps that, what it made of them
        at first, and no draw."""
        before = state()
        made: Sequence[Any] = call(function, docs)
        kept = getattr(made, "cache_files", None) and getattr(made, "_fingerprint", None)
        if not kept:
            return made
        if kept in self._made:
            set_state(before)
        return self._made.setdefault(kept, made)

    def names_drawn(self) -> None:
        """Between it has drawn: a name of eight signs each time that it reads a task's own, three
        times where there is one task."""
        for _ in range(3 * 8):
            random.random()  # noqa: S311


_at_first: dict[str, dict[str, Any]] = {}
"""By module the state in which its own generators were found."""


@contextmanager
def drawing(function: FunctionRef) -> Iterator[None]:
    """For the calls of one task: lm-eval's seeds, and the generators of the function's module as it
    was loaded; nothing from the disk, where an earlier run may have drawn otherwise."""
    import datasets

    function.load()
    own = _generators(function)
    now = {name: _state(generator) for name, generator in own.items()}
    states = _at_first.setdefault(function.module_name, now)
    for name, generator in own.items():
        if name in states:
            _set_state(generator, states[name])
    caching: bool = datasets.is_caching_enabled()
    datasets.disable_caching()
    try:
        with FixedRandomness():
            yield
    finally:
        if caching:
            datasets.enable_caching()


def _generators(function: FunctionRef) -> dict[str, _Generator]:
    module = sys.modules.get(function.module_name)
    held = {} if module is None else vars(module)
    return {name: value for name, value in held.items() if isinstance(value, _Generator)}


def _state(generator: _Generator) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def _set_state(generator: _Generator, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
