"""`python -m runners.prepare`: what must be done before the site and its workers start."""

from __future__ import annotations

import compileall
import sys
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import SystemCheckError

import evalcore
from leaderboard.environment import start_django


def main() -> None:
    start_django()
    from leaderboard.catalogue import newest_suite
    from leaderboard.samples import vectors  # tables can be imported only after the setup
    from leaderboard.snapshot import published
    from runners import apps

    try:
        call_command("check", tags=[apps.CONFINEMENT])
    except SystemCheckError as problem:
        sys.exit(str(problem))
    keep_to_this_user()
    compile_engine()
    call_command("migrate", interactive=False, verbosity=0)
    call_command("sync_tasks")
    while vectors.fill_missing():
        pass  # runs of an earlier version, of which the scores by question were not yet kept
    if suite := newest_suite(settings.PLUMBLINE_SUITE):
        published.build_first(suite)
    if not settings.DEBUG:
        call_command("collectstatic", interactive=False, verbosity=0)


def compile_engine() -> None:
    """Write the engine's bytecode, where one may: a model's process sees the program read-only, and
    would compile each module again at each start."""
    compileall.compile_dir(evalcore.__path__[0], quiet=2)


def keep_to_this_user() -> None:
    """Let nobody else read a database that is a file: e-mail addresses and sessions are in it.

    SQLite gives its journals the permissions of the database.
    """
    database = settings.DATABASES["default"]
    if not str(database["ENGINE"]).endswith("sqlite3"):
        return
    file = Path(str(database["NAME"]))
    file.touch(mode=0o600)
    for part in ("", "-wal", "-shm"):
        if (found := Path(f"{file}{part}")).exists():
            found.chmod(0o600)


if __name__ == "__main__":
    main()
