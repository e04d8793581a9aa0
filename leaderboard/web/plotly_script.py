"""plotly's own script, served from its package: the repository has no copy of it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

SCRIPT = "plotly.min.js"
MAP_STYLE_ID = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53"
"""The ID of an element that a page must have: without one the script adds a style of its own, for
maps, which the Content-Security-Policy forbids. Another release of plotly has another ID; a test
finds it in the script."""


def package_data() -> Path:
    """Found without importing plotly, which takes half a second."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ImportError("plotly is not installed")
    return Path(spec.origin).parent / "package_data"


class Finder(BaseFinder):
    def find(self, path: str, find_all: bool = False, **_: Any) -> Any:
        found = [str(package_data() / SCRIPT)] if path == SCRIPT else []
        return found if find_all or not found else found[0]

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:  # noqa: ARG002
        yield SCRIPT, FileSystemStorage(location=package_data())
