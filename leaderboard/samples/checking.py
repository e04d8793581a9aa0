"""Whether the store and its rows agree: no file missing, damaged or left over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import QuerySet
from django.utils import timezone

from leaderboard.models import Artifact, BoardSnapshot, ItemAnalysis
from leaderboard.samples import store

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

    name: str
    """In the store."""
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
    for name in orphans():
        yield Fault(name, "left over", OF_NOBODY)


def _of_row(whose: str, sha256: str, size: int | None, remedy: str) -> Iterator[Fault]:
    wrong = ""
    try:
        found = store.size(sha256)
        if size is not None and found != size:
            wrong = f"{found} bytes, {size} were stored"
        elif store.digest(sha256) != sha256:
            wrong = "its content is not what was stored"
    except OSError as problem:
        wrong = problem.strerror or str(problem)
    # Old boards go, file and row, while thousands of others are read.
    if wrong and _is_named(sha256):
        yield Fault(store.name_of(sha256), f"{whose}: {wrong}", remedy)


def orphans() -> Iterator[str]:
    """The names of the store's files that are older than a day and that no row names."""
    named = {digest for rows in _named() for digest in rows}
    for name in _stored():
        digest = name.rpartition("/")[2]
        if _STORED.fullmatch(name) and digest not in named and _is_old(name):
            yield name


def collect(name: str) -> bool:
    """Remove an orphan; False where somebody stored the same again in the meantime.

    It gets another name first: what is then found under that is what is removed, and no file that
    was put in its place a moment ago.
    """
    storage = store.storage()
    try:
        aside = storage.set_aside(name)
    except FileNotFoundError:
        return False
    if _is_named(name.rpartition("/")[2]) or not (storage.copies or _is_old(aside)):
        storage.put_back(aside, name)
        return False
    storage.delete(aside)
    return True


def _stored() -> Iterator[str]:
    storage = store.storage()
    try:
        folders, files = storage.listdir("")
    except FileNotFoundError:
        return
    yield from sorted(files)
    for folder in sorted(folders):
        if re.fullmatch(r"[0-9a-f]{2}", folder):
            yield from sorted(f"{folder}/{file}" for file in storage.listdir(folder)[1])


def _is_named(sha256: str) -> bool:
    return any(rows.filter(sha256=sha256).exists() for rows in _named())


def _named() -> list[QuerySet[Any, str]]:
    """The digests in every table that has any: what a table to come names is no orphan either."""
    tables = apps.get_app_config("leaderboard").get_models()
    return [
        table._default_manager.values_list("sha256", flat=True)
        for table in tables
        if any(field.name == "sha256" for field in table._meta.get_fields())
    ]


def _is_old(name: str) -> bool:
    try:
        written: datetime = store.storage().get_modified_time(name)
    except FileNotFoundError:
        return False
    return timezone.now() - written > ORPHAN_AFTER
