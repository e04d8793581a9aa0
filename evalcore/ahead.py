"""Benchmark after benchmark made ready, the next one while the model answers to one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from evalcore.errors import Stopped
from evalcore.preparation import Benchmark, Preparer, Spec, benchmarks_of
from evalcore.watch import Watch

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_END = 1.0


class Ahead(threading.Thread):
    """A benchmark that is being prepared in a thread of its own."""

    def __init__(self, prepare: Callable[[], Benchmark]) -> None:
        # Nobody waits at the end for a download that hangs.
        super().__init__(name="evalcore-prepare", daemon=True)
        self._prepare = prepare
        self._outcome: Benchmark | None = None
        self.start()

    def run(self) -> None:
        with suppress(BaseException):  # whatever it is, it is met again in the caller's thread
            self._outcome = self._prepare()

    def outcome(self, wants_stop: Callable[[], bool]) -> Benchmark | None:
        """What was prepared; None where something failed. Raises Stopped."""
        while self.is_alive():
            if wants_stop():
                raise Stopped
            self.join(SECONDS_BETWEEN_LOOKS)
        return self._outcome if self._outcome and self._outcome.is_whole else None


def prepared(preparer: Preparer, specs: Sequence[Spec], watch: Watch) -> Iterator[Benchmark]:
    """The benchmarks of the specs in turn, up to one with an `error`.

    Where the model allows it the next one is prepared in a thread while the caller works on the one
    at hand. What fails there is tried again in the caller's own thread when it is its turn: some
    code works in no other. Raises Stopped when it waits for that thread and the caller wants to
    stop.
    """
    waiting = benchmarks_of(specs)
    cancelled = threading.Event()
    coming: Ahead | None = None
    try:
        for place, alike in enumerate(waiting):
            watch.phase("prepare")
            benchmark = coming.outcome(watch.wants_stop) if coming else None
            benchmark = benchmark or preparer.prepare(alike, cancelled)
            coming = None
            if preparer.works_ahead and not benchmark.error and place + 1 < len(waiting):
                coming = Ahead(partial(preparer.prepare, waiting[place + 1], cancelled))
            yield benchmark
            if benchmark.error:
                return
    finally:
        cancelled.set()
        if coming:
            coming.join(SECONDS_TO_END)  # a little, for a thread that was told to end
