"""What a child process may see of the machine: an environment by allow-list, files by name."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from leaderboard.models import Variant
from runners import hub_cache

INHERITED = (
    *("PATH", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
)
"""Variables that children take from the worker; nothing else of its environment reaches them."""


def child_environment(work: Path, *, online: bool) -> dict[str, str]:
    """The whole environment of a child that works in the folder `work`.

    Only a child that fetches is `online`: it gets the Hub token where the worker has one, and runs
    no model code. HOME and TMPDIR are folders below `work`, made here.
    """
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    for name, folder in (("HOME", work / "home"), ("TMPDIR", work / "tmp")):
        folder.mkdir(parents=True, exist_ok=True)
        environment[name] = str(folder)
    environment["HF_ENDPOINT"] = settings.HF_ENDPOINT
    environment["HF_HOME"] = str(hub_cache.home())
    if not online:
        environment["HF_HUB_OFFLINE"] = "1"
        # Where transformers copies code to before it runs it; HF_HOME can only be read there.
        environment["HF_MODULES_CACHE"] = str(work / "home" / "modules")
    elif settings.HF_TOKEN:
        environment["HF_TOKEN"] = settings.HF_TOKEN
    return environment


def readable(variant: Variant) -> list[Path]:
    """What the cache has of this model, and the data sets; no other model, and no token."""
    hub = hub_cache.home() / "hub"
    own = [hub / f"models--{name.replace('/', '--')}" for name, _ in variant.repositories]
    return [*own, *sorted(hub.glob("datasets--*")), hub_cache.home() / "datasets"]
