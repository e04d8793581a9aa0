"""A worker whose connection to the database is lost connects again, and does what it would have.

Every write for a claim is fenced by its token, so that doing one twice changes nothing: where the
first was stored and only the answer was lost, the second finds the run no longer its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

LONGEST_OUTAGE = 600.0
"""Seconds; a child works on meanwhile, and journals what it does."""
LAST_TRIES = 5.0
"""Seconds, where this process was asked to stop: what it holds is another's when its lease ends."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

_hurries: list[float] = []


def hurry() -> None:
    """Have nothing in this process wait long for the database any more, which is to end."""
    _hurries.append(monotonic())


def persistently(ask: Callable[[], Answer], *, seconds: float = LONGEST_OUTAGE) -> Answer:
    """What `ask` gives, as soon as the database answers. Raises what it raised last."""
    until, pause = monotonic() + seconds, FIRST_PAUSE
    while True:
        try:
            return ask()
        except (OperationalError, InterfaceError) as problem:
            last = min([until, *(asked + LAST_TRIES for asked in _hurries)])
            if connection.in_atomic_block or monotonic() > last:
                raise
            logger.warning("the database does not answer, trying again: %s", problem)
            with suppress(OperationalError, InterfaceError):
                connection.close()
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
