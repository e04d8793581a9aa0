"""Seconds, memory and the speed of the bare matrix product, of this process and its device."""

from __future__ import annotations

import ctypes
import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
PEAK = Path("/proc/self/clear_refs")
RESET_PEAK = "5"


@dataclass(frozen=True)
class Cost:
    """What a piece of work took."""

    seconds: float
    """CPU seconds of all threads on a CPU; seconds by the clock where a GPU does the work."""
    clock: float
    """Seconds by the clock."""
    memory: float | None
    """Bytes at the peak above those after loading the model; None where that cannot be measured."""


class Meter:
    """Measures what is done between `start` and `stop`."""

    def __init__(self, device: str) -> None:
        """Memory counts from here: to be made once the model is loaded and has run once."""
        self._cuda = device.startswith("cuda")
        self._loaded = self._now()

    def start(self) -> None:
        self._settle()
        self._reset = self._reset_peak()
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> Cost:
        self._finish()
        clock, cpu = time.perf_counter() - self._clock, time.process_time() - self._cpu
        peak = self._peak()
        known = self._reset and peak is not None and self._loaded is not None
        memory = max(0.0, peak - self._loaded) if known else None  # type: ignore[operator]
        return Cost(clock if self._cuda else cpu, clock, memory)

    def _settle(self) -> None:
        """What earlier work left goes back to the system."""
        gc.collect()
        self._finish()
        if self._cuda:
            import torch

            torch.cuda.empty_cache()
        elif hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)

    def _finish(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize()

    def _reset_peak(self) -> bool:
        if self._cuda:
            import torch

            torch.cuda.reset_peak_memory_stats()
            return True
        try:
            PEAK.write_text(RESET_PEAK)
        except OSError:
            return False
        return True

    def _now(self) -> float | None:
        self._settle()
        if self._cuda:
            import torch

            return float(torch.cuda.memory_allocated())
        return _status("VmRSS")

    def _peak(self) -> float | None:
        if self._cuda:
            import torch

            return float(torch.cuda.max_memory_allocated())
        return _status("VmHWM")


def _status(name: str) -> float | None:
    """Bytes, from a line such as `VmRSS:  1024 kB`."""
    if not STATUS.is_file():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return float(line.split()[1]) * 1024


def matmul_peak(device: str, dtype: Any) -> float:
    """Floating-point operations a second of the best of some matrix products, about 0.2 s of work.

    By CPU time on a CPU, by the clock on a GPU, as `Cost.seconds`.
    """
    import torch

    cuda = device.startswith("cuda")
    best = 0.0
    for size in (4096, 8192) if cuda else (512, 768, 1024):
        left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        times = 20 if cuda else max(2, int(2e9 / size**3))
        for attempt in range(3):
            if cuda:
                torch.cuda.synchronize()
            begin = time.perf_counter() if cuda else time.process_time()
            for _ in range(times):
                left @ right
            if cuda:
                torch.cuda.synchronize()
            taken = (time.perf_counter() if cuda else time.process_time()) - begin
            if attempt:
                best = max(best, times * 2 * size**3 / taken)
    return best
