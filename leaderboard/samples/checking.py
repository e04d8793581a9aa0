"""Whether the store and its rows agree: no file missing, damaged or left over."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.core.files.storage import storages
from django.db.models import QuerySet

from evalcore.digest import digest_of_file
from leaderboard.models import Artifact, BoardSnapshot, ItemAnalysis
from leaderboard.samples.store import path_of

ORPHAN_AFTER = timedelta(days=1)
"""A file is written before the row that names it: a younger one may be waiting for its row."""

OF_RUN = "restore it from a back-up, or withdraw the run and evaluate it again"
OF_BOARD = "the newest board is built again by itself; one of a past day only a back-up has"
OF_QUESTIONS = "restore it from a back-up; it is made again when a run of its column is finished"
OF_NOBODY = "no row names it: check_artifacts --collect removes it"
_STORED = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}|(incoming|collected)-[^/]+")


@dataclass(frozen=True)
class Fault:
    """A file that is not as the rows say, and what to do."""

    file: Path
    wrong: str
    remedy: str


def faults() -> Iterator[Fault]:
    """Rows whose file is missing or another one, then files without a row. Reads every file."""
    for artifact in Artifact.objects.order_by("pk").iterator():
        whose = f"{artifact.kind} of run {artifact.run_id}"
        yield from _of_row(whose, artifact.sha256, artifact.bytes, OF_RUN)
    for row in BoardSnapshot.objects.order_by("pk").select_related("suite").iterator():
        yield from _of_row(f"board {row}", row.sha256, row.bytes, OF_BOARD)
    for analysis in ItemAnalysis.objects.order_by("pk").iterator():
        whose = f"questions of column {analysis.comparability_key[:12]}"
        yield from _of_row(whose, analysis.sha256, None, OF_QUESTIONS)
    for file in orphans():
        yield Fault(file, "left over", OF_NOBODY)


def _of_row(whose: str, sha256: str, size: int | None, remedy: str) -> Iterator[Fault]:
    file = path_of(sha256)
    wrong = ""
    try:
        found = file.stat().st_size
        if size is not None and found != size:
            wrong = f"{found} bytes, {size} were stored"
        elif digest_of_file(file) != sha256:
            wrong = "its content is not what was stored"
    except OSError as problem:
        wrong = problem.strerror or str(problem)
    # Old boards go, file and row, while thousands of others are read.
    if wrong and _is_named(file):
        yield Fault(file, f"{whose}: {wrong}", remedy)


def orphans() -> Iterator[Path]:
    """The store's files older than a day that no row names."""
    folder = Path(storages["artifacts"].path(""))
    named = {digest for rows in _named() for digest in rows}
    for file in sorted((*folder.glob("*-*"), *folder.glob("??/*"))):
        ours = _STORED.fullmatch(str(file.relative_to(folder)))
        if ours and file.name not in named and _is_old(file):
            yield file


def collect(file: Path) -> bool:
    """Remove an orphan; False where somebody stored the same again in the meantime.

    It gets another name first: what is then found under that is what is removed, and no file that
    was put in its place a moment ago.
    """
    taken = Path(storages["artifacts"].path(f"collected-{uuid4().hex}"))
    try:
        file.rename(taken)
    except FileNotFoundError:
        return False
    if _is_named(file) or not _is_old(taken):
        taken.rename(file)
        return False
    taken.unlink()
    return True


def _is_named(file: Path) -> bool:
    return any(rows.filter(sha256=file.name).exists() for rows in _named())


def _named() -> list[QuerySet[Any, str]]:
    """The digests in every table that has any: what a table to come names is no orphan either."""
    tables = apps.get_app_config("leaderboard").get_models()
    return [
        table._default_manager.values_list("sha256", flat=True)
        for table in tables
        if any(field.name == "sha256" for field in table._meta.get_fields())
    ]


def _is_old(file: Path) -> bool:
    try:
        return time.time() - file.stat().st_mtime > ORPHAN_AFTER.total_seconds()
    except FileNotFoundError:
        return False
