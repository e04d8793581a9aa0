"""What this worker can hold, and the row that says so."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil
from django.db.models.functions import Now

from evalcore.model.hf.quantisation import installed_methods
from leaderboard.models import Worker
from leaderboard.models.variant import TRANSFORMERS, Dtype

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
HOST_SHARE = 0.8
"""Part of the machine's memory that models may take; the rest is for the site and the system."""


@dataclass(frozen=True)
class Capacity:
    device: str
    memory_bytes: int


@functools.cache
def detect() -> Capacity:
    """The GPUs that a child would see, else the processor. Imports no torch, starts no CUDA."""
    gpus = _gpus()
    if not gpus:
        return Capacity(f"cpu, {os.cpu_count()} cores", host_memory())
    names = sorted({name for name, _ in gpus})
    return Capacity(f"{len(gpus)} x {', '.join(names)}", sum(size for _, size in gpus))


def host_memory() -> int:
    """Bytes of main memory that a child may use."""
    total = psutil.virtual_memory().total
    if CGROUP_LIMIT.is_file() and (limit := CGROUP_LIMIT.read_text().strip()).isdigit():
        total = min(total, int(limit))
    return int(total * HOST_SHARE)


def _gpus() -> list[tuple[str, int]]:
    """Name and bytes of each GPU in CUDA_VISIBLE_DEVICES, which nvidia-smi does not heed."""
    if not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", "--query-gpu=index,uuid,name,memory.total"]
    told = subprocess.run(
        [*query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=False
    )
    if told.returncode != 0:
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    wanted = None if visible is None else {part.strip() for part in visible.split(",")}
    found = []
    for line in told.stdout.splitlines():
        index, uuid, name, mebibytes = (part.strip() for part in line.split(","))
        if wanted is None or index in wanted or uuid in wanted:
            found.append((name, int(mebibytes) * 2**20))
    return found


def announce(
    name: str,
    capacity: Capacity,
    backend: str = TRANSFORMERS,
    *,
    runs_code: bool = False,
    confinement: str = "",
) -> Worker:
    """Write the worker's row, or its heartbeat where the row is there already."""
    holds = {
        "memory_bytes": capacity.memory_bytes,
        "backend": backend,
        "dtypes": list(Dtype.values),
        "quantisations": installed_methods(),
        "runs_code": runs_code,
        "confinement": confinement,
        "seen": Now(),
    }
    # Pages name the device, so that only another one is written as such.
    if not Worker.objects.filter(name=name, device=capacity.device).update(**holds):
        holds["device"] = capacity.device
        Worker.objects.update_or_create(
            name=name, defaults=holds, create_defaults={**holds, "started": Now()}
        )
    return Worker.objects.get(name=name)
