"""A PostgreSQL database of the benchmark's own, filled once and used again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from leaderboard import environment as env
from runners.supervisor import ROOT, CannotStart

SERVER = env.text("PLUMBLINE_BENCH_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
TABLES = {
    "runs": "leaderboard_run",
    "results": "leaderboard_result",
    "vectors of answers": "leaderboard_scorevector",
}
SETTINGS = ("server_version", "shared_buffers", "work_mem", "max_parallel_workers_per_gather")


@dataclass(frozen=True)
class Size:
    """How much is generated, and how much is asked."""

    name: str
    models: int
    """Generated ones."""
    tasks: int
    largest: int
    filters: int
    """Of the board, different ones."""
    pages: int
    """Of models."""
    repeated: int
    """Requests for pages of a kind that were shown before, at the least."""
    starts: int
    """Of the server; and twice as many new snapshots."""

    @property
    def options(self) -> list[str]:
        return [
            *("--models", str(self.models)),
            *("--tasks", str(self.tasks)),
            *("--largest", str(self.largest)),
        ]


FULL = Size("full", 10_000, 60, 14_000, filters=300, pages=200, repeated=60, starts=10)
QUICK = Size("quick", 200, 6, 1_400, filters=30, pages=20, repeated=10, starts=2)


def create(size: Size, *, anew: bool) -> str:
    """The address of the benchmark's own database, made where it is not there; `anew` empties it.

    Raises CannotStart where there is no PostgreSQL.
    """
    if given := env.secret("PLUMBLINE_DATABASE_URL", ""):
        return given
    try:
        server = psycopg2.connect(SERVER, connect_timeout=5)
    except psycopg2.OperationalError as problem:
        raise CannotStart(
            f"no PostgreSQL at {SERVER}: start one, or name it in PLUMBLINE_BENCH_POSTGRES "
            f"({str(problem).strip()})"
        ) from problem
    name = f"plumbline_bench_{size.name}"
    server.autocommit = True
    with closing(server), server.cursor() as cursor:
        if anew:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if cursor.fetchone() is None:
            cursor.execute(f'CREATE DATABASE "{name}"')
    return f"{SERVER.rpartition('/')[0]}/{name}"


def generate(size: Size, variables: Mapping[str, str], log: Path) -> None:
    """Fill it; what the generator says goes on the screen and into `log`."""
    command = [sys.executable, "-m", "demo.generated", *size.options]
    with log.open("w") as copy:
        process = subprocess.Popen(
            command, env=dict(variables), cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for line in process.stdout or ():
            print(line, end="", flush=True)
            copy.write(line)
        if process.wait():
            raise CannotStart("the data could not be generated; the reason is above")


def timings(log: Path) -> dict[str, float]:
    """Seconds of each part of the generation, from its log."""
    found = re.findall(r"^(.+): ([\d.]+) s$", log.read_text(), re.MULTILINE)
    return {what: float(seconds) for what, seconds in found}


def settings() -> dict[str, str]:
    """What of PostgreSQL's settings a reader wants to know, and the size of the database."""
    found = {name: str(_one("SELECT current_setting(%s)", name)) for name in SETTINGS}
    found["database"] = str(_one("SELECT pg_size_pretty(pg_database_size(current_database()))"))
    return found


def row_counts() -> dict[str, int]:
    """Rows of the large tables, by what a row is."""
    return {rows: int(_one(f'SELECT count(*) FROM "{table}"')) for rows, table in TABLES.items()}


def _one(query: str, *values: str) -> Any:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(query, values)
        (found,) = cursor.fetchone()
    return found
