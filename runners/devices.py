"""The GPUs of this machine as nvidia-smi tells of them, and which of them a worker has.

Nothing here imports torch or starts CUDA: whoever only asks must not hold memory on a device.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaderboard import environment as env

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
    if stated := env.text("PLUMBLINE_DEVICES", "").split():
        return stated
    return [gpu.index for gpu in _found_or_none()] or [CPU]


def chosen(stated: str) -> list[Gpu]:
    """The GPUs in `0,1`, by index or UUID; all visible ones for nothing, none for `cpu`.

    Raises NoSuchDevice.
    """
    if stated == CPU:
        return []
    if not stated:
        return _found_or_none()
    found = visible()
    names = [name.strip() for name in stated.split(",")]
    gpus = [next((gpu for gpu in found if _is(name, gpu)), None) for name in names]
    for name, gpu in zip(names, gpus, strict=True):
        if gpu is None:
            known = ", ".join(gpu.index for gpu in found) or "none"
            raise NoSuchDevice(
                f"no GPU {name!r} for this process: nvidia-smi and {VISIBLE} leave {known}; "
                f"name those by commas, or {CPU!r}"
            )
    known_gpus = [gpu for gpu in gpus if gpu]
    if len({gpu.uuid for gpu in known_gpus}) < len(known_gpus):
        raise NoSuchDevice(f"{stated!r} names a GPU twice: name each once")
    return known_gpus


def keep_to(gpus: Sequence[Gpu]) -> None:
    """Let processes that are started from here see these GPUs alone."""
    os.environ[VISIBLE] = ",".join(gpu.index for gpu in gpus)
    # CUDA counts the fastest first if nobody says otherwise, nvidia-smi by place.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def visible() -> list[Gpu]:
    """Those that a child would see. Raises NoSuchDevice where nvidia-smi does not tell."""
    gpus = [_gpu(line) for line in _told().splitlines() if line.strip()]
    wanted = os.environ.get(VISIBLE)
    if wanted is None:
        return gpus
    names = [name.strip() for name in wanted.split(",")]
    names = [name for name in names if name not in UNNAMED]
    for name in names:
        if not any(_is(name, gpu) for gpu in gpus):
            raise NoSuchDevice(
                f"{VISIBLE}={wanted}: nvidia-smi lists no {name!r}: name GPUs by index or UUID"
            )
    return [gpu for gpu in gpus if any(_is(name, gpu) for name in names)]


def _found_or_none() -> list[Gpu]:
    """All visible GPUs; none, with a line in the log, where nvidia-smi is there and fails."""
    if not shutil.which("nvidia-smi"):
        return []
    try:
        return visible()
    except NoSuchDevice as problem:
        logger.warning("no GPU is used: %s", problem)
        return []


def _told() -> str:
    command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NoSuchDevice(f"nvidia-smi does not tell of GPUs: {problem}") from None
    if told.returncode != 0:
        said = " ".join((told.stdout + told.stderr).split())[:300]
        raise NoSuchDevice(f"nvidia-smi does not tell of GPUs: {said or told.returncode}")
    return told.stdout


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


def stated(gpus: Iterable[Gpu]) -> str:
    """As `--devices` takes them."""
    return ",".join(gpu.index for gpu in gpus) or CPU
