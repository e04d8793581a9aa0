"""The folder that EVALCORE_CACHE names, else one in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where the engine keeps what it can make again."""
    stated = os.environ.get("EVALCORE_CACHE")
    if stated:
        return Path(stated)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evalcore"
