"""How much memory is in use on a worker's devices, for whoever watches the pool.

Asked beside the heartbeat and never by it: a driver that hangs must not cost a worker its lease.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

import psutil

from runners import child
from runners.devices import CPU, NoSuchDevice, visible

logger = logging.getLogger(__name__)

MEASURE_EVERY = 10.0

InUse = list[tuple[str, int, int]]
"""By device, as `--devices` has it: bytes in use, and bytes in all."""


def now(device: str, limit: int) -> InUse:
    """Of the GPUs that this process sees what anybody uses there; on the processor, which a worker
    calls `device`, what it and its children hold of `limit` bytes. Empty where nobody can tell."""
    if device.startswith(CPU):
        return [(CPU, _held(), limit)]
    try:
        return [
            (gpu.index, gpu.used_bytes, gpu.total_bytes)
            for gpu in visible()
            if gpu.used_bytes is not None and gpu.total_bytes is not None
        ]
    except NoSuchDevice as problem:
        logger.warning("memory in use is not known: %s", problem)
        return []


def _held() -> int:
    own = psutil.Process()
    held = 0
    for process in (own, *child.living(own.pid)):
        with suppress(psutil.Error):  # it has ended since it was listed
            held += child.own_memory(process)
    return held


class Measuring:
    """Looks again and again, in a thread of its own, until it is told to end."""

    def __init__(self, device: str, limit: int) -> None:
        self._device = device
        self._limit = limit
        self._over = threading.Event()
        self.found: InUse | None = None
        """None until it has looked for the first time."""

    def start(self) -> None:
        threading.Thread(target=self._look, name="memory in use", daemon=True).start()

    def end(self) -> None:
        """Not waited for: where it hangs it is left behind."""
        self._over.set()

    def _look(self) -> None:
        while not self._over.is_set():
            self.found = now(self._device, self._limit)
            self._over.wait(MEASURE_EVERY)
