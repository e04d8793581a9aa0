"""The state of the global random generators while task code runs."""

from __future__ import annotations

import random
import threading
from collections import deque
from typing import Any, Self

import numpy as np


class _Turns:
    """A lock that is had in the order in which it was asked for, and once more by who has it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._owner: int | None = None
        self._depth = 0

    @property
    def are_awaited(self) -> bool:
        return bool(self._waiting)

    def take(self) -> bool:
        """Whether it was not the caller's already."""
        me, ticket = threading.get_ident(), object()
        with self._changed:
            if self._owner == me:
                self._depth += 1
                return False
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: not self._depth and self._waiting[0] is ticket)
                self._owner, self._depth = me, 1
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        return True

    def give(self) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._changed.notify_all()


_turns = _Turns()
"""The generators are the whole process's: whoever draws from them keeps other threads out."""

_State = tuple[Any, Any]


def state() -> _State:
    """That of the global generators of Python and numpy."""
    return random.getstate(), np.random.get_state()


def set_state(state: _State) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])


class FixedRandomness:
    """In a `with` statement: lm-eval's seeds for code that draws from the global generators.

    Whatever ran before, and one thread at a time: what another draws meanwhile would change what
    this one gets.
    """

    def __enter__(self) -> Self:
        self._outermost = _turns.take()
        self._others = state()
        random.seed(0)
        np.random.seed(1234)
        return self

    def __exit__(self, *_error: object) -> None:
        set_state(self._others)
        _turns.give()

    def let_others(self) -> None:
        """Between two steps of long work: who waits goes first, and no draw of ours is another."""
        if not self._outermost or not _turns.are_awaited:
            return
        own = state()
        set_state(self._others)
        _turns.give()
        _turns.take()
        self._others = state()
        set_state(own)
