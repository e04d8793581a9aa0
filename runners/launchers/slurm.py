"""Slurm: a job for each worker, submitted by submitit, watched by squeue.

submitit asks `sacct` for states, which needs Slurm's accounting; where there is none every state is
unknown. squeue always knows what waits and runs, and that is all that is asked here.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import submitit
from django.conf import settings

from runners.launchers.engine import EngineTrouble, NoAnswer, Order

OPTIONS: Mapping[str, str] = {
    "account": "slurm_account",
    "constraint": "slurm_constraint",
    "cpus_per_task": "cpus_per_task",
    "exclude": "slurm_exclude",
    "gres": "slurm_gres",
    "mem_gb": "mem_gb",
    "partition": "slurm_partition",
    "qos": "slurm_qos",
    "setup": "slurm_setup",
}
"""What a kind may say to Slurm, and what submitit calls it."""
LOST = ("timed out", "Zero Bytes were transmitted", "Unexpected message received")
"""What sbatch says where the controller may have made the job."""
SECONDS = 20.0
"""For a command of Slurm's to answer."""


class Slurm:
    OPTIONS: Mapping[str, str] = OPTIONS

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._folder = Path(settings.PLUMBLINE_HOME) / "launches"

    def launch(self, order: Order) -> str:
        stated = {**self._options, **order.kind.options}
        told = {OPTIONS[name]: value for name, value in stated.items()}
        if order.kind.gpus and "gres" not in stated:
            told["gpus_per_node"] = order.kind.gpus
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            executor = submitit.AutoExecutor(folder=self._folder / "%j", cluster="slurm")
            executor.update_parameters(
                name=order.name, timeout_min=max(math.ceil(order.seconds / 60), 1), **told
            )
            # The worker takes the place of submitit's process, and hears Slurm's signals itself.
            job = executor.submit(os.execv, sys.executable, [sys.executable, *order.arguments])
        # What submitit raises depends on the version of Slurm and on what is wrong with an option.
        except Exception as problem:
            # The job may be there: sbatch did not hear of it, or submitit failed after it.
            with suppress(EngineTrouble):
                if made := self.find(order.name):
                    return made
            lost = any(words in str(problem) for words in LOST)
            trouble = NoAnswer if lost else EngineTrouble
            raise trouble(f"Slurm: {_short(str(problem))}") from problem
        return str(job.job_id)

    def find(self, name: str) -> str | None:
        told = _run("squeue", "--noheader", "--name", name, "--format", "%i")
        if told.returncode != 0:
            raise EngineTrouble(f"squeue: {_short(told.stderr)}")
        return next(iter(told.stdout.split()), None)

    def alive(self, handle: str) -> bool | None:
        told = _run("squeue", "--noheader", "--jobs", handle, "--format", "%T")
        if told.returncode == 0:
            return bool(told.stdout.strip())
        if "Invalid job id" in told.stderr:
            return False
        raise EngineTrouble(f"squeue: {_short(told.stderr)}")

    def cancel(self, handle: str) -> None:
        told = _run("scancel", handle)
        if told.returncode != 0 and "Invalid job id" not in told.stderr:
            raise EngineTrouble(f"scancel: {_short(told.stderr)}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise EngineTrouble(f"{command[0]}: {problem}") from None


def _short(text: str) -> str:
    return " ".join(text.split())[:300]
