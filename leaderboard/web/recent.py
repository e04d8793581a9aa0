"""What a process keeps for the next request, by key: never more than there is room for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values whose sizes add up to `room` at most; those asked for longest ago make room."""

    def __init__(self, room: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        self._room = room
        self._size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._taken = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> Value:
        with self._lock:
            if key in self._values:
                self._taken -= self._size(self._values.pop(key))
            self._values[key] = value
            self._taken += self._size(value)
            while self._taken > self._room:
                self._taken -= self._size(self._values.popitem(last=False)[1])
        return value

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of this key, made where it is not at hand."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        return self.put(key, make())

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._taken = 0
