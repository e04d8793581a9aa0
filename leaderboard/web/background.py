"""Work that a request begins and does not wait for: whoever asks again finds it done.

A site process answers by a few threads, so a request that waits for the Hub, or counts for seconds,
takes one of them from all other readers. Such work is done by threads of its own. The request that
begins it waits a moment, since most of it is done in a moment, and otherwise answers with a page
that asks again (docs/decisions/0085-work-beside-requests.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

PATIENCE_SECONDS = 0.3
"""From the beginning of a job on, requests wait for it; one that asks later is answered at once."""
ASK_AGAIN_SECONDS = 1
"""After which a page asks for what was under way."""

Value = TypeVar("Value")


class NotReady(Exception):
    """The work is under way; ask again in ASK_AGAIN_SECONDS."""


class TooMuchWork(Exception):
    """As much waits as this process takes on; nothing was begun."""


@dataclass(frozen=True)
class _Job(Generic[Value]):
    work: Callable[[], Value]
    begun: float
    """`time.monotonic()` when somebody asked first."""
    outcome: Future[Value]
    finished: list[float]
    """`time.monotonic()` once it is done; empty until then."""


class Background(Generic[Value]):
    """Jobs of one kind, each under a key, done by threads of this process in the order they came.

    The work may not touch the database: it gets what it needs from the request that begins it.
    """

    def __init__(self, name: str, *, threads: int, most: int, keep_seconds: float) -> None:
        """At most `most` jobs wait or are under way; an outcome is kept for `keep_seconds`."""
        self._name, self._threads = name, threads
        self._most, self._keep_seconds = most, keep_seconds
        self._jobs: dict[str, _Job[Value]] = {}
        self._waiting: SimpleQueue[_Job[Value]] = SimpleQueue()
        self._lock = threading.Lock()
        self._started: list[threading.Thread] = []

    def has(self, key: str) -> bool:
        """Whether this is under way or done, so that asking for it begins nothing."""
        with self._lock:
            self._drop_old()
            return key in self._jobs

    def ask(self, key: str, work: Callable[[], Value]) -> Value:
        """The outcome of the job under this key, which is begun where there is none.

        Raises what the work raised, NotReady, and TooMuchWork.
        """
        job = self._job(key, work)
        patience = job.begun + PATIENCE_SECONDS - time.monotonic()
        try:
            job.outcome.exception(max(0.0, patience))
        except TimeoutError:
            raise NotReady from None
        return job.outcome.result()

    def forget(self, key: str) -> None:
        """Whoever asks for this from now on begins it anew."""
        with self._lock:
            self._jobs.pop(key, None)

    def _job(self, key: str, work: Callable[[], Value]) -> _Job[Value]:
        with self._lock:
            self._drop_old()
            if key in self._jobs:
                return self._jobs[key]
            if sum(not job.finished for job in self._jobs.values()) >= self._most:
                raise TooMuchWork
            job = self._jobs[key] = _Job(work, time.monotonic(), Future(), [])
            self._waiting.put(job)
            if len(self._started) < self._threads:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._started.append(thread)
                thread.start()
            return job

    def _drop_old(self) -> None:
        oldest = time.monotonic() - self._keep_seconds
        for key, job in list(self._jobs.items()):
            if job.finished and job.finished[0] < oldest:
                del self._jobs[key]

    def _run(self) -> None:
        while True:
            job = self._waiting.get()
            try:
                outcome = job.work()
            except BaseException as error:
                job.finished.append(time.monotonic())
                job.outcome.set_exception(error)
            else:
                job.finished.append(time.monotonic())
                job.outcome.set_result(outcome)
