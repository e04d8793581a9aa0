"""Where evalcore's time goes: the share of each kind of operation in answering a workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mkldnn_linear")
KINDS = ("matrix products", "attention", "other operations", "outside operations")


@dataclass(frozen=True)
class Profile:
    """Of one workload with one model."""

    title: str
    model: str
    seconds: float
    """Without the profiler."""
    shares: Mapping[str, float]
    """By kind of `KINDS`; they add up to one."""

    def __str__(self) -> str:
        shares = "; ".join(f"{kind} {share:.0%}" for kind, share in self.shares.items())
        return f"{self.title}: model {self.model}; {self.seconds:.2f} s; {shares}"


def shares_of(work: Callable[[], object], device: str) -> dict[str, float]:
    """Runs the work under torch's profiler.

    On a CPU of the time by the clock, in which "outside operations" is mostly Python, the
    profiler's own work included; on a GPU of the time its kernels take: nothing is outside.
    """
    from torch.profiler import ProfilerActivity, profile

    cuda = device.startswith("cuda")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    begin = time.perf_counter()
    with profile(activities=activities) as found:
        work()
        total = (time.perf_counter() - begin) * 1e6
    taken = dict.fromkeys(KINDS, 0.0)
    for average in found.key_averages():
        spent: Any = average.self_device_time_total if cuda else average.self_cpu_time_total
        taken[_kind(average.key)] += spent
    if cuda:
        total = sum(taken.values())
    taken["outside operations"] = max(0.0, total - sum(taken.values()))
    return {kind: spent / sum(taken.values()) for kind, spent in taken.items()}


def _kind(operation: str) -> str:
    if operation in PRODUCTS:
        return "matrix products"
    return "attention" if "attention" in operation else "other operations"
