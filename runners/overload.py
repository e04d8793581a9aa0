"""What a process of the site does with more requests than its threads can answer.

waitress queues without an end: where requests come faster than they are answered, every one of them
waits until its reader has given up, and nobody is told. Here a full queue is closed: the next
request is answered 503 at once, with the seconds after which to ask again, until there is room.
"""

from __future__ import annotations

import logging
import threading
import time
from queue import SimpleQueue
from typing import Any

from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

logger = logging.getLogger(__name__)

MAX_WAITING = 64
"""Requests; four threads answer as many ordinary pages in two to three seconds."""
MAX_WAIT_SECONDS = 5.0
"""A queue whose first request has waited for so long is full, however short it is."""
RETRY_SECONDS = 5
LOG_SECONDS = 60.0
WATCHED = ("/healthz", "/readyz", "/metrics")
"""Asked by who watches the site: answered first, so that overload is not taken for death."""
WATCHERS = 16
"""Requests of theirs that find room in a queue that is full for others."""
BODY = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Too much at once</title>
<h1>Too much at once</h1>
<p>This site is asked for more than it can answer at the moment. Nothing was stored.
Try again in some seconds.</p>
"""


class QueueFull(Error):  # type: ignore[misc]
    """As waitress answers what never reaches the site."""

    code, reason = 503, "Service Unavailable"

    def __init__(self) -> None:
        super().__init__("")

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:  # noqa: ARG002 waitress passes it
        headers = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Retry-After", str(RETRY_SECONDS)),
            ("Cache-Control", "no-store"),
        ]
        return f"{self.code} {self.reason}", headers, BODY


class BoundedDispatcher(ThreadedTaskDispatcher):  # type: ignore[misc]
    """waitress's threads and their queue, which has an end; one more thread sends others away."""

    def __init__(self) -> None:
        super().__init__()
        self._refused: SimpleQueue[Any] = SimpleQueue()
        self._number_refused, self._logged = 0, 0.0
        threading.Thread(target=self._refuse, name="refusing", daemon=True).start()

    def add_task(self, task: Any) -> None:
        """`task` is a connection, the first of whose requests waits to be answered."""
        request = task.requests[0]
        request.queued_at = time.monotonic()
        with self.lock:
            if request.path in WATCHED and len(self.queue) < MAX_WAITING + WATCHERS:
                self.queue.appendleft(task)
            elif request.error is None and self._is_full():
                request.error = QueueFull()
                self._refused.put(task)
                self._count_refused()
                return
            else:
                self.queue.append(task)
            self.queue_cv.notify()

    def _is_full(self) -> bool:
        if len(self.queue) >= MAX_WAITING:
            return True
        first = next((task.requests[0] for task in self.queue if task.requests), None)
        return first is not None and time.monotonic() - first.queued_at > MAX_WAIT_SECONDS

    def _count_refused(self) -> None:
        """One line a minute: a line for each would be more work than the answer."""
        self._number_refused += 1
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            logger.warning(
                "overload: requests are answered 503 at once, since as many as may wait do; so far "
                "since the last such line: %d",
                self._number_refused,
            )
            self._number_refused, self._logged = 0, now

    def _refuse(self) -> None:
        """Only writes an error, which waits for no reader."""
        while True:
            task = self._refused.get()
            try:
                task.service()
            except Exception:
                logger.exception("a connection could not be told that the queue is full")
