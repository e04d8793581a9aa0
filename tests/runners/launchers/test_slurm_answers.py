"""What is made of an sbatch that fails, with commands in place of Slurm's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from runners.launchers import EngineTrouble, NoAnswer, Order
from runners.launchers.slurm import Slurm
from tests.runners.launchers.plans import kind

ORDER = Order(UUID("00000000-0000-4000-8000-000000000001"), kind(gpus=0))
LOST = "Batch job submission failed: Socket timed out on send/recv operation"


@pytest.fixture
def slurm(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its commands are, of which `squeue` knows nothing."""
    settings.PLUMBLINE_HOME = tmp_path / "home"
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    command(folder, "squeue", "exit 0")
    command(folder, "srun", "exit 0")
    return folder


def command(folder: Path, name: str, does: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("said", "trouble"), [(LOST, NoAnswer), ("error: invalid partition specified", EngineTrouble)]
)
def test_sbatch_may_have_made_the_job_only_where_it_got_no_answer(
    slurm: Path, said: str, trouble: type[EngineTrouble]
) -> None:
    command(slurm, "sbatch", f"echo 'sbatch: {said}' >&2; exit 1")
    with pytest.raises(EngineTrouble, match=said) as met:
        Slurm({}).launch(ORDER)
    assert met.type is trouble


def test_a_job_that_slurm_made_although_sbatch_failed_is_the_one_that_was_asked_for(
    slurm: Path,
) -> None:
    command(slurm, "sbatch", f"echo 'sbatch: {LOST}' >&2; exit 1")
    command(slurm, "squeue", f'case "$*" in *"--name {ORDER.name}"*) echo 17;; esac')
    assert Slurm({}).launch(ORDER) == "17"
