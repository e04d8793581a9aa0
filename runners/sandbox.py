"""What a child process may see of the machine: an environment by allow-list, files by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from django.conf import settings

from evalcore.errors import TaskError
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from leaderboard.models import Run, Variant
from runners import hub_cache
from runners.shown import CERTIFICATES

INHERITED = (
    *("PATH", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
)
"""Variables that children take from the worker; nothing else of its environment reaches them."""
PROXIES = tuple(
    spelt
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for spelt in (name, name.lower())
)
OF_A_DOWNLOAD = (*CERTIFICATES, *PROXIES)
"""What a child takes beside them that has the network."""


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
    # Where transformers and datasets copy code to; the cache of all models is no place for that.
    environment["HF_MODULES_CACHE"] = str(work / "home" / "modules")
    if not online:
        environment["HF_HUB_OFFLINE"] = "1"
        return environment
    environment |= {name: os.environ[name] for name in OF_A_DOWNLOAD if name in os.environ}
    # Of its own: files, and pieces of them, that one download kept would be taken by the next.
    environment["HF_XET_CACHE"] = str(work / "home" / "xet")
    environment["HF_HUB_DISABLE_SHARED_BLOBS"] = "1"
    if token := settings.HF_TOKEN or _token_of_the_cache():
        environment["HF_TOKEN"] = token
    return environment


def _token_of_the_cache() -> str:
    """What `hf auth login` left there; the child itself cannot read it."""
    try:
        return (hub_cache.home() / "token").read_text().strip()
    except OSError:
        return ""


def readable(variant: Variant) -> list[Path]:
    """What the cache has of this model, and the data sets; no other model, and no token."""
    hub = hub_cache.home() / "hub"
    own = [hub / f"models--{name.replace('/', '--')}" for name, _ in variant.repositories]
    return [*own, *sorted(hub.glob("datasets--*")), hub_cache.home() / "datasets"]


def downloads(variant: Variant, runs: Iterable[Run]) -> list[Path]:
    """The cache's folders that a fetch for these runs writes, made here: none of another model.

    A download that exploits a bug of its client can spoil what it downloads, and nothing else but
    prepared data sets.
    """
    hub = hub_cache.home() / "hub"
    prepared = hub_cache.home() / "datasets"
    names = [f"models--{name}" for name, _ in variant.repositories]
    for leaf in _leaves(runs):
        if leaf.custom_dataset is not None:
            prepared.mkdir(parents=True, exist_ok=True)
            hub.mkdir(parents=True, exist_ok=True)
            return [hub, prepared]  # a function of the operator's loads what it likes
        if leaf.dataset_path and not Path(leaf.dataset_path).is_absolute():
            names.append(f"datasets--{leaf.dataset_path}")
        # A kind of file as its path, and where these lie.
        found = re.findall(r"hf://datasets/([\w.-]+/[\w.-]+)", str(leaf.dataset_kwargs))
        names += [f"datasets--{name}" for name in found]
    named = dict.fromkeys(name.replace("/", "--") for name in names)
    folders = [folder / name for name in named for folder in (hub, hub / ".locks")]
    for folder in (*folders, prepared):
        folder.mkdir(parents=True, exist_ok=True)
    return [*folders, prepared]


def _leaves(runs: Iterable[Run]) -> Iterable[TaskSpec]:
    """A task that is not in the library, or cannot be read, is left to the engine's own words."""
    library = TaskLibrary([settings.PLUMBLINE_TASKS])
    for run in runs:
        try:
            yield from library.one(run.task.name).leaves()
        except TaskError:
            continue
