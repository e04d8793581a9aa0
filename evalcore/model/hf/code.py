"""Code of a model's own: what its configuration names, and where that lies.

transformers runs it where `trust_remote_code` is true; nobody else here does, and nothing of it is
run while files are downloaded. What was run is pinned: the repositories with code, each with its
commit, or with the digest of its code where it is a folder. Imports neither torch nor transformers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evalcore.digest import digest_of, digest_of_file

MODULES = "*.py"
"""The files of a repository that its code may consist of, in any of its folders."""

ELSEWHERE = "--"
"""Stands between another repository and a class of it: `owner/name--module.Class`."""

NAMING = ("config.json", "tokenizer_config.json")
"""The files that may name code."""


def references(config: Mapping[str, Any]) -> list[str]:
    """The classes that a configuration names in its `auto_map`, as it names them."""
    named = config.get("auto_map")
    found: list[str] = []
    for value in named.values() if isinstance(named, dict) else ():
        # A tokenizer has a slow class and a fast one, either of which may be missing.
        parts = value if isinstance(value, list) else [value]
        found += [part for part in parts if isinstance(part, str)]
    return found


def has_own(named: Iterable[str]) -> bool:
    """Whether code of the repository itself is among these."""
    return any(ELSEWHERE not in reference for reference in named)


def others(named: Iterable[str]) -> list[str]:
    """The other repositories that code is taken from."""
    apart = (reference.partition(ELSEWHERE) for reference in named)
    return sorted({repository for repository, between, _ in apart if between})


def pin_of(name: str, folder: Path, commit: str | None) -> str:
    """Name, @, and the commit; of a folder of this machine the digest of its code."""
    if commit is not None:
        return f"{name}@{commit}"
    files = sorted(folder.rglob(MODULES))
    return f"{name}@{digest_of([[str(f.relative_to(folder)), digest_of_file(f)] for f in files])}"
