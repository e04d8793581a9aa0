"""What a worker can hold and compute in, asked of its devices."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil
from django.conf import settings

from evalcore.errors import InfraError
from evalcore.whole_file import write_whole
from leaderboard.models.variant import Dtype
from runners.devices import Gpu, NoSuchDevice, chosen

CGROUPS = Path("/sys/fs/cgroup")
HOST_SHARE = 0.8
"""Part of the machine's memory that models may take; the rest is for the site and the system."""
SINCE = {Dtype.FLOAT16: (5, 3), Dtype.BFLOAT16: (8, 0)}
"""Compute capability from which a GPU computes in them; in float32 all do."""
KEPT = "precisions.json"
PROBE = """
import sys, torch
for name in sys.argv[1:]:
    try:
        one = torch.ones(2, 2, dtype=getattr(torch, name))
        torch.nn.functional.layer_norm(one @ one, (2,))
    except RuntimeError:
        continue
    print(name)
"""


@dataclass(frozen=True)
class Capacity:
    device: str
    memory_bytes: int
    """Of GPUs what is free now; of the machine's own what models may take of it."""
    dtypes: tuple[str, ...]


def now(stated: str, python: Sequence[str]) -> Capacity:
    """What the devices `stated` (as `--devices` has them) can hold, next to whatever is on them.

    `python` starts what computes there. Raises NoSuchDevice.
    """
    gpus = chosen(stated)
    if not gpus:
        return Capacity(f"cpu, {_cores()} cores", host_memory(), of_cpu(tuple(python)))
    return Capacity(called(gpus), sum(gpu.free_bytes for gpu in gpus), of_gpus(gpus))


def called(gpus: Sequence[Gpu]) -> str:
    """These GPUs as a device, in the words of pages and records."""
    names = ", ".join(sorted({gpu.name for gpu in gpus}))
    return f"{len(gpus)} x {names}"[:100]


def hardware(device: str) -> str:
    """The kind of machine behind a worker's device: of processors the model, too."""
    processor, _, cores = device.partition(", ")
    if processor != "cpu":
        return device
    return f"{_processor()}, {cores}" if _processor() else ""


@functools.cache
def _processor() -> str:
    """As Linux calls it; empty where it does not say."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, said = line.partition(":")
            if name.strip() == "model name":
                return " ".join(said.split())[:100]
    return ""


def of_gpus(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """What all of them compute in."""
    weakest = min(gpu.capability for gpu in gpus)
    return tuple(str(dtype) for dtype in Dtype if weakest >= SINCE.get(dtype, (0, 0)))


@functools.cache
def of_cpu(python: tuple[str, ...]) -> tuple[str, ...]:
    """What torch computes in on this processor; a short process of its own says so.

    It imports torch, which takes seconds: what it said of this torch and processor is kept in the
    worker's home.
    """
    kept, here = settings.PLUMBLINE_HOME / KEPT, _torch_and_processor(python)
    known = _read(kept)
    if dtypes := known.get(here):
        return dtypes
    told = _said_by(python, PROBE, *Dtype.values)
    if not (dtypes := tuple(told.stdout.split())):
        said = told.stderr.strip().rpartition("\n")[2]
        raise NoSuchDevice(f"torch computes in no precision on this processor: {said}")
    with suppress(InfraError):  # it is asked again then
        write_whole(kept, json.dumps({**known, here: dtypes}))
    return dtypes


def _torch_and_processor(python: Sequence[str]) -> str:
    """What the answer depends on: a home may be shared by machines, and outlives a version."""
    version = _said_by(python, "from importlib.metadata import version as of; print(of('torch'))")
    return " ".join([*python, version.stdout.strip(), platform.machine(), _processor()])


def _said_by(python: Sequence[str], *program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, "-c", *program],
        capture_output=True, text=True, check=False, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip


def _read(kept: Path) -> dict[str, tuple[str, ...]]:
    """By torch and processor; empty where nothing is kept, or nothing that can be read."""
    try:
        known = json.loads(kept.read_text())
        return {here: tuple(map(str, dtypes)) for here, dtypes in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def host_memory() -> int:
    """Bytes of main memory that a child may use."""
    return int(min(psutil.virtual_memory().total, *_limits()) * HOST_SHARE)


def _limits() -> list[int]:
    """Those of the control groups that this process is in, as of a container or a Slurm job."""
    found = [2**63]
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return found
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    for group in (PurePosixPath(own), *PurePosixPath(own).parents):
        file = CGROUPS / str(group).lstrip("/") / "memory.max"
        if file.is_file() and (limit := file.read_text().strip()).isdigit():
            found.append(int(limit))
    return found
