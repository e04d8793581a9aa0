"""Messages that say that runs wait: nothing but a quicker look at the database.

A broker that is down, or none, costs seconds: who waits for a hint looks again soon all the same.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, Self

from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from runners.broker import MOST_HINTS
from runners.celery import EXPIRES, app

logger = logging.getLogger(__name__)

# The bounds are RabbitMQ's; on Redis and in files those of broker.py hold.
QUEUE = Queue(  # type: ignore[no-untyped-call]
    "hints",
    Exchange("hints"),  # type: ignore[no-untyped-call]
    "hints",
    max_length=MOST_HINTS,
    message_ttl=EXPIRES,
)
BRIEF = 0.5
"""Seconds after which a worker that was asked to stop notices it."""


def send() -> None:
    """Raises what kombu or the socket raises where the broker does not answer."""
    with app.producer_or_acquire() as producer:
        producer.publish(
            {}, exchange=QUEUE.exchange, routing_key=QUEUE.routing_key, declare=[QUEUE],
            expiration=EXPIRES, delivery_mode="transient", retry=False,
        )  # fmt: skip


class Hints:
    """Waits for a message; use it in a `with` statement."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._connection: Connection | None = None
        self._heard = False
        self._silent = False

    def wait(self, seconds: float) -> None:
        """Until a message comes, `seconds` are over or `stopping` is set."""
        until = monotonic() + seconds
        while not self._stopping.is_set() and (left := until - monotonic()) > 0:
            if self._hears(min(left, BRIEF)):
                break

    def close(self) -> None:
        """Take no message from those who are free while this worker is not."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.release()  # type: ignore[no-untyped-call]
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _hears(self, seconds: float) -> bool:
        self._heard = False
        try:
            connection = self._connected()
            with suppress(TimeoutError):
                connection.drain_events(timeout=seconds)  # type: ignore[no-untyped-call]
            self._silent = False
        # Brokers have errors of their own by the dozen, and none of them is a reason to end.
        except Exception as problem:
            if not self._silent:
                logger.warning("no messages from the broker (%s): looking without them", problem)
            self._silent = True
            self.close()
            self._stopping.wait(seconds)
        return self._heard

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = app.connection_for_read()
            consumer = self._connection.Consumer([QUEUE], no_ack=True, accept=["json"])
            consumer.register_callback(self._note)
            consumer.consume()
        return self._connection

    def _note(self, _body: Any, _message: Any) -> None:
        self._heard = True
