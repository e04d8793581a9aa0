"""A value that is dear to make: made anew beside the requests, so that no reader waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import connection

QUICK = 0.05
"""Seconds of computing: a value that takes no longer is simply made."""
REST = 10
"""A slow one is made again after so many times as long as it took, so it takes a core's tenth."""
AFTER = 0.3
"""Seconds until then: first the page of whoever found the value old is made, by all of a core."""
OLDEST = 60.0
"""Seconds: an older value is given to nobody, unless its maker says otherwise."""

Value = TypeVar("Value")


class Refreshed(Generic[Value]):
    """What `make` gives: of this moment where that is quick, else seconds old.

    Who comes when a slow value has rested gets it once more, while the next is made in a thread.
    """

    def __init__(
        self, make: Callable[[], Value], *, oldest: float = OLDEST, rest: float = REST
    ) -> None:
        """`oldest` seconds after it was made a slow value is given to nobody; `rest` is as REST."""
        self._make = make
        self._oldest = oldest
        self._rest = rest
        self._lock = threading.Lock()
        self._refreshing = False
        self._known: tuple[Value, float, float] | None = None

    def get(self) -> Value:
        known = self._known
        if known is not None:
            value, cost, made = known
            age = time.monotonic() - made
            if cost > QUICK and age < max(self._oldest, 2 * self._rest * cost):
                if age > self._rest * cost:
                    self._refresh(known)
                return value
        return self._renew()

    def _renew(self) -> Value:
        began = time.thread_time()
        value = self._make()
        self._known = value, time.thread_time() - began, time.monotonic()
        return value

    def _refresh(self, known: tuple[Value, float, float]) -> None:
        with self._lock:
            if self._refreshing or self._known is not known:
                return
            self._refreshing = True
        later = threading.Timer(AFTER, self._in_thread)
        later.daemon = True
        later.start()

    def _in_thread(self) -> None:
        try:
            self._renew()
        finally:
            self._refreshing = False
            connection.close()
