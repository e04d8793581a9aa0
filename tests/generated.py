"""A small site of made-up models, made once for all processes that test on one."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests import databases

SMALL = ("--models", "14", "--tasks", "2", "--largest", "60", "--files", "2")


def copy_to(home: Path) -> None:
    """Give a site of its own in this folder, on SQLite, what `demo.generated` makes of SMALL."""
    shared = Path(os.environ[databases.SHARED])
    made = shared / "generated"
    with (shared / "generated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = shared / "unfinished"
            make(unfinished, SMALL)
            unfinished.rename(made)
    shutil.copytree(made, home, dirs_exist_ok=True)


def make(home: Path, size: tuple[str, ...]) -> None:
    """Fill a site of its own in this folder, on SQLite, with made-up models."""
    databases.begin_at(home)
    inherited = {name: text for name, text in os.environ.items() if "PLUMBLINE" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "demo.generated", *size],
        env={
            **inherited,
            "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
            "PLUMBLINE_HOME": str(home),
            "PLUMBLINE_SUITE": "generated",
            "PLUMBLINE_DEBUG": "1",
        },
        cwd=databases.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
