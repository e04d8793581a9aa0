"""What this worker computes models with, and what the process that does it needs.

transformers, in the worker's own environment; or vLLM, which wants other versions of torch and
transformers and so has an environment of its own, into which evalcore is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from evalcore.sandbox.confinement import PARTS_OF_PYTHON
from leaderboard.models.variant import TRANSFORMERS, VLLM
from runners.devices import CPU, find_gpus
from runners.process import PYTHON

SPREAD = "parallelize=True"
OPTIONS_OF_VLLM = "VLLM_"
"""How variables begin that vLLM takes settings from, such as the memory for its cache."""


def backend() -> str:
    """By the name of `--model`."""
    return VLLM if settings.PLUMBLINE_VLLM_PYTHON else TRANSFORMERS


def python() -> tuple[str, ...]:
    """What starts the engine."""
    own = settings.PLUMBLINE_VLLM_PYTHON
    return (own, *PYTHON[1:]) if own else PYTHON


def arguments(device: str, needed_bytes: int) -> str:
    """What the engine is told beside the model, on a worker's `device` as its row has it.

    transformers puts a model on the first GPU alone unless it is told to spread it over all, whose
    memory together the worker counts; one that has room on each of them is computed on the first,
    as layers on several wait for each other.
    """
    if backend() == VLLM:
        return settings.PLUMBLINE_VLLM_ARGS
    count, several, _ = device.partition(" x ")
    if not several or count == "1":
        return ""
    # All of its memory, not what is free: with a model that was kept on it less would be.
    smallest = min((gpu.total_bytes or gpu.free_bytes for gpu in find_gpus("")), default=0)
    return SPREAD if needed_bytes > smallest else ""


def place(device: str) -> list[str]:
    """Where the engine is told to compute, on a worker's `device` as its row has it.

    By default it takes a GPU where it finds one. Where a worker has one that its model's process
    cannot use, the processor would compute in its place, unnoticed, and be filed as the GPU. vLLM
    computes on GPUs alone.
    """
    return ["--device", "cuda"] if backend() == TRANSFORMERS and not device.startswith(CPU) else []


def folders() -> list[Path]:
    """What the engine's process must be able to read beside what the worker itself runs on."""
    if not settings.PLUMBLINE_VLLM_PYTHON:
        return []
    environment = Path(settings.PLUMBLINE_VLLM_PYTHON).parent.parent
    return [environment / part for part in PARTS_OF_PYTHON]


def variables() -> dict[str, str]:
    """Of the worker's environment, what the engine takes settings from."""
    if backend() != VLLM:
        return {}
    return {name: value for name, value in os.environ.items() if name.startswith(OPTIONS_OF_VLLM)}
