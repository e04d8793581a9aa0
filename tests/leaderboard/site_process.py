"""Processes of a site of its own, for what no process that already runs can show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def python(home: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with this command, as a site in this folder with these variables alone."""
    inherited = {name: text for name, text in os.environ.items() if "PLUMBLINE" not in name}
    own = {"DJANGO_SETTINGS_MODULE": "leaderboard.settings", "PLUMBLINE_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, *command],
        env={**inherited, **own, **variables},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done
