"""What a child process may see of the machine: an environment by allow-list, and no network."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
from pathlib import Path

from django.conf import settings

logger = logging.getLogger(__name__)

INHERITED = ("PATH", "LANG", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
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
    environment["HF_HOME"] = os.environ.get("HF_HOME") or str(settings.PLUMBLINE_HOME / "hf")
    if not online:
        environment["HF_HUB_OFFLINE"] = "1"
    elif token := os.environ.get("HF_TOKEN"):
        environment["HF_TOKEN"] = token
    return environment


@functools.cache
def no_network() -> tuple[str, ...]:
    """What to put before a command so that it runs without network; empty where nothing can."""
    prefix = ("unshare", "-Urn")
    if shutil.which(prefix[0]):
        probe = subprocess.run([*prefix, "true"], capture_output=True, timeout=10, check=False)
        if probe.returncode == 0:
            return prefix
    logger.warning(
        "user namespaces are not available here: models are evaluated offline and without a "
        "token, but their process could reach the network"
    )
    return ()
