"""PostgreSQL and Redis for tests: a database and a server of the test's own.

Where a service is missing the test is skipped, loudly; on CI, where it belongs to the machine, the
same is a failure.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psycopg2
import pytest

POSTGRESQL = os.environ.get("PLUMBLINE_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


def missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{what}: on CI a missing service is a failure")
    pytest.skip(what)


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of an empty database that is dropped at the end."""
    try:
        server = psycopg2.connect(POSTGRESQL, connect_timeout=3)
    except psycopg2.OperationalError as error:
        missing(f"NO POSTGRESQL at {POSTGRESQL} (PLUMBLINE_TEST_POSTGRES): {error}")
    server.autocommit = True
    name = f"plumbline_{uuid.uuid4().hex[:12]}"
    with server.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRESQL.rsplit('/', 1)[0]}/{name}"
        finally:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    server.close()


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """The address of a Redis server that lives as long as the test."""
    program = shutil.which("redis-server")
    if program is None:
        missing("NO REDIS: there is no redis-server on the PATH")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
    server = subprocess.Popen([*command, str(folder)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
