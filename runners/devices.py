"""The devices of this machine: which a worker has, what it can hold and compute in, what is in use.

Nothing here imports torch or starts CUDA: whoever only asks must not hold memory on a device.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil
from django.conf import settings

from evalcore.errors import InfraError
from evalcore.whole_file import write_whole
from leaderboard import environment as env
from runners import child

logger = logging.getLogger(__name__)

CPU = "cpu"
VISIBLE = "CUDA_VISIBLE_DEVICES"
FIELDS = "index,uuid,name,memory.free,memory.used,memory.total,compute_cap"
UNNAMED = ("", "-1", "NoDevFiles")
"""With what CUDA_VISIBLE_DEVICES hides all GPUs."""


class NoSuchDevice(ValueError):
    """What was asked for is not there, or nobody can tell; the message says what to do."""


@dataclass(frozen=True)
class Gpu:
    index: str
    uuid: str
    name: str
    free_bytes: int
    used_bytes: int | None
    total_bytes: int | None
    """None where the driver does not tell: that is no reason to leave a GPU unused."""
    capability: tuple[int, int]
    """CUDA's compute capability."""


def groups() -> list[str]:
    """What each worker of this machine has, as `--devices` takes it: one for each GPU.

    PLUMBLINE_DEVICES says otherwise, as in `0 1 2,3`; without a GPU it is the processor.
    """
    if option := env.text("PLUMBLINE_DEVICES", "").split():
        return option
    return [gpu.index for gpu in _gpus_or_none()] or [CPU]


def find_gpus(option: str) -> list[Gpu]:
    """The GPUs in `0,1`, by index or UUID; all visible ones for nothing, none for `cpu`.

    Raises NoSuchDevice.
    """
    if option == CPU:
        return []
    if not option:
        return _gpus_or_none()
    candidates = visible()
    names = [name.strip() for name in option.split(",")]
    gpus = [next((gpu for gpu in candidates if _is(name, gpu)), None) for name in names]
    for name, gpu in zip(names, gpus, strict=True):
        if gpu is None:
            known = ", ".join(gpu.index for gpu in candidates) or "none"
            raise NoSuchDevice(
                f"no GPU {name!r} for this process: nvidia-smi and {VISIBLE} leave {known}; "
                f"name those by commas, or {CPU!r}"
            )
    known_gpus = [gpu for gpu in gpus if gpu]
    if len({gpu.uuid for gpu in known_gpus}) < len(known_gpus):
        raise NoSuchDevice(f"{option!r} names a GPU twice: name each once")
    return known_gpus


def keep_to(gpus: Sequence[Gpu]) -> None:
    """Let processes that are started from here see these GPUs alone."""
    os.environ[VISIBLE] = ",".join(gpu.index for gpu in gpus)
    # CUDA counts the fastest first if nobody says otherwise, nvidia-smi by place.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def visible() -> list[Gpu]:
    """Those that a child would see. Raises NoSuchDevice where nvidia-smi does not tell."""
    gpus = [_gpu(line) for line in _ask_driver().splitlines() if line.strip()]
    variable = os.environ.get(VISIBLE)
    if variable is None:
        return gpus
    names = [name.strip() for name in variable.split(",")]
    names = [name for name in names if name not in UNNAMED]
    for name in names:
        if not any(_is(name, gpu) for gpu in gpus):
            raise NoSuchDevice(
                f"{VISIBLE}={variable}: nvidia-smi lists no {name!r}: name GPUs by index or UUID"
            )
    return [gpu for gpu in gpus if any(_is(name, gpu) for name in names)]


def _gpus_or_none() -> list[Gpu]:
    """All visible GPUs; none, with a line in the log, where nvidia-smi is there and fails."""
    if not shutil.which("nvidia-smi"):
        return []
    try:
        return visible()
    except NoSuchDevice as problem:
        logger.warning("no GPU is used: %s", problem)
        return []


def _ask_driver() -> str:
    command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NoSuchDevice(f"nvidia-smi does not tell of GPUs: {problem}") from None
    if answer.returncode != 0:
        message = " ".join((answer.stdout + answer.stderr).split())[:300]
        raise NoSuchDevice(f"nvidia-smi does not tell of GPUs: {message or answer.returncode}")
    return answer.stdout


def _gpu(line: str) -> Gpu:
    try:
        index, uuid, name, free, used, total, capability = (
            part.strip() for part in line.split(",")
        )
        major, minor = capability.split(".")
        return Gpu(
            *(index, uuid, name),
            free_bytes=int(free) * 2**20,
            used_bytes=int(used) * 2**20 if used.isdigit() else None,
            total_bytes=int(total) * 2**20 if total.isdigit() else None,
            capability=(int(major), int(minor)),
        )
    except ValueError:
        raise NoSuchDevice(
            f"nvidia-smi tells {line.strip()!r} of a GPU where {FIELDS} was asked: "
            f"name the others by --devices, or {CPU!r}"
        ) from None


