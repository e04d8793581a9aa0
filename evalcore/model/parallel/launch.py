"""How many copies of a model there shall be, where each lies, and who starts their processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from evalcore.errors import InfraError, ModelError

OF_A_LAUNCHER = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
    "MASTER_PORT",
)  # fmt: skip
"""Variables by which `torchrun` and `accelerate launch` tell a process which of several it is."""


TIME_TO_MEET = timedelta(minutes=10)
"""In which each process of a launcher has read its options, or imported torch."""


@dataclass(frozen=True)
class Launched:
    """Which of several processes this is, that a launcher has started."""

    rank: int
    size: int
    here: int
    """How many of them run on this machine."""


def launched(environment: Mapping[str, str]) -> Launched | None:
    """None for a process by itself.

    `torchrun` and `accelerate launch` set both variables. One alone, or a number that fits no rank,
    is of something else.
    """
    rank, size = (environment.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)) or int(size) == 1:
        return None
    here = environment.get("LOCAL_WORLD_SIZE", "")
    return Launched(int(rank), int(size), int(here) if here.isdecimal() else int(size))


def without_launcher() -> dict[str, str]:
    """The environment of a process that is none of the launcher's: libraries would look for the
    others."""
    return {name: value for name, value in os.environ.items() if name not in OF_A_LAUNCHER}


def copies_wanted(
    stated: int | Literal["auto"] | None, launcher: Launched | None
) -> int | Literal["auto"] | None:
    """How many copies an option and a launcher ask for together; None: no more than one.

    Raises ModelError where they contradict one another, or the launcher uses several machines.
    """
    if launcher is None:
        return stated
    if launcher.here != launcher.size:
        raise ModelError(
            f"started as {launcher.size} processes, {launcher.here} of them on this machine: "
            "copies of a model share their requests on one machine only"
        )
    if stated not in (None, "auto", launcher.size):
        raise ModelError(
            f"--data_parallel {stated}: the launcher has started {launcher.size} processes, each "
            "of which holds a copy: leave one of the two out"
        )
    return launcher.size


def devices_of(copies: int | Literal["auto"], device: str | None, n_gpus: int) -> list[str]:
    """Where each copy lies; a single one is no matter of this package.

    Raises ModelError for more copies than there are GPUs, and for a GPU that is named beside them.
    """
    if device is not None and device != "cpu" and device != "cuda":
        raise ModelError(
            f"--device {device}: --data_parallel puts each copy on a device of its own: "
            "leave --device out, or say cpu"
        )
    if device == "cpu":
        cores = os.cpu_count() or 1
        if copies != "auto" and copies > cores:
            raise ModelError(
                f"--data_parallel {copies}: this machine has {cores} processor cores, and a copy "
                "wants one at least"
            )
        return ["cpu"] * (1 if copies == "auto" else copies)
    if copies == "auto":
        return [f"cuda:{place}" for place in range(n_gpus)] or ["cpu"]
    if copies > n_gpus:
        has = f"has {n_gpus} GPU{'s' * (n_gpus > 1)}" if n_gpus else "has no GPU"
        raise ModelError(
            f"--data_parallel {copies}: this machine {has}: give at most as many, or auto, or "
            "--device cpu to compute on the processor"
        )
    return [f"cuda:{place}" for place in range(copies)]


def meet(address: str | None) -> str:
    """Where rank 0 listens, which it tells all other processes of its launcher.

    Raises InfraError where they do not come together.
    """
    import torch.distributed as distributed

    told = [address]
    try:
        distributed.init_process_group("gloo", timeout=TIME_TO_MEET)
        distributed.broadcast_object_list(told, src=0)
        distributed.destroy_process_group()
    except (RuntimeError, ValueError) as problem:  # what torch raises for a peer that is not there
        raise InfraError(f"the processes of the launcher did not meet: {problem}") from problem
    if told[0] is None:
        raise InfraError("rank 0 of the launcher did not say where it listens")
    return told[0]
