"""`python -m runners`: the site with its workers, as one process tree; `… PART`: one part alone."""

from __future__ import annotations

import argparse
import compileall
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import SystemCheckError

import evalcore
from leaderboard.environment import start_django
from runners import supervisor


def main() -> int:
    """The tree, or in place of this process the part that was named, as in a container."""
    parser = argparse.ArgumentParser(prog="python -m runners", description=__doc__)
    parts = parser.add_subparsers(dest="part", metavar="PART")
    commands = supervisor.commands()
    for name in commands:
        parts.add_parser(name, help="run this part alone")
    others: dict[str, tuple[Callable[[], int], str]] = {
        "evaluate": (supervisor.evaluate, "run the workers of all devices of this machine"),
        "prepare": (prepare, "do what must be done before the parts start"),
        "health": (health, "say whether a worker of this machine was seen lately"),
    }
    for name, (_, about) in others.items():
        parts.add_parser(name, help=about)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    if options.part is None:
        return supervisor.main()
    if options.part in others:
        return others[options.part][0]()
    if options.part == "site":
        try:
            supervisor.site_host()
        except ImproperlyConfigured as problem:
            sys.stderr.write(f"plumbline: {problem}\n")
            return 1
    command = commands[options.part]
    os.execv(command[0], command)  # noqa: S606


def health() -> int:
    """Whether a worker of this machine that evaluates was seen lately, for the check of a
    container: 0 where it was, 1 with a sentence where not."""
    start_django()
    from leaderboard.queue import live_workers  # tables can be imported only after the setup

    host = f"@{socket.gethostname()}"
    if any(worker.name.endswith(host) for worker in live_workers()):
        return 0
    sys.stderr.write(
        f"no worker {host} was seen for minutes: it does not run, or without its database\n"
    )
    return 1


def prepare() -> int:
    """Bring the database, the tables of tasks and the static files up to date; 1 with a reason."""
    start_django()
    from leaderboard.catalogue import newest_suite
    from leaderboard.samples import vectors
    from leaderboard.snapshot import published
    from runners import apps

    try:
        call_command("check", tags=[apps.CONFINEMENT])
    except SystemCheckError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    keep_to_this_user()
    compile_engine()
    if missing := migrations_of_an_earlier_checkout():
        sys.stderr.write(
            "this database was made by an earlier checkout, before its migrations became one: it "
            f"lacks {', '.join(missing)}. Run `git checkout {LAST_OF_MANY}`, then `python -m "
            "runners prepare`, then come back to this checkout\n"
        )
        return 1
    call_command("migrate", interactive=False, verbosity=0)
    call_command("sync_tasks")
    while vectors.fill_missing():
        pass  # runs of an earlier version, of which the scores by question were not yet kept
    if suite := newest_suite(settings.PLUMBLINE_SUITE):
        published.build_first(suite)
    if not settings.DEBUG:
        call_command("collectstatic", interactive=False, verbosity=0)
    return 0


LAST_OF_MANY = "c4512e79"
"""The last commit that has the migrations which `0001_tables` replaces."""


def migrations_of_an_earlier_checkout() -> list[str]:
    """Those of the replaced migrations that the database lacks, where it has others of them."""
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.recorder import MigrationRecorder

    tables = MigrationLoader(None).disk_migrations["leaderboard", "0001_tables"]
    applied = MigrationRecorder(connection).applied_migrations()
    if ("leaderboard", "0001_tables") in applied or applied.keys().isdisjoint(tables.replaces):
        return []
    return [name for app, name in tables.replaces if (app, name) not in applied]


def compile_engine() -> None:
    """Write the engine's bytecode, where one may: a model's process sees the engine read-only, and
    would compile each module at each start."""
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
    sys.exit(main())
