"""Our tasks as files that lm-evaluation-harness loads: written once for all who ask it."""

from __future__ import annotations

import fcntl
from pathlib import Path

from evalcore.cli import main


def export_to(folder: Path) -> Path:
    """The folder with all our tasks' files; written unless another process has done it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    finished = folder.with_suffix(".finished")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            assert main(["export", str(folder), "--to", "lm-eval"]) == 0
            finished.touch()
    return folder