def _is(name: str, gpu: Gpu) -> bool:
    """CUDA takes the beginning of a UUID for the whole."""
    return name == gpu.index or (name.startswith("GPU-") and gpu.uuid.startswith(name))


def device_option(gpus: Iterable[Gpu]) -> str:
    """As `--devices` takes them."""
    return ",".join(gpu.index for gpu in gpus) or CPU


CGROUPS = Path("/sys/fs/cgroup")
HOST_SHARE = 0.8
"""Part of the machine's memory that models may take; the rest is for the site and the system."""
SINCE = {"float16": (5, 3), "bfloat16": (8, 0)}
"""Compute capability from which a GPU computes in them; in float32 all do."""
PRECISIONS_FILE = "precisions.json"
PRECISION_PROBE = """
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


def capacity_of(option: str, python: Sequence[str]) -> Capacity:
    """What the devices `option` (as `--devices` has them) can hold, next to whatever is on them.

    `python` starts what computes there. Raises NoSuchDevice.
    """
    gpus = find_gpus(option)
    if not gpus:
        return Capacity(f"cpu, {_cores()} cores", host_memory(), cpu_dtypes(tuple(python)))
    return Capacity(device_name(gpus), sum(gpu.free_bytes for gpu in gpus), gpu_dtypes(gpus))


def device_name(gpus: Sequence[Gpu]) -> str:
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
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())[:100]
    return ""


def gpu_dtypes(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """What all of them compute in."""
    from leaderboard.models.variant import Dtype  # where no models are ready, GPUs are counted

    weakest = min(gpu.capability for gpu in gpus)
    return tuple(str(dtype) for dtype in Dtype if weakest >= SINCE.get(dtype, (0, 0)))


@functools.cache
def cpu_dtypes(python: tuple[str, ...]) -> tuple[str, ...]:
    """What torch computes in on this processor; a short process of its own says so.

    It imports torch, which takes seconds: what it said of this torch and processor is kept in the
    worker's home.
    """
    from leaderboard.models.variant import Dtype

    kept, here = settings.PLUMBLINE_HOME / PRECISIONS_FILE, _torch_and_processor(python)
    known = _read(kept)
    if dtypes := known.get(here):
        return dtypes
    probe = _output_of(python, PRECISION_PROBE, *Dtype.values)
    if not (dtypes := tuple(probe.stdout.split())):
        message = probe.stderr.strip().rpartition("\n")[2]
        raise NoSuchDevice(f"torch computes in no precision on this processor: {message}")
    with suppress(InfraError):  # it is asked again then
        write_whole(kept, json.dumps({**known, here: dtypes}))
    return dtypes


def _torch_and_processor(python: Sequence[str]) -> str:
    """What the answer depends on: a home may be shared by machines, and outlives a version."""
    version = _output_of(python, "from importlib.metadata import version as of; print(of('torch'))")
    return " ".join([*python, version.stdout.strip(), platform.machine(), _processor()])


def _output_of(python: Sequence[str], *program: str) -> subprocess.CompletedProcess[str]:
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
    limits = [2**63]
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return limits
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    for group in (PurePosixPath(own), *PurePosixPath(own).parents):
        file = CGROUPS / str(group).lstrip("/") / "memory.max"
        if file.is_file() and (limit := file.read_text().strip()).isdigit():
            limits.append(int(limit))
    return limits


MEASURE_EVERY = 10.0

InUse = list[tuple[str, int, int]]
"""By device, as `--devices` has it: bytes in use, and bytes in all."""


def memory_in_use(device: str, limit: int) -> InUse:
    """Of the GPUs that this process sees what anybody uses there; on the processor, which a worker
    calls `device`, what it and its children hold of `limit` bytes. Empty where nobody can tell."""
    if device.startswith(CPU):
        return [(CPU, _held_by_us(), limit)]
    try:
        return [
            (gpu.index, gpu.used_bytes, gpu.total_bytes)
            for gpu in visible()
            if gpu.used_bytes is not None and gpu.total_bytes is not None
        ]
    except NoSuchDevice as problem:
        logger.warning("memory in use is not known: %s", problem)
        return []


def _held_by_us() -> int:
    own = psutil.Process()
    held = 0
    for process in (own, *child.living(own.pid)):
        with suppress(psutil.Error):  # it has ended since it was listed
            held += child.own_memory(process)
    return held


class MemoryMeter:
    """Looks again and again, in a thread of its own, until it is told to end."""

    def __init__(self, device: str, limit: int) -> None:
        self._device = device
        self._limit = limit
        self._over = threading.Event()
        self.reading: InUse | None = None
        """None until it has looked for the first time."""

    def start(self) -> None:
        threading.Thread(target=self._look, name="memory in use", daemon=True).start()

    def end(self) -> None:
        """Not waited for: where it hangs it is left behind."""
        self._over.set()

    def _look(self) -> None:
        while not self._over.is_set():
            self.reading = memory_in_use(self._device, self._limit)
            self._over.wait(MEASURE_EVERY)
