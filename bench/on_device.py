"""What evalcore asks of a GPU: launches and waits, its memory nearly full, its energy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

FLASH = "aten::_flash_attention_forward"
"""What a pack's attention is asked of in half precision."""


def asked_of_device(work: Callable[[], Any], device: str) -> dict[str, Any]:
    """Kernels started, waits for the device, and the share of the time in which it was busy."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = device.startswith("cuda")
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    began = time.monotonic()
    with profile(activities=kinds) as seen:
        work()
        if on_gpu:
            torch.cuda.synchronize(device)
    taken = time.monotonic() - began
    events = seen.key_averages()
    if not on_gpu:
        return {
            "operations": sum(event.count for event in events if event.key.startswith("aten::"))
        }
    waits = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
    return {
        "launches": sum(event.count for event in events if "LaunchKernel" in event.key),
        "flash": sum(event.count for event in events if event.key == FLASH),
        "waits": sum(event.count for event in events if event.key in waits),
        "busy": sum(event.self_device_time_total for event in events) / 1e6 / taken,
        "seconds": taken,
    }


def nearly_full(
    device: torch.device,
    asked: Callable[[], tuple[Any, Any]],
    gap: Callable[[Any, Any], dict[str, Any] | None],
) -> dict[str, Any]:
    """All but a part of the memory is taken: evalcore must end with the same answers.

    `asked` gives a model of evalcore's and its answers, `gap` how far some are from others.
    """
    _, plenty = asked()
    told: dict[str, Any] = {}
    for left in (1 << 30, 128 << 20):
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(device)
        taken = torch.empty(max(0, free - left), dtype=torch.uint8, device=device)
        try:
            lm, found = asked()
            told[f"{left >> 20} MiB"] = {**(gap(found, plenty) or {}), "how": lm.execution}
        except Exception as problem:
            told[f"{left >> 20} MiB"] = {"failed": f"{type(problem).__name__}: {problem}"[:300]}
        del taken
    return told


def energy(asked: Callable[[], tuple[Any, Any]]) -> dict[str, Any]:
    """Joules of some seconds' work, as a run would tell them."""
    from evalcore.energy import Meter

    lm, _ = asked()
    meter, began = Meter.of(lm), time.monotonic()
    while time.monotonic() - began < 3:
        asked()
    joules = {" ".join(part): found for part, found in meter.read().items()}
    return {"joules": joules, "seconds": time.monotonic() - began, "on": lm.accelerators}
