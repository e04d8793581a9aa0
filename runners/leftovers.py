"""Files that no living evaluation needs any more."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import time
from uuid import UUID

from django.conf import settings

from leaderboard.models import Run

KEEP_LOGS = timedelta(days=14)


def sweep() -> int:
    """Remove work folders of claims that are gone and old logs; how many."""
    gone = 0
    for folder in (settings.PLUMBLINE_HOME / "work").glob("*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    for log in (settings.PLUMBLINE_HOME / "logs").glob("*.log"):
        with suppress(FileNotFoundError):
            if time() - log.stat().st_mtime > KEEP_LOGS.total_seconds():
                log.unlink()
                gone += 1
    return gone


def _is_abandoned(folder: Path) -> bool:
    try:
        token = UUID(folder.name)
    except ValueError:
        return False
    return not Run.objects.filter(lease_token=token).exists()
