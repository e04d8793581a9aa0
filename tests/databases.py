"""SQLite databases of tests: migrated once for all processes, and put back as they were by a copy.

To apply each migration takes seconds of a processor, to copy what they come to milliseconds. On
PostgreSQL everything is as Django and pytest-django have it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase

ROOT = Path(__file__).resolve().parent.parent
SHARED = "PLUMBLINE_TESTS_SHARED"
"""The folder of all processes of one run of the tests, which `tests/settings.py` names."""
PATIENCE = 30.0
"""Seconds for another thread's transaction to end."""


def migrated() -> Path:
    """The file of a database that has its tables and what migrations put into them, no more."""
    folder = Path(os.environ[SHARED])
    file = folder / "migrated.sqlite3"
    with (folder / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            _migrate(file)
    return file


def _migrate(file: Path) -> None:
    kept_back = ("PLUMBLINE_", "DJANGO_")
    inherited = {n: value for n, value in os.environ.items() if not n.startswith(kept_back)}
    with tempfile.TemporaryDirectory(dir=file.parent) as home:
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=ROOT, env={**inherited, "PLUMBLINE_HOME": home, "PLUMBLINE_DEBUG": "1"}, check=True,
        )  # fmt: skip
        whole = Path(home, "whole.sqlite3")
        with (
            closing(sqlite3.connect(Path(home, "db.sqlite3"))) as made,
            closing(sqlite3.connect(whole)) as copy,
        ):
            made.backup(copy)  # with what lies in its journal
        whole.rename(file)


def begin_at(home: Path) -> None:
    """Give a site of its own in this folder the tables that it would make when it starts."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(migrated(), home / "db.sqlite3")


def begin_here() -> bool:
    """Give this process's own database its tables; False where it is not of SQLite."""
    database = settings.DATABASES["default"]
    if not str(database["ENGINE"]).endswith("sqlite3"):
        return False
    shutil.copyfile(migrated(), database["TEST"]["NAME"])
    return True


@contextmanager
def put_back_by_copy(blocker: Any) -> Iterator[None]:
    """What a test with transactions of its own has left is overwritten, in place of being deleted.

    To delete it from each table and to fill those again that Django itself fills takes longer than
    most of these tests.
    """
    if connection.vendor != "sqlite":
        yield
        return
    with closing(sqlite3.connect(":memory:")) as image, pytest.MonkeyPatch.context() as patch:
        with blocker.unblock():
            connection.ensure_connection()
            connection.connection.backup(image)
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: _put_back(image))
        yield


def _put_back(image: sqlite3.Connection) -> None:
    from leaderboard.snapshot import published
    from leaderboard.web import kept

    deadline = time.monotonic() + PATIENCE

    def check(status: int, remaining: int, total: int) -> None:
        if remaining and time.monotonic() > deadline:
            raise TimeoutError("a transaction of another thread has not ended")

    connection.ensure_connection()
    image.backup(connection.connection, progress=check)
    # The next rows have the numbers of these again, by which pages are kept in memory.
    kept.forget()
    published.forget()
